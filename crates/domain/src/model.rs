// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A domain as a value.

use crate::Behaviour;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;
use weirgate_document::Value;
use weirgate_linklayer::LinkLayer;
use weirgate_policy::{Ports, Prefix, Protocol};
use weirgate_units::{Rate, Share, Size, Span};

/// A parsed domain. Names are keys, to which links, customers' ports and services refer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// The files of the common list of circuits, as written.
    pub circuits: Vec<Value<String>>,
    /// The routers.
    pub routers: BTreeMap<String, Router>,
    /// The links between routers, in the order of the file.
    pub links: Vec<Link>,
    /// The classes of every port of the domain.
    pub classes: BTreeMap<String, Class>,
    /// The customers at the boundary.
    pub customers: BTreeMap<String, Customer>,
    /// The promises, in the order of the file.
    pub services: Vec<Service>,
}

impl Domain {
    /// Returns whether every router distinguishes drop precedences and importance. Packets
    /// beyond a profile may then enter, and are dropped first. Otherwise they could displace
    /// packets within their profiles, so the edge discards them.
    #[must_use]
    pub fn tells_levels(&self) -> bool {
        self.routers.values().all(|router| router.kit)
    }
}

/// A position in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The byte range.
    pub span: Range<usize>,
    /// The line, counted from 1.
    pub line: u32,
}

/// The role of a router in the domain (RFC 2475 section 2.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Customers are connected to it.
    Boundary,
    /// It connects only routers of the domain.
    Interior,
}

/// A router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Router {
    /// Its role.
    pub role: Role,
    /// Whether the kit shapes its ports (`engine = "kit"`), which can distinguish drop
    /// precedences.
    pub kit: bool,
    /// Its name for ssh; `None` for its name in this file.
    pub host: Option<String>,
    /// The circuits that it shapes.
    pub circuits: Option<Circuits>,
    /// Whether other devices of it may have circuits, which the domain does not manage.
    pub other_circuits: bool,
    /// The position in the file.
    pub position: Position,
}

/// The circuits of a router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circuits {
    /// Which circuits.
    pub of: CircuitsOf,
    /// The device that sends to subscribers.
    pub access: Option<Value<String>>,
    /// The device that sends packets from subscribers.
    pub core: Option<Value<String>>,
    /// The total rates to subscribers and from them.
    pub rates: Option<[Rate; 2]>,
    /// The largest number of queues of each device.
    pub queues: Option<u32>,
    /// The position in the file.
    pub position: Position,
}

/// Which circuits a router has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CircuitsOf {
    /// All circuits of the list in these files.
    Files(Vec<Value<String>>),
    /// The part of the domain's list below these sites.
    Sites(Vec<Value<String>>),
}

/// A link between two routers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The routers at its ends.
    pub between: [String; 2],
    /// The device of each towards the other.
    pub devices: [String; 2],
    /// The rates from the first router to the second, and back.
    pub rates: [Rate; 2],
    /// The propagation delay.
    pub delay: Span,
    /// The link layer.
    pub layer: Layer,
    /// The position in the file.
    pub position: Position,
}

/// A link layer with its name in policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// The name.
    pub name: String,
    /// The meaning.
    pub layer: LinkLayer,
}

/// A class of every port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// The per-hop behaviour.
    pub behaviour: Behaviour,
    /// Its share of each port; `None` for lower effort, which has no share.
    pub share: Option<Share>,
    /// Whether the share follows from the IP precedence of the behaviour.
    pub by_precedence: bool,
    /// How much of its guarantee on a port may be promised there; 100 % or more.
    pub oversubscription: Share,
    /// The position in the file.
    pub position: Position,
}

/// A customer, and the port of the boundary router towards it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Customer {
    /// The boundary router.
    pub router: String,
    /// Its device towards the customer.
    pub device: String,
    /// The rate of that line towards the customer.
    pub rate: Rate,
    /// The rate of that line from the customer.
    pub rate_from: Rate,
    /// The link layer.
    pub layer: Layer,
    /// The propagation delay.
    pub delay: Span,
    /// The name for ssh of a machine of the customer that can send and receive.
    pub host: Option<String>,
    /// The address of that machine within the domain.
    pub address: Option<IpAddr>,
    /// The networks of the customer as stated; [`Customer::scope`] also considers the machine.
    pub networks: Vec<Prefix>,
    /// The position in the file.
    pub position: Position,
}

impl Customer {
    /// Returns the known addresses of the customer: the stated networks, or else the address of
    /// its machine.
    #[must_use]
    pub fn scope(&self) -> Vec<Prefix> {
        if self.networks.is_empty() {
            self.address.map(Prefix::single).into_iter().collect()
        } else {
            self.networks.clone()
        }
    }
}

