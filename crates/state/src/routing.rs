// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What routes packets over several links: rules of policy routing, routes in
//! tables of weirgate's own, and the marks that keep a connection on its link.
//!
//! All of it is recognised by numbers alone, so that nothing has to be
//! remembered to take it away: [`PROTOCOL`], the priorities from
//! [`FIRST_PRIORITY`] and the tables from [`FIRST_TABLE`].

mod selector;
mod text;

pub use selector::{Selector, Transport};

use crate::{DeviceName, IpVersion};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

/// The most links of one site.
pub const MOST_LINKS: usize = 8;
/// Who made a rule or route (`FRA_PROTOCOL`, `rtm_protocol`): a number that
/// neither linux/rtnetlink.h nor iproute2's `rt_protos` gives to anybody.
pub const PROTOCOL: u8 = 87;
/// The priority of the first rule, before those of the main table (32766).
pub const FIRST_PRIORITY: u32 = 7_700;
/// The priority after the last.
pub const END_PRIORITY: u32 = 7_800;
/// The routing table of the first link; the others' follow.
pub const FIRST_TABLE: u32 = 7_701;
/// The nftables table of marks, of the family inet.
pub const MARKS_TABLE: &str = "weirgate-links";

/// A routing rule (`RTM_NEWRULE`, linux/fib_rules.h): packets that match all that
/// is given are looked up in the table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RoutingRule {
    /// Its place among all rules; the lowest comes first.
    pub priority: u32,
    /// Whose packets.
    pub version: IpVersion,
    /// Value and mask of the packet's mark.
    pub mark: Option<(u32, u32)>,
    /// The device that the packet's socket is bound to.
    pub bound_to: Option<DeviceName>,
    /// The table.
    pub table: u32,
    /// Whether routes of no prefix are passed over (`suppress_prefixlength 0`).
    pub no_default: bool,
}

/// A default route in one of the own tables.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LinkRoute {
    /// The table.
    pub table: u32,
    /// Whose packets.
    pub version: IpVersion,
    /// The device.
    pub device: DeviceName,
    /// The next hop; `None` where the device has one other end.
    pub gateway: Option<IpAddr>,
}

/// How connections are marked with the link that they use.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Marking {
    /// The bits of the marks of packets and connections.
    pub mask: u32,
    /// The value of each link, by its device.
    pub devices: BTreeMap<DeviceName, u32>,
    /// Which link a connection gets that has none; the first choice that fits.
    /// Without one the routing rules decide.
    pub choices: Vec<Choice>,
}

/// Links among which the connections that fit are divided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// Which connections.
    #[serde(flatten)]
    pub of: Selector,
    /// Values of links, each with its weight above 0.
    pub links: Vec<(u32, u32)>,
}

/// A chain of the table of marks. All are of the priority `mangle` (-150), before
/// routing and before addresses are translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MarkChain {
    /// Arriving packets, before they are routed.
    Prerouting,
    /// The machine's own, which are routed again where their mark changes.
    Output,
    /// All that leave.
    Postrouting,
}

/// A rule of the table of marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarkRule {
    /// A connection that arrives by a link is of that link.
    Arrives(DeviceName, u32),
    /// What arrives by a link goes to this machine or to hosts, and needs no mark.
    Through(DeviceName),
    /// A packet gets the value of its connection.
    Restore(u32),
    /// One of `of` connections that fit gets the value, `part` of `of` times.
    Choose {
        /// Which connections.
        selector: Selector,
        /// The value.
        value: u32,
        /// How many of them.
        part: u32,
        /// Of how many.
        of: u32,
    },
    /// A connection that leaves by a link is of that link.
    Leaves(DeviceName, u32),
}

/// Everything of weirgate's that routes, in one network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Routing {
    /// The rules.
    pub rules: BTreeSet<RoutingRule>,
    /// The routes.
    pub routes: BTreeSet<LinkRoute>,
    /// What is in the table of marks, where there is one. A table that is not as
    /// weirgate made it is observed as one without links.
    pub marks: Option<Marking>,
}

/// How a device leads to the internet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkPath {
    /// The device's number, where it is there. Another device of the name has another one.
    pub index: Option<u32>,
    /// Whether the device is there, switched on and has a carrier.
    pub up: bool,
    /// Whether the kernel takes it to be operational (`IFF_RUNNING`): one with a carrier may
    /// wait for something else, such as 802.1X.
    pub running: bool,
    /// The next hops: of IPv4 and IPv6, where there is a way.
    pub hops: BTreeMap<IpVersion, Option<IpAddr>>,
    /// The device's own addresses, from which probes are sent.
    pub addresses: BTreeSet<IpAddr>,
}

impl MarkChain {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Prerouting, Self::Output, Self::Postrouting];

    /// The name of hook and chain.
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
    /// The rules of the table, by chain and in order.
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
                // Each rule sees what the ones before it left.
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

    /// The same as text, for people and for comparison.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let rules = self.rules();
        let line = |(chain, rule): &(MarkChain, MarkRule)| {
            format!("{}: {}", chain.name(), self.line(rule))
        };
        rules.iter().map(line).collect()
    }

    /// The marking whose lines these are, as the rules' comments have them.
    #[must_use]
    pub fn of_lines(lines: &[String]) -> Option<Self> {
        let mut found = Self::default();
        // Whether the last choice has links for all that it is about.
        let mut complete = true;
        for line in lines {
            // The other chains follow from the devices.
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

    /// A rule, nearly as nft writes it; at most 127 bytes, so that a
    /// comment of nftables holds it.
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

/// A number as `{:#x}` writes it.
fn number(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

impl fmt::Display for RoutingRule {
    /// As iproute2 writes it.
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
    /// As iproute2 writes it.
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
