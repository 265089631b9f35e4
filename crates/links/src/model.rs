// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The content of a file of links.

use crate::health::Timing;
use std::fmt;
use std::net::IpAddr;
use weirgate_policy::{Ports, Prefix, Protocol};
use weirgate_state::{DeviceName, FIRST_TABLE};

/// How links share the connections to which no rule applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Use {
    /// The first link that is up has all of them.
    #[default]
    Failover,
    /// New connections are divided among all links that are up, by weight.
    Balance,
}

/// The links of a site, and how they are used together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Links {
    /// How they share connections.
    pub usage: Use,
    /// The bits of marks that contain their numbers.
    pub marks: u32,
    /// The times after which a link counts as dead, and as usable again.
    pub timing: Timing,
    /// The links, at least one, the most preferred first.
    pub links: Vec<Link>,
    /// The rules; the first one that matches applies.
    pub rules: Vec<Rule>,
}

/// One link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its name in messages: the device, unless the file gives another.
    pub name: String,
    /// Its device, as in the link's policy.
    pub device: DeviceName,
    /// The next hops, at most one of each IP version. Without any, those of the main table's
    /// default routes through this device are used.
    pub gateways: Vec<IpAddr>,
    /// Its weight for new connections with [`Use::Balance`], 1 to 100.
    pub weight: u32,
    /// The hosts that are probed over this link.
    pub probe: Vec<IpAddr>,
}

/// Connections that use certain links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Their source prefix.
    pub from: Option<Prefix>,
    /// Their destination prefix.
    pub to: Option<Prefix>,
    /// Their protocols; empty means any.
    pub protocols: Vec<Protocol>,
    /// Their destination ports; empty means any. Each of the protocols has ports.
    pub to_ports: Vec<Ports>,
    /// The links by number: the first one that is up is used. If none is, the rule is skipped.
    pub links: Vec<usize>,
}

impl Use {
    /// Returns the word in a file.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Failover => "failover",
            Self::Balance => "balance",
        }
    }
}

/// Writes its conditions as in a file.
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
    /// Returns the rules that name a link, as text. It says so if a rule prefers other links.
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

    /// Returns the routing table of a link, by its number.
    #[must_use]
    pub const fn table(&self, number: usize) -> u32 {
        FIRST_TABLE + number as u32
    }

    /// Returns the mark value of a link.
    #[must_use]
    pub const fn mark(&self, number: usize) -> u32 {
        (number as u32 + 1) << self.marks.trailing_zeros()
    }
}
