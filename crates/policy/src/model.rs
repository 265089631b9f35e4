// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The checked model. Every part keeps its place in the text, so that whatever
//! is made from it can name its line.

use crate::{
    Conditioner, ConnectionState, ControlGroup, Fair, From, GroupShare, Holding, HostCap, IcmpType,
    Ids, Inbound, Lengths, Link, Mac, Mark, Meter, Ports, Prefix, Protocol, Queue, Receive,
    Schedule, Sources, TcpFlags, Track,
};
use std::fmt;
use std::str::FromStr;
use weirgate_document::{Span, Value};
use weirgate_signatures::Signature;
use weirgate_state::DeviceName;
use weirgate_units::{Dscp, ParseError, Rate, Share, Size, Span as Delay};

/// A whole policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The link that is shared.
    pub link: Link,
    /// How arriving packets are held to a rate that are not queued.
    pub holding: Option<Holding>,
    /// How senders outside are held to a rate from here.
    pub receive: Option<Receive>,
    /// Between which rates a line is followed that changes.
    pub track: Option<Track>,
    /// The reservation for acknowledgements, if any.
    pub ack: Option<Ack>,
    /// The classes as written, without the one that `ack` creates.
    pub classes: Vec<Class>,
    /// The rules, in the order of the scheme.
    pub rules: Vec<Rule>,
    /// The rule sets that rules belong to.
    pub rulesets: Vec<Ruleset>,
    /// The groups, whose members rules already have.
    pub groups: Vec<Group>,
    /// What gives packets colours where they enter or leave a device; the first
    /// of a place whose packets they are conditions them.
    pub conditioners: Vec<Conditioner>,
    /// Parts of classes for groups, as written.
    pub shares: Vec<GroupShare>,
    /// Limits for each host of a group, as written.
    pub caps: Vec<HostCap>,
    /// What is done with code points.
    pub dscp: Option<DscpTreatment>,
    /// The bits of a connection's mark that keep decisions; contiguous.
    pub mark_mask: u32,
    /// The lowest of the bits of a packet's mark that say what was found in
    /// its flow's payload.
    pub payload_lowest: u8,
    /// The bits of a packet's mark that say which control group sent it;
    /// contiguous.
    pub control_group_mask: u32,
    /// The bits of a connection's mark that keep which inside host it is of,
    /// where shares and limits behind address translation need them;
    /// contiguous, apart from all others.
    pub inside_mask: Option<Value<u32>>,
    /// The files it was read from.
    pub sources: Sources,
}

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

/// The rate to reserve for acknowledgements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckRate {
    /// By formula from the rate of the opposite direction (Brouer 8.1,
    /// requirements A12).
    Formula,
    /// As stated, in wire bits.
    Rate(Rate),
}

/// The reservation for pure acknowledgements: a class named `ack` and a rule
/// before all others that puts pure ACKs into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ack {
    /// The line of the table, from 1.
    pub line: u32,
    /// Where the table begins.
    pub span: Span,
    /// The rate.
    pub reserve: Value<AckRate>,
    /// Data packets per ACK, in tenths; for the formula.
    pub factor_tenths: u32,
    /// IP bytes of an ACK; for the formula.
    pub size: u32,
    /// Priority among the classes, 0 first, 7 last.
    pub priority: u8,
    /// Greatest rate, of the gate's.
    pub ceiling: Value<Amount>,
    /// The queue; `None` leaves the choice to crate `compile`.
    pub queue: Option<Value<Queue>>,
    /// Wire bytes that may be sent at once beyond the rate; `None` is one full
    /// packet.
    pub burst: Option<Value<Size>>,
    /// The directions.
    pub directions: Directions,
}

/// What a class is guaranteed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guarantee {
    /// A part of what reservations by rate leave of the gate.
    Share(Share),
    /// A rate in wire bits.
    Rate(Rate),
}

/// A class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// The line of its table, from 1.
    pub line: u32,
    /// Where its table begins.
    pub span: Span,
    /// Its name.
    pub name: Value<String>,
    /// What it is guaranteed.
    pub guarantee: Value<Guarantee>,
    /// Its greatest rate, of the gate's.
    pub ceiling: Value<Amount>,
    /// Its priority: 0 first, 7 last.
    pub priority: u8,
    /// Its queue; `None` leaves the choice to crate `compile`.
    pub queue: Option<Value<Queue>>,
    /// Between whom it is shared; `None` leaves it to the link.
    pub fair: Option<Value<Fair>>,
    /// Wire bytes that may be sent at once beyond the guaranteed rate; `None`
    /// leaves the choice to [`Policy::share_out`].
    pub burst: Option<Value<Size>>,
    /// The class of ITU-T Y.1541, 0 to 5, whose delay it should have.
    pub objective: Option<Value<u8>>,
    /// How long one packet of another class may be in its way upstream.
    pub delay: Option<Value<Delay>>,
    /// Its directions.
    pub directions: Directions,
    /// Takes what no rule matches; where it says so.
    pub default: Option<Span>,
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

/// A named group of what rules list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: Value<String>,
    /// Addresses and prefixes of both versions.
    pub addresses: Vec<Value<Prefix>>,
    /// Ports.
    pub ports: Vec<Value<Ports>>,
    /// MAC addresses.
    pub macs: Vec<Value<Mac>>,
    /// DNS names, whose addresses of both versions are looked up again and
    /// again. A group that has some has no addresses of its own.
    pub names: Vec<Value<String>>,
    /// How often they are looked up.
    pub refresh: weirgate_units::Span,
}

/// What is done with code points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DscpTreatment {
    /// The line of its table, from 1.
    pub line: u32,
    /// Directions in which code points are cleared before any rule sees them.
    pub distrust: Option<Directions>,
    /// Directions in which they are cleared after the rules.
    pub wash: Option<Directions>,
    /// Code points that clearing leaves.
    pub except: Vec<Dscp>,
    /// Code points written in place of others, before any rule sees them.
    pub map: Vec<(Dscp, Dscp)>,
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

impl Policy {
    /// Whether a rule asks for what payloads betray.
    #[must_use]
    pub fn looks_at_payloads(&self) -> bool {
        self.rules.iter().any(|rule| rule.payload().is_some())
    }

    /// Whether programs are attached where packets arrive.
    #[must_use]
    pub fn needs_programs(&self) -> bool {
        self.looks_at_payloads()
            || self.held_rate().is_some()
            || !self.conditioners.is_empty()
            || self.link.moves_in_order().is_some()
    }

    /// The bits of a packet's mark that say what was found in its flow's
    /// payload.
    #[must_use]
    pub const fn payload_mask(&self) -> u32 {
        ((1 << weirgate_signatures::BITS) - 1) << self.payload_lowest
    }

    /// The line's rate in a direction, `None` where the policy does not shape
    /// it, but leaves it alone or holds it to [`Policy::held_rate`].
    #[must_use]
    pub fn line_rate(&self, direction: Direction) -> Option<Rate> {
        match direction {
            Direction::Up => Some(self.link.up.value),
            Direction::Down if self.link.inbound.value == Inbound::None => None,
            Direction::Down if self.link.inbound.value.holds() => None,
            Direction::Down => self.link.down.as_ref().map(|down| down.value),
        }
    }

    /// The classes of a direction as written.
    pub fn classes_of(&self, direction: Direction) -> impl Iterator<Item = &Class> {
        self.classes
            .iter()
            .filter(move |class| class.directions.contains(direction))
    }
}