/// A service level specification (RFC 2475 section 2.3.2, RFC 3260 section 2): traffic that a
/// customer may send to another in a class, and the promised quality.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// The sender.
    pub from: String,
    /// The receiver.
    pub to: String,
    /// The class.
    pub class: String,
    /// The rate of the profile, counted in IP bytes.
    pub rate: Rate,
    /// The burst of the profile in IP bytes, at least one packet.
    pub burst: Size,
    /// The size of its IP packets, which determines their overhead on the wire; the smallest one
    /// if sizes differ.
    pub packet: Size,
    /// The size as which smaller packets are metered at the edge, so that they do not take more
    /// of a line than calculated. It is the smallest stated packet among the services that are
    /// metered together, or `None` if one of them states none.
    pub smallest: Option<Size>,
    /// The protocols and ports by which the boundary router classifies its packets, regardless
    /// of their code point. If it is empty, they are classified by the code point of the class.
    pub select: Select,
    /// The promised longest delay from the sender's machine to the receiver's.
    pub delay: Option<Span>,
    /// The promised largest difference between the delays of two packets.
    pub jitter: Option<Span>,
    /// The promised largest loss, in queues or on the path.
    pub loss: Option<Share>,
    /// The promised share of a calendar month (UTC) in which all other promises are kept.
    pub availability: Option<Share>,
    /// The promised longest time in a row in which another promise is broken.
    pub outage: Option<Span>,
    /// The position in the file.
    pub position: Position,
}

/// The fields of a multi-field classifier besides addresses (RFC 2475 section 2.3.1).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Select {
    /// Protocols. If empty, it matches all, or with ports those that have ports.
    pub protocols: Vec<Protocol>,
    /// Destination ports; if empty, all.
    pub ports: Vec<Ports>,
    /// Source ports; if empty, all.
    pub from_ports: Vec<Ports>,
}

impl Select {
    /// Returns whether it has no conditions.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.protocols.is_empty() && self.ports.is_empty() && self.from_ports.is_empty()
    }

    /// Returns whether a packet could match both.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        let ports = |one: &[Ports], other: &[Ports]| {
            let apart = |one: &Ports, other: &Ports| one.to < other.from || other.to < one.from;
            let some = |one: &Ports| other.iter().any(|other| !apart(one, other));
            one.is_empty() || other.is_empty() || one.iter().any(some)
        };
        let (mine, others) = (&self.protocols, &other.protocols);
        let protocol = mine.is_empty()
            || others.is_empty()
            || mine.iter().any(|protocol| others.contains(protocol));
        protocol && ports(&self.ports, &other.ports) && ports(&self.from_ports, &other.from_ports)
    }
}

impl Service {
    /// Returns the part of a time that the promised availability leaves for outages; `None` if none
    /// is promised.
    #[must_use]
    pub fn unavailable(&self, of: Span) -> Option<Span> {
        let share = self.availability?.as_millionths();
        let rest = Share::WHOLE.as_millionths().saturating_sub(share);
        let nanos = u128::from(of.as_nanos()) * u128::from(rest) / 1_000_000;
        u64::try_from(nanos).ok().map(Span::from_nanos)
    }

    /// Returns the packet size from which its overhead on the wire is calculated.
    #[must_use]
    pub fn reckoned(&self) -> Size {
        self.smallest.unwrap_or(self.packet)
    }

    /// Returns its rate on the wire with this link layer, rounded up to whole bytes.
    #[must_use]
    pub fn wire_rate(&self, layer: &LinkLayer) -> Rate {
        let packet = u128::from(self.reckoned().as_bytes().max(1));
        let wire = u128::from(layer.wire_bytes(self.reckoned_bytes()));
        let bits = u128::from(self.rate.as_bits_per_second()) * wire;
        Rate::bits_per_second(u64::try_from(bits.div_ceil(packet)).unwrap_or(u64::MAX))
    }

    /// Returns its burst in bytes on the wire.
    #[must_use]
    pub fn wire_burst(&self, layer: &LinkLayer) -> u64 {
        let packets = self
            .burst
            .as_bytes()
            .div_ceil(self.reckoned().as_bytes().max(1));
        packets.saturating_mul(u64::from(layer.wire_bytes(self.reckoned_bytes())))
    }

    fn reckoned_bytes(&self) -> u32 {
        u32::try_from(self.reckoned().as_bytes()).unwrap_or(u32::MAX)
    }
}
