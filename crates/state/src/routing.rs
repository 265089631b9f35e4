// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routing over several links: policy routing rules, routes in weirgate's own tables, and the marks
//! that keep a connection on its link.
//!
//! All of it is recognised by numbers alone, so that it can be removed without a stored record:
//! [`PROTOCOL`], the priorities from [`FIRST_PRIORITY`] and the tables from [`FIRST_TABLE`].

mod selector;
mod text;

pub use selector::{Selector, Transport};

use crate::{DeviceName, IpVersion};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

/// The maximum number of links of one site.
pub const MOST_LINKS: usize = 8;
/// The originator of a rule or route (`FRA_PROTOCOL`, `rtm_protocol`): a number that is unused in
/// linux/rtnetlink.h and in iproute2's `rt_protos`.
pub const PROTOCOL: u8 = 87;
/// The priority of the first rule, before those of the main table (32766).
pub const FIRST_PRIORITY: u32 = 7_700;
/// The priority after the last.
pub const END_PRIORITY: u32 = 7_800;
/// The routing table of the first link; those of the others follow.
pub const FIRST_TABLE: u32 = 7_701;
/// The nftables table of marks, in family inet.
pub const MARKS_TABLE: &str = "weirgate-links";

/// A routing rule (`RTM_NEWRULE`, linux/fib_rules.h): packets that match all given conditions are
/// looked up in the table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RoutingRule {
    /// Its priority; the lowest number comes first.
    pub priority: u32,
    /// The IP version of the packets.
    pub version: IpVersion,
    /// The value and mask of the packet's mark.
    pub mark: Option<(u32, u32)>,
    /// The device to which the packet's socket is bound.
    pub bound_to: Option<DeviceName>,
    /// The table.
    pub table: u32,
    /// Whether default routes of that table are ignored (`suppress_prefixlength 0`).
    pub no_default: bool,
}

/// A default route in one of weirgate's tables.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LinkRoute {
    /// The table.
    pub table: u32,
    /// The IP version of the packets.
    pub version: IpVersion,
    /// The device.
    pub device: DeviceName,
    /// The next hop; `None` on a point-to-point device.
    pub gateway: Option<IpAddr>,
}

/// How connections are marked with the link that they use.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Marking {
    /// The bits of the marks of packets and connections.
    pub mask: u32,
    /// The mark value of each link, by its device.
    pub devices: BTreeMap<DeviceName, u32>,
    /// Which link a connection without a mark gets: the first choice that matches. If none matches,
    /// the routing rules decide.
    pub choices: Vec<Choice>,
}

/// Links among which matching connections are divided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// The connections.
    #[serde(flatten)]
    pub of: Selector,
    /// The mark values of links, each with its weight above 0.
    pub links: Vec<(u32, u32)>,
}

/// A chain of the table of marks. All have the priority `mangle` (-150), before routing and before
/// address translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MarkChain {
    /// Arriving packets, before they are routed.
    Prerouting,
    /// The machine's own packets, which are routed again if their mark changes.
    Output,
    /// All departing packets.
    Postrouting,
}

/// A rule of the table of marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarkRule {
    /// Marks a connection that arrives through a link with that link.
    Arrives(DeviceName, u32),
    /// Accepts what arrives through a link: it goes to this machine or to hosts, and needs no mark.
    Through(DeviceName),
    /// Copies the connection's mark to the packet.
    Restore(u32),
    /// Marks a share of the matching connections with the value: `part` out of `of`.
    Choose {
        /// The connections.
        selector: Selector,
        /// The value.
        value: u32,
        /// The number of connections that get it.
        part: u32,
        /// The number out of which these are.
        of: u32,
    },
    /// Marks a connection that leaves through a link with that link.
    Leaves(DeviceName, u32),
}

/// All of weirgate's routing in one network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Routing {
    /// The rules.
    pub rules: BTreeSet<RoutingRule>,
    /// The routes.
    pub routes: BTreeSet<LinkRoute>,
    /// The contents of the table of marks, if it exists. A table that was modified is observed as
    /// one without links.
    pub marks: Option<Marking>,
}

