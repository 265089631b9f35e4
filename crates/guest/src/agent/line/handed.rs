// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures when the kernel passed each frame to a TAP device.
//!
//! The agent reads a TAP when the processor is free. A system call of another thread may block
//! it for milliseconds, while timers run and a gate releases packets. By the times of reading,
//! all packets would seem to arrive at once, as if there were no gate.
//!
//! A packet socket sees a packet just before the device does (`xmit_one`, net/core/dev.c), with
//! a timestamp of the kernel. Both are therefore read in the same order. If the device has no
//! room for a frame, only the socket sees it.

use super::packet::ETHERNET;
use crate::agent::clock::Clock;
use crate::agent::traffic::endpoint::Noted;
use crate::agent::traffic::options;
use std::io;
use std::os::fd::OwnedFd;

/// Observes the packets that leave through a device.
#[derive(Debug)]
pub struct Handed {
    socket: OwnedFd,
    noted: Noted,
    buffer: Vec<u8>,
}

impl Handed {
    /// Observes a device in this thread's namespace.
    pub fn open(device: &str) -> io::Result<Self> {
        Ok(Self::of(options::open_departures(device)?))
    }

    fn of(socket: OwnedFd) -> Self {
        Self {
            socket,
            noted: Noted::default(),
            buffer: vec![0; 2_048],
        }
    }

    /// Returns when the device was passed this frame, which has just been read from it. Returns
    /// the current time if that is unknown.
    pub fn at_ns(&mut self, frame: &[u8], clock: &Clock) -> io::Result<u64> {
        while let Some((length, noted_ns)) = self.next()? {
            let seen = self.buffer.get(ETHERNET..length).unwrap_or_default();
            // The socket reports a VLAN tag separately, and the frame may contain it.
            if !frame.ends_with(seen) {
                continue;
            }
            let now_ns = clock.now_ns();
            return Ok(noted_ns.map_or(now_ns, |at_ns| self.noted.at(at_ns, now_ns, clock)));
        }
        Ok(clock.now_ns())
    }

    /// Discards what has been seen.
    pub fn discard(&mut self) -> io::Result<()> {
        while self.next()?.is_some() {}
        Ok(())
    }

    /// Reads the next frame into the buffer. Returns its length and timestamp.
    fn next(&mut self) -> io::Result<Option<(usize, Option<u64>)>> {
        match options::receive_stamped(&self.socket, &mut self.buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            other => other.map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, Handed};
    use crate::agent::traffic::options;
    use std::os::unix::net::UnixDatagram;
    use std::thread::sleep;
    use std::time::Duration;

    const LATER: Duration = Duration::from_millis(20);

    #[test]
    fn a_frame_came_when_it_was_given_to_the_device() {
        let (qdisc, device) = UnixDatagram::pair().unwrap();
        device.set_nonblocking(true).unwrap();
        options::note_arrivals(&device).unwrap();
        let clock = Clock::new();
        clock.start();
        let mut handed = Handed::of(device.into());
        let given = |number: u8| {
            let from_ns = clock.now_ns();
            qdisc.send(&[number; 60]).unwrap();
            let until_ns = clock.now_ns();
            sleep(LATER);
            from_ns..=until_ns
        };
        let (first, dropped, tagged) = (given(1), given(2), given(3));
        assert!(first.contains(&handed.at_ns(&[1; 60], &clock).unwrap()));
        // The device had no room for the second frame. The third has a VLAN tag.
        let third = handed.at_ns(&[3; 64], &clock).unwrap();
        assert!(tagged.contains(&third) && !dropped.contains(&third));
        // A frame that the socket has not seen has the time of reading.
        let before_ns = clock.now_ns();
        assert!(handed.at_ns(&[4; 60], &clock).unwrap() >= before_ns);
    }
}
