// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The content of a file of links.

use crate::health::Timing;
use std::fmt;
use std::net::IpAddr;
use weirgate_policy::{Ports, Prefix, Protocol};
use weirgate_state::{DeviceName, FIRST_TABLE};

/// How links share the connections that no rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Use {
    /// The first that is up has all.
    #[default]
    Failover,
    /// All that are up have new connections by their weights.
    Balance,
}

/// The links of a site, and how they are used together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Links {
    /// How they share connections.
    pub usage: Use,
    /// The bits of marks that number them.
    pub marks: u32,
    /// The times after which a link counts as dead, and as usable again.
    pub timing: Timing,
    /// At least one, the most preferred first.
    pub links: Vec<Link>,
    /// Who uses which; the first that fits.
    pub rules: Vec<Rule>,
}

/// One link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// What people call it: the device, unless the file says otherwise.
    pub name: String,
    /// Its device, as in the link's policy.
    pub device: DeviceName,
    /// The next hops, at most one of each IP version. Without any, those of the
    /// main table's default routes by this device.
    pub gateways: Vec<IpAddr>,
    /// Its part of new connections with [`Use::Balance`], 1 to 100.
    pub weight: u32,
    /// Hosts that are probed over this link; no others are.
    pub probe: Vec<IpAddr>,
}

/// Connections that use certain links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Their source.
    pub from: Option<Prefix>,
    /// Their destination.
    pub to: Option<Prefix>,
    /// Their protocol, any of these; none: any at all.
    pub protocols: Vec<Protocol>,
    /// Their destination port, in any of these; none: any at all. Each protocol has ports.
    pub to_ports: Vec<Ports>,
    /// Links by their number: the first that is up. If none is, the rule is
    /// passed over.
    pub links: Vec<usize>,
}

impl Use {
    /// As a file says it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Failover => "failover",
            Self::Balance => "balance",
        }
    }
}

/// What it is about, as a file says it.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        for (word, net) in [("from", &self.from), ("to", &self.to)] {
            words.extend(net.as_ref().map(|net| format!("{word} {net}")));
        }
        let listed = |all: Vec<String>| (!all.is_empty()).then(|| all.join(", "));
        words.extend(listed(
            self.protocols.iter().map(ToString::to_string).collect(),
        ));
        let ports = self.to_ports.iter().map(|one| match (one.from, one.to) {
            (from, to) if from == to => from.to_string(),
            (from, to) => format!("{from}-{to}"),
        });
        words.extend(listed(ports.collect()).map(|ports| format!("to-port {ports}")));
        if words.is_empty() {
            words.push("everything".to_owned());
        }
        f.write_str(&words.join(" "))
    }
}

impl Links {
    /// The rules that name a link, as text; those that prefer others say so.
    #[must_use]
    pub fn rules_of(&self, number: usize) -> Vec<String> {
        let mut found = Vec::new();
        for rule in &self.rules {
            match rule.links.iter().position(|one| *one == number) {
                Some(0) => found.push(rule.to_string()),
                Some(_) => found.push(format!("{rule}, if others are down")),
                None => {}
            }
        }
        found
    }

    /// The routing table of a link by its number.
    #[must_use]
    pub const fn table(&self, number: usize) -> u32 {
        FIRST_TABLE + number as u32
    }

    /// The value of a link in the bits of marks.
    #[must_use]
    pub const fn mark(&self, number: usize) -> u32 {
        (number as u32 + 1) << self.marks.trailing_zeros()
    }
}
