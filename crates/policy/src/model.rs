// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules and their conditions, directions and amounts.

use crate::field::words;
use crate::{
    ConnectionState, ControlGroup, From, IcmpType, Ids, Lengths, Mac, Mark, Meter, Ports, Prefix,
    Protocol, Schedule, TcpFlags,
};
use std::fmt;
use std::str::FromStr;
use weirgate_document::{Span, Value};
use weirgate_signatures::Signature;
use weirgate_state::DeviceName;
use weirgate_units::{Dscp, ParseError, Rate, Share, Size};

/// One way through the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the inside to the outside.
    Up,
    /// From the outside to the inside.
    Down,
}

impl Direction {
    /// Both, upstream first.
    pub const BOTH: [Self; 2] = [Self::Up, Self::Down];

    /// `upstream` or `downstream`.
    #[must_use]
    pub const fn stream(self) -> &'static str {
        match self {
            Self::Up => "upstream",
            Self::Down => "downstream",
        }
    }
}

/// `up` or `down`, as in policies.
impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Up => "up",
            Self::Down => "down",
        })
    }
}

/// The directions something is for; at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directions {
    /// Upstream only.
    Up,
    /// Downstream only.
    Down,
    /// Both.
    Both,
}

words!(Directions: "up" => Self::Up, "down" => Self::Down, "both" => Self::Both);

impl Directions {
    /// Whether this direction is among them.
    #[must_use]
    pub const fn contains(self, direction: Direction) -> bool {
        matches!(
            (self, direction),
            (Self::Both, _) | (Self::Up, Direction::Up) | (Self::Down, Direction::Down)
        )
    }

    /// Whether they have a direction in common.
    #[must_use]
    pub fn overlap(self, other: Self) -> bool {
        Direction::BOTH
            .into_iter()
            .any(|one| self.contains(one) && other.contains(one))
    }
}

/// An amount that may be stated as a part of the whole or as a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// A part.
    Share(Share),
    /// A rate in wire bits.
    Rate(Rate),
}

impl Amount {
    /// The amount, where the whole is `whole`.
    #[must_use]
    pub fn of(self, whole: Rate) -> Rate {
        match self {
            Self::Share(share) => share.of(whole),
            Self::Rate(rate) => rate,
        }
    }
}

impl FromStr for Amount {
    type Err = ParseError;

    /// Parses `2%` or `1kbit`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text.contains('%') {
            text.parse().map(Self::Share)
        } else {
            text.parse().map(Self::Rate)
        }
    }
}

/// A rule of the scheme. A packet fulfils it that fulfils `when`, one of
/// `services` where there are any, not a single condition of `never`, and
/// `meter`.
///
/// Rules are tried in order. One that is `last` ends the scheme for its
/// packets; after another, later rules may put the packet elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The line of its table, from 1, in its file.
    pub line: u32,
    /// Where its table begins.
    pub span: Span,
    /// The name of its counter, if it has one of its own.
    pub name: Option<Value<String>>,
    /// The class; `None` where it only writes a code point.
    pub class: Option<Value<String>>,
    /// Its directions.
    pub directions: Directions,
    /// Its conditions.
    pub when: When,
    /// Conditions none of which may hold.
    pub never: Option<When>,
    /// The services it names: the conditions of any of them.
    pub services: Vec<When>,
    /// A rate or a number of connections.
    pub meter: Option<Value<Meter>>,
    /// The times at which it is there; `None` is always.
    pub during: Option<Schedule>,
    /// No later rule sees its packets.
    pub last: bool,
    /// Once it matched a packet of a connection, it matches all of them.
    pub keep: Option<Span>,
    /// The code point that it writes.
    pub set_dscp: Option<Value<Dscp>>,
    /// The largest TCP segment, in bytes of payload, that its SYNs and SYN-ACKs
    /// may ask for.
    pub segment: Option<Value<u16>>,
    /// The rule set it belongs to, as an index into [`Policy::rulesets`].
    pub ruleset: Option<usize>,
}

