// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The emulated line between modem and provider, which replaces the modem's bridge, and its log.
//!
//! What a modem adds to a frame is written here from the standards, independently of crate
//! `linklayer`, whose sums a shaper uses.

use crate::session::{in_this_space, run};
use crate::wire::index;
use rustix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::rc::Rc;
use weirgate_bpf::{LineEmulator, LineFraming, LineImpairments, LineRate, LineRecord, LineSide};

/// PPPoE's header and PPP's protocol number (RFC 2516), which are part of the frame.
const SESSION: i32 = 6 + 2;
/// Ethernet's addresses and type, also part of the frame; the line counts what follows them.
const HEADER: i32 = 14;
/// A frame's check sequence, and the minimum length of a frame with it (IEEE 802.3, 3.2).
const CHECK: i32 = 4;
const SMALLEST: u32 = 64;
/// A tag that the modem adds; it may lengthen a frame of minimum length (802.1Q).
const TAG: i32 = 4;
/// The trailer of AAL5 (ITU-T I.363.5).
const TRAILER: i32 = 8;
/// LLC, OUI and PID, and the padding before a bridged frame (RFC 2684, 5.1 and 5.2).
const LLC: i32 = 8;
const PADDING: i32 = 2;
/// LLC and NLPID before PPP, and PPP's protocol number (RFC 2364, 4 and 5).
const PPP: i32 = 2;
const PPP_LLC: i32 = 4;
/// Start, end and check of a frame in packet mode (IEEE 802.3, 61.3.3).
const CODED: i32 = 4;
/// Preamble, delimiter and gap (IEEE 802.3, 4.4.2).
const CABLE: i32 = 20;

/// The encapsulation that a modem applies to a frame.
#[derive(Debug, Clone, Copy)]
pub struct Modem {
    framing: LineFraming,
    /// Bytes added to those that follow the frame's addresses and type.
    added: i32,
    /// The minimum number of bytes on the line for a frame.
    least: u32,
}

impl Modem {
    /// Returns the modem of a line with this name. If the line carries no PPPoE, the modem removes
    /// the session's headers.
    pub fn of(layer: &str) -> Self {
        let (kind, what) = layer.split_once(':').unwrap_or((layer, ""));
        let mut parts = what.split('-');
        let first = parts.next().unwrap();
        let has = |part: &str| what.split('-').any(|one| one == part);
        let session = if what.contains("pppoe") { 0 } else { -SESSION };
        let tag = if has("vlan") { TAG } else { 0 };
        let ethernet = session + HEADER + tag;
        let smallest = SMALLEST + tag as u32;
        let llc = |bytes: i32| if has("llc") { bytes } else { 0 };
        let (framing, added, least) = match (kind, first) {
            ("adsl", "pppoa") => (LineFraming::Atm, session + PPP + llc(PPP_LLC) + TRAILER, 0),
            ("adsl", "routed") => (LineFraming::Atm, session + llc(LLC) + TRAILER, 0),
            ("adsl", _) => {
                let around = llc(LLC) + PADDING + TRAILER;
                if has("fcs") {
                    let least = SMALLEST + around as u32;
                    (LineFraming::Atm, around + ethernet + CHECK, least)
                } else {
                    (LineFraming::Atm, around + ethernet, 0)
                }
            }
            ("vdsl2", _) => {
                let least = smallest + CODED as u32;
                (LineFraming::Ptm, ethernet + CHECK + CODED, least)
            }
            ("docsis", _) => (LineFraming::Plain, ethernet + CHECK, smallest),
            ("ethernet", _) => {
                let least = smallest + CABLE as u32;
                (LineFraming::Plain, ethernet + CHECK + CABLE, least)
            }
            _ => (LineFraming::Plain, session, 0),
        };
        Self {
            framing,
            added,
            least,
        }
    }

    fn side(self, rate: u64, delay_ms: u64, buffer: u32) -> LineSide {
        LineSide {
            rates: vec![LineRate {
                after_ns: 0,
                bits_per_second: rate,
                more_ns: 0,
            }],
            delay_ns: delay_ms * 1_000_000,
            limit: buffer,
            in_bytes: true,
            drop_front: false,
            framing: self.framing,
            overhead: self.added,
            mpu: self.least,
            impairments: LineImpairments::default(),
        }
    }
}

