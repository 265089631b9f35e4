// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connection tracking (`nf_conntrack_in`, net/netfilter/nf_conntrack_core.c), with the kernel's
//! own timeouts.
//!
//! Checksums are assumed to be right, and TCP segments to be in window.

use crate::packet::{Headers, Packet, long, short};
use crate::tcp::{self, Fate, Segment, Tcp};
use crate::tuple::{self, Tuple, UDP};
use crate::{GivenState, SECOND};
use std::collections::BTreeMap;
use weirgate_state::{ICMP, ICMPV6, TCP};

/// A state bit of a connection (`NF_CT_STATE_BIT`): the packet is invalid.
pub const INVALID: u32 = 1;
/// Packets were seen in both directions.
pub const ESTABLISHED: u32 = 2;
/// Another connection expected it, or it is an ICMP error about one.
pub const RELATED: u32 = 4;
/// No reply was seen yet.
pub const NEW: u32 = 8;
/// The packet is not tracked at all: neighbour discovery.
pub const UNTRACKED: u32 = 64;

/// A connection's number.
pub(crate) type Id = u32;

#[expect(
    clippy::struct_excessive_bools,
    reason = "flags of the kernel's own, each by itself"
)]
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    pub(crate) original: Tuple,
    seen_reply: bool,
    pub(crate) expected: bool,
    pub(crate) mark: u32,
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    pub(crate) helper: Option<String>,
    tcp: Option<Tcp>,
    /// The time from which UDP packets in both directions count as a stream.
    stream_at: u64,
    expires: u64,
    /// Whether it is removed from the table; the packet that ended it still has it.
    gone: bool,
    /// `IPS_ASSURED`.
    assured: bool,
}

impl Connection {
    /// Returns whether a count of connections leaves it out (`already_closed`).
    pub(crate) fn closed(&self) -> bool {
        self.gone || self.tcp.as_ref().is_some_and(Tcp::closed)
    }

    /// Returns how often it has closed; TCP may continue a closed connection.
    pub(crate) fn closings(&self) -> u32 {
        self.tcp.as_ref().map_or(0, |tcp| tcp.closings)
    }

    /// Returns whether the kernel considers it more than a probe.
    pub(crate) fn assured(&self) -> bool {
        self.assured || self.tcp.as_ref().is_some_and(|tcp| tcp.assured)
    }
}

/// The result of connection tracking for a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tracked {
    /// Its connection.
    pub(crate) connection: Option<Id>,
    /// Its state bits.
    pub(crate) state: u32,
    /// Whether it is the connection's first packet.
    pub(crate) first: bool,
}

impl Tracked {
    const fn without(state: u32) -> Self {
        Self {
            connection: None,
            state,
            first: false,
        }
    }
}

/// The connections of a router.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    connections: BTreeMap<Id, Connection>,
    /// Both tuples of each connection; true for that of replies.
    tuples: BTreeMap<Tuple, (Id, bool)>,
    next: Id,
}

/// Returns whether an ICMPv6 type is neighbour discovery or multicast listener discovery
/// (`noct_valid_new`).
fn untracked(kind: u8) -> bool {
    matches!(kind, 130..=136 | 143)
}