/// How a device leads to the internet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkPath {
    /// The device's index, if it exists. Another device of the same name has another index.
    pub index: Option<u32>,
    /// Whether the device exists, is up and has a carrier.
    pub up: bool,
    /// Whether the kernel considers it operational (`IFF_RUNNING`). A device with a carrier may
    /// wait for something else, such as 802.1X.
    pub running: bool,
    /// The next hops of IPv4 and IPv6, where there is a default route.
    pub hops: BTreeMap<IpVersion, Option<IpAddr>>,
    /// The device's own addresses, from which probes are sent.
    pub addresses: BTreeSet<IpAddr>,
}

impl MarkChain {
    /// All chains.
    pub const ALL: [Self; 3] = [Self::Prerouting, Self::Output, Self::Postrouting];

    /// Returns the name of its hook, which is also the name of the chain.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prerouting => "prerouting",
            Self::Output => "output",
            Self::Postrouting => "postrouting",
        }
    }
}

impl Marking {
    /// Returns the rules of the table, by chain and in order.
    #[must_use]
    pub fn rules(&self) -> Vec<(MarkChain, MarkRule)> {
        let mut rules = Vec::new();
        for (device, value) in &self.devices {
            rules.extend([
                (
                    MarkChain::Prerouting,
                    MarkRule::Arrives(device.clone(), *value),
                ),
                (MarkChain::Prerouting, MarkRule::Through(device.clone())),
            ]);
        }
        let restore = |chain| {
            self.devices
                .values()
                .map(move |value| (chain, MarkRule::Restore(*value)))
        };
        rules.extend(restore(MarkChain::Prerouting));
        for choice in &self.choices {
            let mut of = choice.links.iter().map(|(_, weight)| weight).sum();
            for (value, weight) in &choice.links {
                rules.push((
                    MarkChain::Prerouting,
                    MarkRule::Choose {
                        selector: choice.of,
                        value: *value,
                        part: *weight,
                        of,
                    },
                ));
                // Each rule only sees the connections that the earlier ones left.
                of -= weight;
            }
        }
        rules.extend(restore(MarkChain::Output));
        for (device, value) in &self.devices {
            rules.push((
                MarkChain::Postrouting,
                MarkRule::Leaves(device.clone(), *value),
            ));
        }
        rules
    }

    /// Returns the rules as text, for people and for comparison.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let rules = self.rules();
        let line = |(chain, rule): &(MarkChain, MarkRule)| {
            format!("{}: {}", chain.name(), self.line(rule))
        };
        rules.iter().map(line).collect()
    }

    /// Parses the lines of [`Marking::lines`], which are the comments of the rules.
    #[must_use]
    pub fn of_lines(lines: &[String]) -> Option<Self> {
        let mut found = Self::default();
        // Whether the weights of the last choice's links add up to the whole.
        let mut complete = true;
        for line in lines {
            // The rules of the other chains follow from the devices.
            let Some(rule) = line.strip_prefix("prerouting: ") else {
                break;
            };
            let words: Vec<&str> = rule.split(' ').collect();
            if let [
                "iifname",
                device,
                "ct",
                "mark",
                "&",
                mask,
                "==",
                "0",
                ..,
                value,
            ] = words[..]
            {
                found.mask = number(mask)?;
                found
                    .devices
                    .insert(DeviceName::new(device)?, number(value)?);
            } else if !["ct", "iifname"].contains(&words[0]) {
                let (of, rest) = Selector::of_words(&words)?;
                let (part, all, value) = match rest {
                    ["mark", value] => ("1", "1", value),
                    [part, "mark", value] => {
                        let (part, all) = part.split_once('/')?;
                        (part, all, value)
                    }
                    _ => return None,
                };
                if complete {
                    found.choices.push(Choice {
                        of,
                        links: Vec::new(),
                    });
                }
                let choice = found.choices.last_mut()?;
                choice.links.push((number(value)?, part.parse().ok()?));
                complete = part == all;
            }
        }
        (found.lines() == lines).then_some(found)
    }

    /// Returns a rule in a form close to nft's; at most 127 bytes, the limit of a comment in
    /// nftables.
    #[must_use]
    pub fn line(&self, rule: &MarkRule) -> String {
        let bits = self.mask;
        match rule {
            MarkRule::Arrives(device, value) => {
                format!("iifname {device} ct mark & {bits:#x} == 0 set ct mark {value:#x}")
            }
            MarkRule::Through(device) => format!("iifname {device} accept"),
            MarkRule::Restore(value) => {
                format!("ct mark & {bits:#x} == {value:#x} set mark {value:#x} accept")
            }
            MarkRule::Choose {
                selector,
                value,
                part: 1,
                of: 1,
            } => format!("{selector}mark {value:#x}"),
            MarkRule::Choose {
                selector,
                value,
                part,
                of,
            } => format!("{selector}{part}/{of} mark {value:#x}"),
            MarkRule::Leaves(device, value) => {
                format!("oifname {device} ct mark & {bits:#x} == 0 set ct mark {value:#x}")
            }
        }
    }
}