/// A frame from the router that arrived at the line.
#[derive(Debug, Clone, Copy)]
pub struct Logged {
    /// Bytes of the frame.
    pub frame: usize,
    /// Bytes on the line.
    pub line: u32,
    /// The number of frames before it, waiting or in transmission.
    pub ahead: u32,
    /// The code point of an IPv4 packet; `None` for other contents.
    pub code_point: Option<u8>,
    /// Whether it is a control frame between the session's ends, without a packet.
    pub control: bool,
    /// Whether it was dropped.
    pub dropped: bool,
    /// The times of its first and last bit on the monotonic clock; 0 until it is sent.
    pub sent_ns: (u64, u64),
}

/// The emulated line; it is removed on drop.
pub struct Emulated {
    line: Option<LineEmulator>,
    log: Rc<RefCell<Vec<Logged>>>,
}

impl Emulated {
    /// Sets up a line of these rates up and down in bits per second. Each end is `delay_ms` away,
    /// and the modem has a buffer of this many bytes.
    pub fn new(modem: Modem, (up, down): (u64, u64), delay_ms: u64, buffer: u32) -> Self {
        for port in ["port0", "port1"] {
            run(&format!("ip -n modem link set {port} nomaster"));
        }
        let log = Rc::new(RefCell::new(Vec::new()));
        let shared = Rc::clone(&log);
        let sides = [up, down].map(|rate| modem.side(rate, delay_ms, buffer));
        let line = in_this_space("modem", || {
            let devices = ["port0", "port1"].map(|port| index(port).unwrap());
            let take = move |side: usize, number: u32, record: LineRecord<'_>| {
                if side == 0 {
                    take(&mut shared.borrow_mut(), number as usize, record);
                }
            };
            let mut line = LineEmulator::load(devices, sides, false, take).unwrap();
            for port in ["port0", "port1"] {
                run(&format!(
                    "tc qdisc add dev {port} root {}",
                    LineEmulator::KIND
                ));
            }
            line.attach().unwrap();
            line
        });
        line.start(now_ns()).unwrap();
        Self {
            line: Some(line),
            log,
        }
    }

    /// Returns the frames that have arrived so far, in order.
    pub fn log(&self) -> Vec<Logged> {
        self.line.as_ref().unwrap().drain().unwrap();
        self.log.borrow().clone()
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        for port in ["port0", "port1"] {
            run(&format!("tc -n modem qdisc del dev {port} root"));
        }
        self.line = None;
    }
}

/// Returns the time of the monotonic clock.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The protocols of PPP that carry packets: IPv4 (RFC 1332) and IPv6 (RFC 5072).
const PACKETS: [[u8; 2]; 2] = [[0x00, 0x21], [0x00, 0x57]];

/// Adds a record to the log. Packets are numbered from 0.
fn take(log: &mut Vec<Logged>, number: usize, record: LineRecord<'_>) {
    match record {
        LineRecord::Arrived {
            ip_bytes,
            wire_bytes,
            ahead_packets,
            frame,
            ..
        } => {
            assert_eq!(log.len(), number, "a record is missing");
            let in_session = frame.get(12..14) == Some(&[0x88, 0x64]);
            let protocol = frame.get(20..22).filter(|_| in_session);
            // The code point is in the second byte of the header.
            let is_ipv4 = protocol.is_some_and(|protocol| *protocol == PACKETS[0]);
            let is_packet = protocol.is_some_and(|found| PACKETS.iter().any(|one| one == found));
            log.push(Logged {
                frame: ip_bytes as usize + HEADER as usize,
                line: wire_bytes,
                ahead: ahead_packets,
                code_point: frame.get(23).filter(|_| is_ipv4).map(|byte| byte >> 2),
                control: !is_packet,
                dropped: false,
                sent_ns: (0, 0),
            });
        }
        LineRecord::Dropped => log[number].dropped = true,
        LineRecord::Sent {
            start_ns, end_ns, ..
        } => log[number].sent_ns = (start_ns, end_ns),
    }
}