/// Conditions: all that are stated must hold. Within one, any element will do;
/// an empty list is no condition.
///
/// `local` is the inside host's side and `remote` the outside's, in both
/// directions: the source of an upstream packet and the destination of a
/// downstream packet are local.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct When {
    /// Upper-layer protocols.
    pub protocols: Vec<Value<Protocol>>,
    /// Ports of the inside host.
    pub local_ports: Vec<Value<Ports>>,
    /// Ports of the outside host.
    pub remote_ports: Vec<Value<Ports>>,
    /// Ports of either host.
    pub ports: Vec<Value<Ports>>,
    /// Addresses of the inside host.
    pub local_addresses: Vec<Value<Prefix>>,
    /// Addresses of the outside host.
    pub remote_addresses: Vec<Value<Prefix>>,
    /// The inside host is one of this group's [`Group::names`].
    pub local_names: Option<Value<String>>,
    /// The outside host is.
    pub remote_names: Option<Value<String>>,
    /// Code points; those of `tos` are among them.
    pub dscp: Vec<Value<Dscp>>,
    /// Lengths of the IP packet.
    pub lengths: Vec<Value<Lengths>>,
    /// TCP flags.
    pub tcp_flags: Option<Value<TcpFlags>>,
    /// An acknowledgement without data: TCP, ACK set, SYN, FIN and RST clear,
    /// no payload.
    pub pure_ack: bool,
    /// ICMP types of both versions.
    pub icmp_types: Vec<Value<IcmpType>>,
    /// MAC addresses of the inside host, or of the router it is behind.
    pub macs: Vec<Value<Mac>>,
    /// Devices that upstream packets came in through.
    pub interfaces: Vec<Value<DeviceName>>,
    /// Whose packets: the router's own, or forwarded ones.
    pub from: Option<Value<From>>,
    /// Users whose sockets on this machine send: the router's own packets.
    pub users: Vec<Value<Ids>>,
    /// Groups of such sockets.
    pub groups: Vec<Value<Ids>>,
    /// Control groups in which such sockets were made, or groups below them.
    pub control_groups: Vec<Value<ControlGroup>>,
    /// The packet's mark, set by something else.
    pub mark: Option<Value<Mark>>,
    /// What a packet's flow has betrayed of itself in its first payloads.
    pub payload: Vec<Value<Signature>>,
    /// What connection tracking says.
    pub connection: Connection,
}

/// Conditions on the packet's connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Connection {
    /// Its states, any of them.
    pub states: Vec<Value<ConnectionState>>,
    /// Its helper, such as `ftp`.
    pub helper: Option<Value<String>>,
    /// More bytes so far, in both directions.
    pub bytes_over: Option<Value<Size>>,
    /// More packets so far, in both directions.
    pub packets_over: Option<Value<u64>>,
    /// Its mean IP packet size so far, in bytes, in both directions.
    pub mean_size: Option<Value<Lengths>>,
}

impl Connection {
    /// Where the first of its conditions stands.
    #[must_use]
    pub fn span(&self) -> Option<Span> {
        let states = self.states.first().map(|value| value.span.clone());
        let helper = self.helper.as_ref().map(|value| value.span.clone());
        let bytes = self.bytes_over.as_ref().map(|value| value.span.clone());
        let packets = self.packets_over.as_ref().map(|value| value.span.clone());
        let size = self.mean_size.as_ref().map(|value| value.span.clone());
        states.or(helper).or(bytes).or(packets).or(size)
    }
}

/// A set of rules that is switched on and off as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruleset {
    /// The line of its table, from 1, in its file.
    pub line: u32,
    /// Its name.
    pub name: Value<String>,
    /// Whether it is on when the policy is applied.
    pub enabled: bool,
}

impl Rule {
    /// Where the rule, or the first of its services, asks for a payload.
    #[must_use]
    pub fn payload(&self) -> Option<&Value<Signature>> {
        std::iter::once(&self.when)
            .chain(&self.services)
            .find_map(|when| when.payload.first())
    }

    /// The place of that in the policy's own text: the condition, or the rule
    /// where a service asks.
    #[must_use]
    pub fn payload_span(&self) -> Option<Span> {
        self.payload()?;
        let own = self.when.payload.first();
        Some(own.map_or_else(|| self.span.clone(), |own| own.span.clone()))
    }
}