impl Tracker {
    pub(crate) fn get(&self, id: Id) -> Option<&Connection> {
        self.connections.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut Connection> {
        self.connections.get_mut(&id)
    }

    /// Returns the connection of a tuple, in either direction.
    pub(crate) fn find(&self, tuple: &Tuple, now: u64) -> Option<Id> {
        let (id, _) = self.tuples.get(tuple)?;
        self.connections.get(id).filter(|c| c.expires > now)?;
        Some(*id)
    }

    fn remove(&mut self, id: Id) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.gone = true;
            let original = connection.original.clone();
            if let Some(reply) = original.inverted() {
                self.tuples.remove(&reply);
            }
            self.tuples.remove(&original);
        }
    }

    /// Tracks a packet that arrives, before any rule that may look at its connection.
    pub(crate) fn take(&mut self, packet: &Packet, headers: Option<Headers>, now: u64) -> Tracked {
        let invalid = Tracked::without(INVALID);
        let Some(headers) = headers.filter(|headers| headers.fragment == 0) else {
            return invalid;
        };
        if let Some(found) = self.errors(packet, &headers, now) {
            return found;
        }
        let Some(tuple) = Tuple::of(packet, &headers) else {
            return invalid;
        };
        // A connection that is reopened is removed and created again.
        for _ in 0..2 {
            if let Some(found) = self.one(packet, &headers, &tuple, now) {
                return found;
            }
        }
        invalid
    }

    /// Handles ICMP messages about other connections, or about none.
    fn errors(&mut self, packet: &Packet, headers: &Headers, now: u64) -> Option<Tracked> {
        let kind = *packet.bytes.get(headers.transport)?;
        let error = match headers.protocol {
            ICMP => {
                if kind > 18 {
                    return Some(Tracked::without(INVALID));
                }
                matches!(kind, 3 | 4 | 5 | 11 | 12)
            }
            ICMPV6 => {
                if untracked(kind) {
                    return Some(Tracked::without(UNTRACKED));
                }
                kind < 128
            }
            _ => return None,
        };
        if !error {
            return None;
        }
        let found = self.quoted(packet, headers, now);
        Some(found.map_or(Tracked::without(INVALID), |id| Tracked {
            connection: Some(id),
            state: RELATED,
            first: false,
        }))
    }

    fn quoted(&self, packet: &Packet, headers: &Headers, now: u64) -> Option<Id> {
        let inner = tuple::quoted(packet, headers)?;
        // The error goes to the sender of the quoted packet.
        let (_, destination) = packet.addresses()?;
        if destination != inner.comes_from() {
            return None;
        }
        self.find(&inner.inverted()?, now)
    }

    /// Tracks a packet in one attempt; `None` requests another attempt.
    fn one(
        &mut self,
        packet: &Packet,
        headers: &Headers,
        tuple: &Tuple,
        now: u64,
    ) -> Option<Tracked> {
        let invalid = Some(Tracked::without(INVALID));
        let known = self.tuples.get(tuple).copied();
        let known = known.filter(|(id, _)| {
            let live = self.connections.get(id).is_some_and(|c| c.expires > now);
            live || {
                self.remove(*id);
                false
            }
        });
        let (id, reply, first) = match known {
            Some((id, reply)) => (id, reply, false),
            None => match self.begin(packet, headers, tuple) {
                Some(id) => (id, false, true),
                None => return invalid,
            },
        };
        let bytes = packet.ip_length() as u64;
        let connection = self.connections.get_mut(&id)?;
        tell(connection, packet);
        let state = if reply || connection.seen_reply {
            ESTABLISHED
        } else if connection.expected {
            RELATED
        } else {
            NEW
        };
        let fate = fate(connection, packet, headers, reply, now);
        match fate {
            Fate::Invalid => {
                if first {
                    self.remove(id);
                    self.connections.remove(&id);
                }
                return invalid;
            }
            Fate::Reopens => {
                self.remove(id);
                return None;
            }
            Fate::Counts(seconds) => {
                connection.expires = now.saturating_add(u64::from(seconds) * SECOND);
                connection.packets += 1;
                connection.bytes += bytes;
            }
            Fate::Ends => {
                connection.packets += 1;
                connection.bytes += bytes;
            }
            Fate::Ignored => {}
        }
        if reply {
            connection.seen_reply = true;
        }
        if fate == Fate::Ends {
            self.remove(id);
        }
        Some(Tracked {
            connection: Some(id),
            state,
            first,
        })
    }

    fn begin(&mut self, packet: &Packet, headers: &Headers, tuple: &Tuple) -> Option<Id> {
        let answer = tuple.inverted()?;
        let icmp = matches!(tuple.protocol, ICMP | ICMPV6);
        if icmp && !tuple::asks(tuple.protocol, tuple.kind()) {
            return None;
        }
        let tcp = if tuple.protocol == TCP {
            let given = packet.given.state.is_some();
            let flags = packet.bytes.get(headers.transport + 13).copied()?;
            match Tcp::new(flags) {
                Some(tcp) => Some(tcp),
                // If a state is given, the connection may begin with any segment.
                None if given => Some(Tcp::at(tcp::State::Established)),
                None => return None,
            }
        } else {
            None
        };
        self.next += 1;
        let id = self.next;
        self.tuples.insert(tuple.clone(), (id, false));
        self.tuples.insert(answer, (id, true));
        let connection = Connection {
            original: tuple.clone(),
            seen_reply: false,
            expected: false,
            mark: 0,
            bytes: 0,
            packets: 0,
            helper: None,
            tcp,
            stream_at: u64::MAX,
            expires: u64::MAX,
            gone: false,
            assured: false,
        };
        self.connections.insert(id, connection);
        Some(id)
    }
}

