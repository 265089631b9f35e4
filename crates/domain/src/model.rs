// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A domain as a value.

use crate::Behaviour;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;
use weirgate_linklayer::LinkLayer;
use weirgate_units::{Rate, Share, Size, Span};

/// A domain that was read. Names are keys; links, customers' ports and
/// services refer to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
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
    /// Whether every router tells drop precedences and importance apart, so that
    /// what exceeds a profile may enter and be the first to go. Where one cannot,
    /// it would take the room of what keeps to its profile, and is discarded at
    /// the edge.
    #[must_use]
    pub fn tells_levels(&self) -> bool {
        self.routers.values().all(|router| router.kit)
    }
}

/// A place in the file: bytes, and the line from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The bytes.
    pub span: Range<usize>,
    /// The line.
    pub line: u32,
}

/// Where a router stands (RFC 2475 section 2.1.1).
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
    /// How ssh calls it; by its name here where nothing is said.
    pub host: Option<String>,
    /// Where it is written.
    pub place: Place,
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
    pub place: Place,
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
    pub place: Place,
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
    /// What packets cost there.
    pub layer: Layer,
    /// How long a bit travels.
    pub delay: Span,
    /// How ssh calls a machine there that can send and receive.
    pub host: Option<String>,
    /// That machine's address within the domain.
    pub address: Option<IpAddr>,
    /// Where it is written.
    pub place: Place,
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
    /// The longest that a packet takes from boundary to boundary.
    pub delay: Option<Span>,
    /// The most by which two packets' delays differ.
    pub jitter: Option<Span>,
    /// The most of its packets that is lost, to a full queue or on the way.
    pub loss: Option<Share>,
    /// Where it is written.
    pub place: Place,
}

impl Service {
    /// Its rate in wire bytes a second where packets cost as `layer` says,
    /// rounded up.
    #[must_use]
    pub fn wire_rate(&self, layer: &LinkLayer) -> Rate {
        let packet = u128::from(self.packet.as_bytes().max(1));
        let wire = u128::from(layer.wire_bytes(self.packet_bytes()));
        let bits = u128::from(self.rate.as_bits_per_second()) * wire;
        Rate::bits_per_second(u64::try_from(bits.div_ceil(packet)).unwrap_or(u64::MAX))
    }

    /// Its burst in wire bytes.
    #[must_use]
    pub fn wire_burst(&self, layer: &LinkLayer) -> u64 {
        let packets = self
            .burst
            .as_bytes()
            .div_ceil(self.packet.as_bytes().max(1));
        packets.saturating_mul(u64::from(layer.wire_bytes(self.packet_bytes())))
    }

    fn packet_bytes(&self) -> u32 {
        u32::try_from(self.packet.as_bytes()).unwrap_or(u32::MAX)
    }
}
