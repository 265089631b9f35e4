// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reassembles fragments, as connection tracking does before any rule of `inet` sees them
//! (net/ipv4/netfilter/nf_defrag_ipv4.c, net/ipv6/netfilter/nf_conntrack_reasm.c). The kernel
//! fragments the packet again after the rules.

use crate::SECOND;
use crate::packet::{Headers, Packet};
use std::collections::BTreeMap;
use weirgate_state::IpVersion;
use weirgate_units::Arrange as _;

/// How long fragments wait for the others (`ipfrag_time`; for IPv6 the kernel waits 60 s,
/// `nf_conntrack_frag6_timeout`).
const PATIENCE: u64 = 30 * SECOND;

/// The maximum number of incomplete packets, and of fragments of a packet: enough for any real
/// sequence, and a bound for hostile ones.
const MOST: usize = 4096;

type Key = (u128, u128, u8, u32, bool);

#[derive(Debug)]
struct Parts {
    since: u64,
    /// The offset, the bytes, and whether it is the last fragment.
    got: Vec<(usize, Vec<u8>, bool)>,
    first: Option<Packet>,
}

/// Incomplete packets.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    waiting: BTreeMap<Key, Parts>,
}

impl Fragments {
    /// Takes a fragment. Returns the whole packet when nothing is missing any more.
    pub(crate) fn take(&mut self, packet: &Packet, headers: &Headers, now: u64) -> Option<Packet> {
        let (source, destination) = packet.addresses()?;
        let six = headers.version == Some(IpVersion::V6);
        // IPv6 fragments belong to one packet whatever protocol they name.
        let protocol = if six { 0 } else { headers.protocol };
        let key = (source, destination, protocol, headers.identity, six);
        self.waiting.retain(|_, parts| parts.since + PATIENCE > now);
        if self.waiting.len() >= MOST && !self.waiting.contains_key(&key) {
            return None;
        }
        let start = match headers.fragment_header {
            Some(at) => at + 8,
            None => headers.transport,
        };
        let data = packet.bytes.get(start..packet.ip_length())?.to_vec();
        let parts = self.waiting.entry(key).or_insert_with(|| Parts {
            since: now,
            got: Vec::new(),
            first: None,
        });
        if parts.got.len() >= MOST {
            return None;
        }
        parts.got.push((headers.fragment, data, !headers.more));
        if headers.fragment == 0 {
            parts.first = Some(packet.clone());
        }
        parts.got.arrange_by_key(|part| part.0);
        let whole = parts.whole(start)?;
        self.waiting.remove(&key);
        Some(whole)
    }
}

impl Parts {
    /// Returns the packet, if nothing is missing. `start` is the offset at which the first
    /// fragment's data begins.
    fn whole(&self, start: usize) -> Option<Packet> {
        let first = self.first.as_ref()?;
        let mut data = Vec::new();
        let mut complete = false;
        for (offset, bytes, last) in &self.got {
            if *offset != data.len() {
                return None;
            }
            data.extend_from_slice(bytes);
            complete = *last;
        }
        if !complete {
            return None;
        }
        let mut bytes = first.bytes.get(..start)?.to_vec();
        let headers = first.headers();
        if let Some(at) = headers.fragment_header {
            // Remove the fragment header; the header before it names what followed it.
            let next = *bytes.get(at)?;
            bytes.drain(at..at + 8);
            let named = naming(&bytes, at)?;
            bytes[named] = next;
            let payload = u16::try_from(bytes.len() - 40 + data.len()).ok()?;
            bytes[4..6].copy_from_slice(&payload.to_be_bytes());
        } else {
            let total = u16::try_from(bytes.len() + data.len()).ok()?;
            bytes[2..4].copy_from_slice(&total.to_be_bytes());
            bytes[6..8].copy_from_slice(&[0, 0]);
        }
        bytes.extend(data);
        Some(Packet {
            length: bytes.len(),
            bytes,
            ..first.clone()
        })
    }
}

/// Returns the offset of the byte that names the header at `at`.
fn naming(bytes: &[u8], at: usize) -> Option<usize> {
    let (mut named, mut start) = (6, 40);
    while start < at {
        named = start;
        start += (usize::from(*bytes.get(start + 1)?) + 1) * 8;
    }
    (start == at).then_some(named)
}