/// Applies the given properties of a connection, from this packet on.
fn tell(connection: &mut Connection, packet: &Packet) {
    let given = &packet.given;
    match given.state {
        Some(GivenState::Established) => connection.seen_reply = true,
        Some(GivenState::Related) => connection.expected = true,
        None => {}
    }
    if let Some(mark) = given.mark {
        connection.mark = mark;
    }
    if let Some(bytes) = given.bytes {
        connection.bytes = bytes;
        connection.packets = connection.packets.max(1);
    }
    if let Some(packets) = given.packets {
        connection.packets = packets;
    }
    if given.helper.is_some() {
        connection.expected = true;
        connection.helper.clone_from(&given.helper);
    }
}

/// Returns the result of the protocol's own part.
fn fate(
    connection: &mut Connection,
    packet: &Packet,
    headers: &Headers,
    reply: bool,
    now: u64,
) -> Fate {
    let at = headers.transport;
    let rest = packet.ip_length().saturating_sub(at);
    match headers.protocol {
        TCP => {
            let (Some(offset), Some(flags)) =
                (packet.bytes.get(at + 12), packet.bytes.get(at + 13))
            else {
                return Fate::Invalid;
            };
            let header = usize::from(offset >> 4) * 4;
            if header < 20 || header > rest || !tcp::valid(*flags) {
                return Fate::Invalid;
            }
            let data = (rest - header) as u32;
            let extra = u32::from(flags & 1 != 0) + u32::from(flags & 2 != 0);
            let segment = Segment {
                flags: *flags,
                acknowledged: long(&packet.bytes, at + 8).unwrap_or(0),
                end: long(&packet.bytes, at + 4)
                    .unwrap_or(0)
                    .wrapping_add(data)
                    .wrapping_add(extra),
            };
            let seen = connection.seen_reply;
            match connection.tcp.as_mut() {
                Some(tcp) => tcp.segment(segment, reply, seen),
                None => Fate::Invalid,
            }
        }
        UDP => {
            let stated = short(&packet.bytes, at + 4).map_or(0, usize::from);
            if stated > rest || stated < 8 {
                return Fate::Invalid;
            }
            // Packets in both directions are a stream from two seconds after the first packet, with
            // a longer timeout (`nf_conntrack_udp_packet`).
            if connection.stream_at == u64::MAX {
                connection.stream_at = now.saturating_add(2 * SECOND);
            }
            if !connection.seen_reply {
                return Fate::Counts(30);
            }
            connection.assured |= now > connection.stream_at;
            Fate::Counts(if now > connection.stream_at { 120 } else { 30 })
        }
        ICMP | ICMPV6 => Fate::Counts(30),
        // `nf_conntrack_gre_packet`.
        47 => {
            connection.assured |= connection.seen_reply;
            Fate::Counts(if connection.seen_reply { 180 } else { 30 })
        }
        _ => Fate::Counts(600),
    }
}
