// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A line of code words (PTM) between two TAP devices. The kernel's emulator has no code words, so
//! the lab's own emulator is used, which shares nothing with the measuring code.

use super::inside::LineUnderTest;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weirgate_experiment::{Buffer, Direction, DropEnd, Framing, Impairments, LineSide};
use weirgate_guest::agent::line::framing::Wire;
use weirgate_guest::agent::line::model::Side;
use weirgate_guest::agent::line::tap::open_tap;
use weirgate_units::{Rate, Span};

/// Ethernet's header, which frames of the devices have before the packet.
const HEADER: usize = 14;
const FRAME: usize = HEADER + 1500;
/// The longest wait before the end flag is checked.
const IDLE: Duration = Duration::from_millis(50);

/// The line, which ends on drop.
pub struct Words {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Words {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Words {
    /// Starts the line. It creates the devices `near0` and `far0`; the caller must move them to
    /// their namespaces before anything is sent.
    pub fn begin(line: &LineUnderTest) -> Self {
        let side = |at: usize| LineSide {
            rate: Rate::bits_per_second(u64::from(line.kbit[at]) * 1000),
            delay: Span::from_nanos(0),
            // This buffer does not count the packet in transmission.
            buffer: Buffer::Packets(line.room[at] - 1),
            drop: DropEnd::Tail,
            impairments: Impairments::NONE,
        };
        let taps = ["near0", "far0"].map(|name| open_tap(name).unwrap());
        let whole = weirgate_experiment::Line {
            up: side(0),
            down: side(1),
            framing: Framing::Ptm,
            overhead: line.overhead,
            mpu: 0,
            then: Vec::new(),
            varies: None,
            half_duplex: false,
        };
        let sides = [(Direction::Up, &whole.up), (Direction::Down, &whole.down)];
        let sides =
            sides.map(|(direction, side)| Side::new(side, &whole.stretches(direction), 0).unwrap());
        let wire = Wire::of(&whole);
        let ends = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&ends);
        let thread = std::thread::spawn(move || carry(&taps, sides, wire, &ended));
        Self {
            ends,
            thread: Some(thread),
        }
    }
}

/// Carries frames in both directions until the line ends.
fn carry(taps: &[OwnedFd; 2], mut sides: [Side<Vec<u8>>; 2], wire: Wire, ends: &AtomicBool) {
    // Without this, the kernel wakes the thread up to 50 us late.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1)).unwrap();
    let begin = Instant::now();
    let now = || begin.elapsed().as_nanos() as u64;
    while !ends.load(Ordering::Relaxed) {
        for (tap, side) in taps.iter().zip(&mut sides) {
            let mut frame = vec![0; FRAME];
            while let Ok(length) = rustix::io::read(tap, &mut frame) {
                let packet = length.saturating_sub(HEADER) as u32;
                let bytes = frame[..length].to_vec();
                side.arrive(now(), bytes, packet, wire.bytes(packet), drop);
            }
        }
        for (side, to) in sides.iter_mut().zip([&taps[1], &taps[0]]) {
            while let Some(departure) = side.pop_due(now()) {
                // A device that is down accepts no frame.
                let _ = rustix::io::write(to, &departure.packet);
            }
        }
        let next = sides.iter().filter_map(Side::next_due_ns).min();
        let wait = next.map_or(IDLE, |due| {
            IDLE.min(Duration::from_nanos(due.saturating_sub(now())))
        });
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(wait.subsec_nanos()),
        };
        let mut ready = taps.each_ref().map(|tap| PollFd::new(tap, PollFlags::IN));
        let _ = poll(&mut ready, Some(&wait));
    }
}
