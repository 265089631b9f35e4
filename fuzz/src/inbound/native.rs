// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the programs, with the kernel functions of `fuzz/native`.

use super::frame::{Bytes, Frame};
use std::ffi::c_int;
use weirgate_aqm::{
    Discipline, Link, Settings, UdpRule, VirtualQueue, WindowAlgorithm, WindowRule,
};

/// `struct window_settings`.
#[repr(C)]
struct WindowSettings {
    rule: WindowRule,
    rate_bytes_s: u64,
    spare_mask: u32,
    spare_mark: u32,
    ack_class: u32,
    class_count: u32,
    announced_segment: u32,
    announced_resets: u32,
    round_trip_ns: u64,
    by_hosts: u32,
    beside_others: u32,
    classes: [[u64; 2]; 15],
}

/// `struct __sk_buff`, as an array of words.
#[repr(C, align(8))]
struct Context([u32; 46]);

const LENGTH: usize = 0;
const MARK: usize = 2;
const PROTOCOL: usize = 4;
const PRIORITY: usize = 8;
const SEGMENTS: usize = 41;
const SEGMENT_BYTES: usize = 44;

/// The mark bit that marks refused datagrams.
const REFUSED: u32 = 1 << 20;

/// `TC_ACT_UNSPEC` and `TC_ACT_SHOT`.
const LET_GO: c_int = -1;
const DROPPED: c_int = 2;

unsafe extern "C" {
    fn native_forget();
    fn native_packet(bytes: *mut u8, length: u32, network: u32, now_ns: u64, random: u32);
    fn native_window_set(settings: *const WindowSettings, until_ns: u64);
    fn native_window(context: *mut Context, arriving: u32) -> c_int;
    fn native_window_missed() -> u64;
    fn native_udp_set(rule: *const UdpRule, refuse_mark: u32);
    fn udp_states(context: *mut Context) -> c_int;
    fn native_filter_set(link: *const Link, params: *const u64);
    fn inbound(context: *mut Context) -> c_int;
}

/// All three programs, as if just loaded, configured by the first bytes.
pub struct Programs {
    now_ns: u64,
    /// Whether the window program may reset connections.
    pub resets: bool,
}

impl Programs {
    pub fn fresh(bytes: &mut Bytes<'_>) -> Self {
        let [how, rate, announced] = bytes.take();
        let algorithms = [
            WindowAlgorithm::Edge,
            WindowAlgorithm::Steps,
            WindowAlgorithm::Mss,
        ];
        let rule = WindowRule {
            fixed_bytes: if how & 4 == 0 { 0 } else { 4_000 },
            hold_ns: if how & 8 == 0 { 0 } else { 500_000_000 },
            initial_bytes: if how & 16 == 0 { 0 } else { 14_600 },
            limit_bytes: if how & 32 == 0 { 0 } else { 20_000 },
            ..WindowRule::new(algorithms[usize::from(how % 3)])
        };
        let rate = u64::from(rate) << 10;
        let mut classes = [[0; 2]; 15];
        classes[0] = [2, rate / 2];
        classes[1] = [3, 0];
        let settings = WindowSettings {
            rule,
            rate_bytes_s: rate,
            spare_mask: 3,
            spare_mark: 3,
            ack_class: 1,
            class_count: 2,
            announced_segment: if announced & 1 == 0 { 0 } else { 536 },
            announced_resets: u32::from(announced & 2 != 0),
            round_trip_ns: if announced & 4 == 0 { 0 } else { 20_000_000 },
            by_hosts: u32::from(announced >> 3 & 1),
            beside_others: u32::from(announced >> 4 & 1),
            classes,
        };
        let udp = UdpRule {
            mode: u64::from(how >> 6 & 1),
            rate_bytes_s: rate.max(1),
            burst_bytes: 10_000,
            drop_ns: 400_000_000,
            warn_ns: 200_000_000,
            chunk_ns: 20_000_000,
            chunks: 5,
            age_ns: 5_000_000_000,
        };
        let link = Link {
            rate_bytes_s: rate.max(1),
            mtu_bytes: 1_514,
            overhead_bytes: 18,
            framing: u32::from(how >> 7),
            ..Link::default()
        };
        let mut filter = Settings::new(Discipline::named("meredt").expect("one of the kit"));
        let params = [
            ("mark", 2),
            ("min_bytes", 1_000),
            ("max_bytes", 3_000),
            ("weight1", 1 << 16),
        ];
        for (name, value) in params {
            filter.set(name, value).expect("a parameter");
        }
        let filter = VirtualQueue::in_force(&filter);
        // SAFETY: each structure has C's layout, and is copied before this returns.
        unsafe {
            native_forget();
            native_window_set(
                &raw const settings,
                if announced & 3 == 0 { 0 } else { 1 << 40 },
            );
            native_udp_set(&raw const udp, REFUSED);
            native_filter_set(&raw const link, filter.values().as_ptr());
        }
        let resets = announced & 2 != 0;
        Self {
            now_ns: 1_000_000_000,
            resets,
        }
    }

    /// Advances the clock to a packet.
    pub fn look(&mut self, frame: &Frame) {
        self.now_ns += frame.later_ns;
    }

    fn run(&self, frame: &mut Frame, program: impl Fn(*mut Context) -> c_int) -> (c_int, Context) {
        let mut context = Context([0; 46]);
        let length = frame.bytes.len() as u32;
        context.0[LENGTH] = length;
        context.0[MARK] = frame.mark;
        context.0[PROTOCOL] = u32::from(frame.protocol.swap_bytes());
        context.0[PRIORITY] = frame.class;
        (context.0[SEGMENTS], context.0[SEGMENT_BYTES]) = frame.merged;
        // SAFETY: the frame lives as long as the program runs.
        unsafe {
            let bytes = frame.bytes.as_mut_ptr();
            native_packet(
                bytes,
                length,
                frame.network as u32,
                self.now_ns,
                frame.random,
            );
        }
        (program(&raw mut context), context)
    }

    pub fn window(&self, frame: &mut Frame) {
        let arriving = u32::from(!frame.out);
        // SAFETY: the context is initialised, and the packet was set.
        let (verdict, _) = self.run(frame, |context| unsafe { native_window(context, arriving) });
        assert_eq!(verdict, LET_GO);
    }

    pub fn udp(&self, frame: &mut Frame) {
        // SAFETY: as above.
        let (verdict, context) = self.run(frame, |context| unsafe { udp_states(context) });
        assert!([LET_GO, DROPPED].contains(&verdict));
        assert_eq!((context.0[MARK] ^ frame.mark) & !REFUSED, 0);
    }

    pub fn filter(&self, frame: &mut Frame) {
        // SAFETY: as above.
        let (verdict, _) = self.run(frame, |context| unsafe { inbound(context) });
        assert!([LET_GO, DROPPED].contains(&verdict));
    }

    /// Returns how many packets found their connection locked.
    pub fn missed(&self) -> u64 {
        // SAFETY: the map exists.
        unsafe { native_window_missed() }
    }
}