/// Parses a number that was formatted by `{:#x}`.
fn number(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

impl fmt::Display for RoutingRule {
    /// Writes it in the form of iproute2.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ip -{} rule pref {}",
            self.version.number(),
            self.priority
        )?;
        if let Some((value, mask)) = self.mark {
            write!(f, " fwmark {value:#x}/{mask:#x}")?;
        }
        if let Some(device) = &self.bound_to {
            write!(f, " oif {device}")?;
        }
        write!(f, " lookup {}", self.table)?;
        if self.no_default {
            write!(f, " suppress_prefixlength 0")?;
        }
        Ok(())
    }
}

impl fmt::Display for LinkRoute {
    /// Writes it in the form of iproute2.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ip -{} route default", self.version.number())?;
        if let Some(gateway) = self.gateway {
            write!(f, " via {gateway}")?;
        }
        write!(f, " dev {} table {}", self.device, self.table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_link_gets_its_part_and_lines_are_short() {
        let name = |text: &str| DeviceName::new(text).unwrap();
        let net = Some((
            "2001:1db8:1111:2222:3333:4444:5555:6660".parse().unwrap(),
            127,
        ));
        let marking = Marking {
            mask: 0xf000_0000,
            devices: (1..=8)
                .map(|n| (name(&format!("fifteen-bytes-{n}")), n << 28))
                .collect(),
            choices: vec![
                Choice {
                    of: Selector {
                        from: net,
                        to: net,
                        transport: Some(Transport {
                            protocol: 132,
                            to_port: Some((10_000, 10_001)),
                        }),
                    },
                    links: vec![(8 << 28, 1)],
                },
                Choice {
                    of: Selector {
                        transport: Some(Transport {
                            protocol: 17,
                            to_port: Some((53, 53)),
                        }),
                        ..Selector::default()
                    },
                    links: vec![(8 << 28, 1)],
                },
                Choice {
                    of: Selector {
                        from: net,
                        to: net,
                        ..Selector::default()
                    },
                    links: vec![(1 << 28, 3), (2 << 28, 2), (3 << 28, 1)],
                },
            ],
        };
        let parts: Vec<(u32, u32)> = marking
            .rules()
            .iter()
            .filter_map(|(_, rule)| match rule {
                MarkRule::Choose { part, of, .. } => Some((*part, *of)),
                _ => None,
            })
            .collect();
        assert_eq!(parts, [(1, 1), (1, 1), (3, 6), (2, 3), (1, 1)]);
        let mut lines = marking.lines();
        assert_eq!(Marking::of_lines(&lines), Some(marking.clone()));
        lines.swap(0, 1);
        assert_eq!(Marking::of_lines(&lines), None);
        assert_eq!(Marking::of_lines(&["prerouting: / mark".to_owned()]), None);
        let longest = marking
            .rules()
            .iter()
            .map(|(_, rule)| marking.line(rule).len())
            .max();
        assert!(longest.unwrap() <= 127, "{longest:?}");
    }
}
