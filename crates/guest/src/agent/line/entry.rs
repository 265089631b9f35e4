// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When TCP segments came to the gateway from its hosts, so that their wait in
//! the gateway is known without a stamp in them.
//!
//! A packet socket on the gateway's LAN device sees them come. It has no task:
//! the line reads it whenever a segment has come through, and finds that
//! segment among those that came.

use super::packet::{ETHERNET, Facts};
use crate::agent::clock::Clock;
use crate::agent::nodes::{LAN, Nodes};
use crate::agent::traffic::endpoint::Noted;
use crate::agent::traffic::options;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use weirgate_experiment::Node;

/// Segments that are remembered at most; what is beyond was lost in queues.
const REMEMBERED: usize = 1 << 17;

/// What tells a segment from all others: ports, sequence and acknowledgement
/// number, payload, and IPv4's identification, which a segment that is sent
/// again has anew. A later one that is equal takes the place of an earlier.
type Key = (u16, u16, u32, u32, u16, u16);

/// The gateway's side towards the hosts.
#[derive(Debug)]
pub struct Entry {
    socket: OwnedFd,
    noted: Noted,
    came: BTreeMap<Key, u64>,
    buffer: Vec<u8>,
}

impl Entry {
    /// Watches the gateway's LAN device.
    pub fn open(nodes: &Nodes) -> Result<Self> {
        let socket = nodes
            .enter(Node::Gateway, || options::open_arrivals(LAN))
            .context("watch what comes to the gateway from the hosts")?;
        Ok(Self {
            socket,
            noted: Noted::default(),
            came: BTreeMap::new(),
            buffer: vec![0; 2_048],
        })
    }

    /// Nanoseconds that a segment, now at the line, was in the gateway; `None`
    /// of what is no TCP or did not come from a host.
    pub fn waited(
        &mut self,
        facts: &Facts,
        frame: &[u8],
        now_ns: u64,
        clock: &Clock,
    ) -> io::Result<Option<u64>> {
        let Some(key) = key(facts, frame) else {
            return Ok(None);
        };
        self.read(clock)?;
        let came = self.came.remove(&key);
        Ok(came.map(|came_ns| now_ns.saturating_sub(came_ns)))
    }

    /// Takes what has come since the last time.
    fn read(&mut self, clock: &Clock) -> io::Result<()> {
        loop {
            let (length, noted_ns) = match options::receive_stamped(&self.socket, &mut self.buffer)
            {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                other => other?,
            };
            let frame = &self.buffer[..length.min(self.buffer.len())];
            let ip_bytes = length.saturating_sub(ETHERNET) as u32;
            let Some(key) = key(&Facts::read(frame, ip_bytes), frame) else {
                continue;
            };
            let now_ns = clock.now_ns();
            let at_ns = noted_ns.map_or(now_ns, |noted_ns| self.noted.at(noted_ns, now_ns, clock));
            if self.came.len() >= REMEMBERED {
                self.came.clear();
            }
            self.came.insert(key, at_ns);
        }
    }
}

fn key(facts: &Facts, frame: &[u8]) -> Option<Key> {
    let (_, source, destination) = facts.ports?;
    let tcp = facts.tcp?;
    let identification = match frame.get(12..20)? {
        [0x08, 0x00, .., high, low] => u16::from_be_bytes([*high, *low]),
        _ => 0,
    };
    Some((
        source,
        destination,
        tcp.seq,
        tcp.ack,
        tcp.payload,
        identification,
    ))
}

#[cfg(test)]
mod tests {
    use super::{Facts, key};

    fn segment(identification: u16, sequence: u32) -> Vec<u8> {
        let mut frame = vec![0; 14 + 40];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[14] = 0x45;
        frame[16..18].copy_from_slice(&40_u16.to_be_bytes());
        frame[18..20].copy_from_slice(&identification.to_be_bytes());
        frame[23] = 6;
        frame[34..38].copy_from_slice(&[0x4e, 0x20, 0x00, 0x16]);
        frame[38..42].copy_from_slice(&sequence.to_be_bytes());
        frame[46] = 0x50;
        frame
    }

    #[test]
    fn a_segment_sent_again_is_another() {
        let key_of = |frame: &[u8]| key(&Facts::read(frame, frame.len() as u32 - 14), frame);
        let first = key_of(&segment(7, 100));
        assert_eq!(first, Some((20_000, 22, 100, 0, 0, 7)));
        assert_ne!(first, key_of(&segment(8, 100)));
        assert_ne!(first, key_of(&segment(7, 101)));
        // Time to live and code point change on the way.
        let mut forwarded = segment(7, 100);
        forwarded[15] = 0x28;
        forwarded[22] = 63;
        assert_eq!(first, key_of(&forwarded));
        let mut datagram = segment(7, 100);
        datagram[23] = 17;
        assert_eq!(key_of(&datagram), None);
    }
}
