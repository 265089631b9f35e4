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

/// A domain that was read. Names are keys; links, customers' ports and
/// services refer to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// The files of the list of circuits that routers have parts of, as written.
    pub circuits: Vec<Value<String>>,
    /// Its routers.
    pub routers: BTreeMap<String, Router>,
    /// The links between routers, as written.
    pub links: Vec<Link>,
    /// The classes that every port of the domain has.
    pub classes: BTreeMap<String, Class>,
    /// Who is connected at the boundary.
    pub customers: BTreeMap<String, Customer>,
    /// What was promised, as written.
    pub services: Vec<Service>,
}

impl Domain {
    /// Whether every router distinguishes drop precedences and importance, so that packets beyond a
    /// profile may enter and are dropped first. If one router cannot, such packets would take the
    /// room of packets within their profiles, so the edge discards them.
    #[must_use]
    pub fn tells_levels(&self) -> bool {
        self.routers.values().all(|router| router.kit)
    }
}

/// A position in the file: its bytes, and its line from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The bytes.
    pub span: Range<usize>,
    /// The line.
    pub line: u32,
}

/// The position of a router in the domain (RFC 2475 section 2.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Customers are connected to it.
    Boundary,
    /// It joins routers of the domain only.
    Interior,
}

/// A router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Router {
    /// Its role.
    pub role: Role,
    /// Whether its ports are shaped by the kit (`engine = "kit"`), which can
    /// tell drop precedences apart.
    pub kit: bool,
    /// How ssh calls it; by its name here where nothing is configured.
    pub host: Option<String>,
    /// The circuits that it shapes.
    pub circuits: Option<Circuits>,
    /// Whether other devices of it may have circuits, which are not the domain's to say.
    pub other_circuits: bool,
    /// Where it is written.
    pub position: Position,
}

/// The circuits of a router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circuits {
    /// Which they are.
    pub of: CircuitsOf,
    /// The device that sends to subscribers.
    pub access: Option<Value<String>>,
    /// The device that sends packets from subscribers.
    pub core: Option<Value<String>>,
    /// What all have together, to subscribers and from them.
    pub rates: Option<[Rate; 2]>,
    /// The most queues of each device.
    pub queues: Option<u32>,
    /// Where they are written.
    pub position: Position,
}

/// Which circuits a router has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CircuitsOf {
    /// All of a list in these files.
    Files(Vec<Value<String>>),
    /// What is below these sites of the domain's list.
    Sites(Vec<Value<String>>),
}

/// A link between two routers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The routers at its ends.
    pub between: [String; 2],
    /// The device of each towards the other.
    pub devices: [String; 2],
    /// What the line carries from the first to the second, and back.
    pub rates: [Rate; 2],
    /// How long a bit travels.
    pub delay: Span,
    /// What packets cost there.
    pub layer: Layer,
    /// Where it is written.
    pub position: Position,
}

/// A link layer, by the name that a policy gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// The name.
    pub name: String,
    /// What it means.
    pub layer: LinkLayer,
}

/// A class of every port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// How it is treated.
    pub behaviour: Behaviour,
    /// Its part of each port; none for lower effort, which has no part.
    pub share: Option<Share>,
    /// Where it is written.
    pub position: Position,
}

/// A customer, and the port of the boundary router that leads there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Customer {
    /// The boundary router.
    pub router: String,
    /// Its device towards the customer.
    pub device: String,
    /// What that line carries towards the customer.
    pub rate: Rate,
    /// What it carries from there.
    pub rate_from: Rate,
    /// What packets cost there.
    pub layer: Layer,
    /// How long a bit travels.
    pub delay: Span,
    /// How ssh calls a machine there that can send and receive.
    pub host: Option<String>,
    /// That machine's address within the domain.
    pub address: Option<IpAddr>,
    /// What is stated of the networks there; [`Customer::scope`] is what they
    /// are taken for.
    pub networks: Vec<Prefix>,
    /// Where it is written.
    pub position: Position,
}

impl Customer {
    /// The addresses that are there, as far as they are known: the stated
    /// networks, else the machine's own address.
    #[must_use]
    pub fn scope(&self) -> Vec<Prefix> {
        if self.networks.is_empty() {
            self.address.map(Prefix::single).into_iter().collect()
        } else {
            self.networks.clone()
        }
    }
}

/// A service level specification (RFC 2475 section 2.3.2, RFC 3260 section 2):
/// traffic that a customer may send in a class to another, and how it fares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// Who sends.
    pub from: String,
    /// To whom.
    pub to: String,
    /// The class.
    pub class: String,
    /// The profile: IP bytes a second, as bits.
    pub rate: Rate,
    /// The profile: IP bytes at once, at least one packet.
    pub burst: Size,
    /// The size of its IP packets, which decides what they cost on the wire;
    /// the smallest, where sizes differ.
    pub packet: Size,
    /// What a smaller packet is measured as at the edge, so that none takes more
    /// of a line than was reckoned: the smallest packet that is stated among the
    /// services that are measured together. None where one of them states none.
    pub smallest: Option<Size>,
    /// Protocols, and ports at the destination and at the source, by which the
    /// boundary router finds its packets whatever code point they bring; where
    /// none is stated, they are found by the code point of the class.
    pub select: Select,
    /// The longest that a packet takes from the sender's machine to the receiver's.
    pub delay: Option<Span>,
    /// The most by which two packets' delays differ.
    pub jitter: Option<Span>,
    /// The most of its packets that is lost, to a full queue or on the way.
    pub loss: Option<Share>,
    /// Where it is written.
    pub position: Position,
}

/// What a multi-field classifier looks at beside addresses (RFC 2475 section
/// 2.3.1).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Select {
    /// Protocols; none is all, or with ports those that have ports.
    pub protocols: Vec<Protocol>,
    /// Ports at the destination; none is all.
    pub ports: Vec<Ports>,
    /// Ports at the source; none is all.
    pub from_ports: Vec<Ports>,
}

impl Select {
    /// Whether it looks at nothing.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.protocols.is_empty() && self.ports.is_empty() && self.from_ports.is_empty()
    }

    /// Whether some packet could be of both.
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
    /// The size by which its cost on the wire is reckoned.
    #[must_use]
    pub fn reckoned(&self) -> Size {
        self.smallest.unwrap_or(self.packet)
    }

    /// Its rate in wire bytes a second where packets cost as `layer` says,
    /// rounded up.
    #[must_use]
    pub fn wire_rate(&self, layer: &LinkLayer) -> Rate {
        let packet = u128::from(self.reckoned().as_bytes().max(1));
        let wire = u128::from(layer.wire_bytes(self.reckoned_bytes()));
        let bits = u128::from(self.rate.as_bits_per_second()) * wire;
        Rate::bits_per_second(u64::try_from(bits.div_ceil(packet)).unwrap_or(u64::MAX))
    }

    /// Its burst in wire bytes.
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
