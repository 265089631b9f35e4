// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classes with child classes: one for each group with a share, or one for each host with a limit.
//!
//! ```text
//! 2:1
//! ├ class            rate = guarantee, ceil = ceiling
//! │  ├ hosts of no group       rate = what is left of the guarantee
//! │  ├ group                   rate = its part of the guarantee
//! ```
//!
//! HTB serves leaves that are within their own rate first, then those that borrow from their
//! parent, then those that borrow from 2:1. A group therefore gets its part, then what other
//! groups of the class leave, then what other classes leave. Each leaf of this kind counts as a
//! class of its own in bounds; the sum of their rates is the rate of the class.
//!
//! Hosts with limits have a negligible rate of their own. The class lends them its whole
//! guarantee in turns of one full packet, so that each gets the same rate, up to its limit
//! (`ceil`). HTB serves borrowed packets after guaranteed ones, so such a class waits for every
//! other class that is within its guarantee; [`crate::scheduler::bounds`] includes that. HTB
//! lets a leaf that was idle for a minute send one packet before it borrows; the bounds of other
//! classes include that too.

use crate::scheduler::number;
use crate::scheduler::number::INNER;
use std::collections::BTreeMap;
use std::net::IpAddr;
use weirgate_policy::{Direction, Engine, Fair, GroupShare, Policy, Prefix, SharedClass, in_kbit};
use weirgate_units::{Handle, Inserted as _, Rate, Span};

/// A class that has children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// The class as a whole.
    pub class: SharedClass,
    /// Its class identifier.
    pub id: Handle,
    /// Its token bucket, as the time to fill it at its rate.
    pub buffer: Span,
    /// The hosts that have a limit in it.
    pub hosts: Vec<CappedHost>,
    /// Disjoint prefixes with the part of each, for packets of this class.
    pub members: Vec<(Prefix, Handle)>,
}

impl Parent {
    /// Describes the class and why it has children.
    pub fn reason(&self) -> String {
        let between = if self.hosts.is_empty() {
            "groups"
        } else {
            "hosts with limits"
        };
        format!(
            "class {}: {} guaranteed, divided between {between}",
            self.class.name,
            in_kbit(self.class.rate)
        )
    }
}

/// A host with a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CappedHost {
    /// Its class identifier.
    pub id: Handle,
    /// Its address, or its prefix if hosts are distinguished by prefix.
    pub address: Prefix,
    /// Its maximum rate in the class.
    pub ceil: Rate,
    /// Its maximum rate in all classes together, if that is limited.
    pub over_all: Option<OverAll>,
    /// The line that states the limit, counted from 1.
    pub line: u32,
}

/// The limit of a host over all classes together, which only the engine of rows supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverAll {
    /// Its row number, which is the same in every class.
    pub id: Handle,
    /// The maximum rate of the host.
    pub rate: Rate,
    /// The line that states the limit, counted from 1.
    pub line: u32,
}

/// A future leaf: a class, the rest of a divided class, or the part of a group.
pub(crate) struct Leaf {
    pub(crate) class: SharedClass,
    /// The name of the whole class.
    pub(crate) whole: String,
    /// The group whose part it is.
    pub(crate) group: Option<String>,
    /// The number of hosts with limits that it represents besides itself.
    pub(crate) capped: u32,
    /// The name of the node above its hosts' leaves, in the engine of rows.
    pub(crate) hosts: Option<String>,
}

/// Returns the leaves of these classes. Parts follow the rest of their class.
pub(crate) fn leaves(
    policy: &Policy,
    direction: Direction,
    gate: Rate,
    classes: &[SharedClass],
) -> Vec<Leaf> {
    let mut out = Vec::new();
    for class in classes {
        let shares: Vec<&GroupShare> = policy
            .shares
            .iter()
            .filter(|share| share.divides(&class.name))
            .collect();
        let part = |share: &GroupShare| {
            let rate = share.share.value.of(class.rate).as_bits_per_second() / 8 * 8;
            Rate::bits_per_second(rate.max(8))
        };
        let given: u64 = shares
            .iter()
            .map(|share| part(share).as_bits_per_second())
            .sum();
        let left = class.rate.as_bits_per_second().saturating_sub(given);
        let engine = policy.link.engine.as_ref().map(|engine| engine.value);
        let by_hosts = engine == Some(Engine::Rows) && class.fair.is_some_and(Fair::knows_hosts);
        let limited = capped(policy, direction, &class.name).len() as u32;
        // The node of a divided class already uses the first name.
        let own = if shares.is_empty() {
            parent_name(&class.name)
        } else {
            parent_name(&parent_name(&class.name))
        };
        let rest = SharedClass {
            rate: if shares.is_empty() {
                class.rate
            } else {
                Rate::bits_per_second(left.max(8))
            },
            ..class.clone()
        };
        out.push(Leaf {
            class: rest,
            whole: class.name.clone(),
            group: None,
            capped: limited,
            // Hosts with limits already have separate leaves.
            hosts: (by_hosts && limited == 0).then_some(own),
        });
        out.extend(shares.into_iter().map(|share| {
            let ceiling = share.ceiling.as_ref().map(|amount| amount.value.of(gate));
            let ceiling = ceiling.map_or(class.ceiling, |own| own.min(class.ceiling));
            let rate = part(share);
            let name = format!("{}/{}", class.name, share.group.value);
            Leaf {
                hosts: by_hosts.then(|| parent_name(&name)),
                class: SharedClass {
                    name,
                    line: share.line,
                    span: share.span.clone(),
                    rate,
                    ceiling: Rate::bits_per_second(ceiling.as_bits_per_second() / 8 * 8).max(rate),
                    default: false,
                    ..class.clone()
                },
                whole: class.name.clone(),
                group: Some(share.group.value.clone()),
                capped: 0,
            }
        }));
    }
    out
}

/// A host with a limit in one class, in all classes, or both.
struct Capped {
    /// The name from which its number is derived.
    name: String,
    host: Prefix,
    /// The limit in this class, with its line.
    own: Option<(Rate, u32)>,
    /// The limit in all classes together, with its line.
    over_all: Option<(Rate, u32)>,
}

/// Returns the hosts that have a limit in a class, each once. The first limit of either kind
/// applies.
fn capped(policy: &Policy, direction: Direction, class: &str) -> Vec<Capped> {
    let mut seen: BTreeMap<(IpAddr, u8), usize> = BTreeMap::new();
    let mut out: Vec<Capped> = Vec::new();
    for cap in policy.caps.iter().filter(|cap| cap.divides(class)) {
        let Some(rate) = cap.rate(direction) else {
            continue;
        };
        for host in &cap.hosts {
            let at = *seen.entry((host.address, host.length)).or_insert_with(|| {
                out.push(Capped {
                    name: format!("{class}@{host}"),
                    host: *host,
                    own: None,
                    over_all: None,
                });
                out.len() - 1
            });
            let slot = if cap.is_over_all() {
                &mut out[at].over_all
            } else {
                &mut out[at].own
            };
            slot.get_or_insert((rate, cap.line));
        }
    }
    out
}

/// Returns the name of a host's limit over all classes, which cannot be that of a class.
fn over_all_name(host: Prefix) -> String {
    format!("@{host}")
}

/// The numbers of everything below 2:1: classes, parts, parents and hosts.
pub(crate) struct Numbers(BTreeMap<String, u16>);

impl Numbers {
    pub(crate) fn of(policy: &Policy, direction: Direction, leaves: &[Leaf]) -> Self {
        let mut names: Vec<String> = leaves.iter().map(|leaf| leaf.class.name.clone()).collect();
        names.extend(leaves.iter().filter_map(|leaf| leaf.hosts.clone()));
        for leaf in leaves.iter().filter(|leaf| leaf.group.is_none()) {
            names.push(parent_name(&leaf.whole));
            let hosts = capped(policy, direction, &leaf.whole);
            for host in hosts {
                // `number::of` ignores duplicate names.
                names.extend(host.over_all.map(|_| over_all_name(host.host)));
                names.push(host.name);
            }
        }
        let numbers = number::of(names.iter().map(String::as_str));
        Self(
            numbers
                .into_iter()
                .map(|(name, at)| (name.to_owned(), at))
                .inserted(),
        )
    }

    /// Returns the class identifier for a name. At most 4000 names are used, so each has a
    /// number.
    pub(crate) fn id(&self, name: &str) -> Handle {
        let number = self.0.get(name).copied();
        Handle::new(INNER, number.unwrap_or(number::FIRST))
    }
}

/// Returns the name of the node above; class names cannot contain `/`.
fn parent_name(class: &str) -> String {
    format!("{class}/")
}

/// Rounds a limit down to a multiple of 8 bit/s, as tc counts, but at least 8 bit/s.
fn whole(rate: Rate) -> Rate {
    Rate::bits_per_second((rate.as_bits_per_second() / 8 * 8).max(8))
}

/// Returns the parents among these classes, without their token buckets.
pub(crate) fn parents(
    policy: &Policy,
    direction: Direction,
    classes: &[SharedClass],
    numbers: &Numbers,
) -> Vec<Parent> {
    let mut out = Vec::new();
    for class in classes {
        let hosts: Vec<CappedHost> = capped(policy, direction, &class.name)
            .into_iter()
            .map(|capped| {
                let own = capped.own.map_or(class.ceiling, |(rate, _)| rate);
                let stated = capped.own.or(capped.over_all);
                CappedHost {
                    id: numbers.id(&capped.name),
                    address: capped.host,
                    ceil: whole(own).min(class.ceiling),
                    over_all: capped.over_all.map(|(rate, line)| OverAll {
                        id: numbers.id(&over_all_name(capped.host)),
                        rate: whole(rate),
                        line,
                    }),
                    line: stated.map_or(class.line, |(_, line)| line),
                }
            })
            .collect();
        let mut members: Vec<(Prefix, Handle)> =
            hosts.iter().map(|host| (host.address, host.id)).collect();
        for share in policy
            .shares
            .iter()
            .filter(|share| share.divides(&class.name))
        {
            let id = numbers.id(&format!("{}/{}", class.name, share.group.value));
            members.extend(share.addresses.iter().map(|prefix| (*prefix, id)));
        }
        if !members.is_empty() {
            out.push(Parent {
                class: class.clone(),
                id: numbers.id(&parent_name(&class.name)),
                buffer: Span::ZERO,
                hosts,
                members,
            });
        }
    }
    out
}
