// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The routing that follows from the links that are up.

use crate::model::{Links, Rule, Use};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weirgate_policy::Prefix;
use weirgate_state::{
    Choice, FIRST_PRIORITY, IpVersion, LinkPath, LinkRoute, Marking, Routing, RoutingRule,
    Selector, Transport,
};
use weirgate_units::Inserted as _;

/// The offset of the first rule from [`FIRST_PRIORITY`]. More specific routes of the main table
/// come first, such as those to the hosts' networks.
const PARTICULAR: u32 = 0;
/// Next are sockets that are bound to a link's device, such as those of probes.
const BOUND: u32 = 10;
/// Next are connections that have a link.
const MARKED: u32 = 20;
/// Last are all others.
const OTHERS: u32 = 30;
/// The main table (`RT_TABLE_MAIN`, linux/rtnetlink.h).
const MAIN: u32 = 254;

/// Returns the desired routing. `up` says for each link whether it is used, and `paths` how its
/// device leads to the internet. A link without a path for an IP version is not used for that
/// version. If no link is used, the main table decides, as without weirgate.
#[must_use]
pub fn routing(links: &Links, up: &[bool], paths: &[LinkPath]) -> Routing {
    let mut wanted = Routing {
        marks: Some(marking(links, up, paths)),
        ..Routing::default()
    };
    for version in IpVersion::BOTH {
        route(&mut wanted, version, links, up, paths);
    }
    wanted
}

fn route(wanted: &mut Routing, version: IpVersion, links: &Links, up: &[bool], paths: &[LinkPath]) {
    let rule = |offset: u32, table| RoutingRule {
        priority: FIRST_PRIORITY + offset,
        version,
        mark: None,
        bound_to: None,
        table,
        no_default: false,
    };
    let mut rules = BTreeSet::new();
    let mut first = None;
    for (number, link) in links.links.iter().enumerate() {
        let path = paths.get(number).filter(|path| path.up);
        let Some(gateway) = path.and_then(|path| path.hops.get(&version)) else {
            continue;
        };
        let (table, index) = (links.table(number), number as u32);
        wanted.routes.insert(LinkRoute {
            table,
            version,
            device: link.device.clone(),
            gateway: *gateway,
        });
        rules.insert(RoutingRule {
            bound_to: Some(link.device.clone()),
            ..rule(BOUND + index, table)
        });
        if up.get(number) == Some(&true) {
            rules.insert(RoutingRule {
                mark: Some((links.mark(number), links.marks)),
                ..rule(MARKED + index, table)
            });
            first = first.or(Some(table));
        }
    }
    rules.extend(first.map(|table| rule(OTHERS, table)));
    if !rules.is_empty() {
        rules.insert(RoutingRule {
            no_default: true,
            ..rule(PARTICULAR, MAIN)
        });
    }
    wanted.rules.extend(rules);
}

/// Returns how connections are marked.
pub(crate) fn marking(links: &Links, up: &[bool], paths: &[LinkPath]) -> Marking {
    let leads = |number: usize, version| {
        let path = paths.get(number).filter(|path| path.up);
        up.get(number) == Some(&true) && path.is_some_and(|path| path.hops.contains_key(&version))
    };
    // An IP version that no link has needs no choices of its own.
    let served = IpVersion::BOTH.map(|version| (0..links.links.len()).any(|n| leads(n, version)));
    let versions = match served {
        [true, false] => [IpVersion::V4; 2],
        [false, true] => [IpVersion::V6; 2],
        _ => IpVersion::BOTH,
    };
    let mut choices = Vec::new();
    for rule in &links.rules {
        let links = versions.map(|version| {
            let mut named = rule.links.iter();
            let first = named.find(|number| leads(**number, version));
            first.map(|number| vec![(links.mark(*number), 1)])
        });
        for of in selectors(rule) {
            choices.extend(by_version(of, &links));
        }
    }
    if links.usage == Use::Balance {
        let weighted = versions.map(|version| {
            let used = (0..links.links.len()).filter(|number| leads(*number, version));
            let weighted = used.map(|number| (links.mark(number), links.links[number].weight));
            Some(weighted.collect::<Vec<_>>()).filter(|links| links.len() > 1)
        });
        choices.extend(by_version(Selector::default(), &weighted));
    }
    let devices = links.links.iter().enumerate();
    Marking {
        mask: links.marks,
        devices: devices
            .map(|(number, link)| (link.device.clone(), links.mark(number)))
            .inserted(),
        choices,
    }
}

/// Returns the choices of a selector, given the links for each version of [`IpVersion::BOTH`]: one
/// choice if they are the same.
fn by_version(of: Selector, links: &[Option<Vec<(u32, u32)>>; 2]) -> Vec<Choice> {
    let of_version = |version: &IpVersion| {
        let address = of.from.or(of.to).map(|(address, _)| address);
        address.is_none_or(|address| address.is_ipv4() == (*version == IpVersion::V4))
    };
    let implied = of.from.is_some() || of.to.is_some();
    if let ([Some(one), Some(other)], false) = (links, implied)
        && one == other
    {
        let links = one.clone();
        return vec![Choice { of, links }];
    }
    IpVersion::BOTH
        .into_iter()
        .zip(links)
        .filter(|(version, _)| of_version(version))
        .filter_map(|(version, links)| {
            let any: IpAddr = match version {
                IpVersion::V4 => Ipv4Addr::UNSPECIFIED.into(),
                IpVersion::V6 => Ipv6Addr::UNSPECIFIED.into(),
            };
            let from = of.from.or((!implied).then_some((any, 0)));
            let links = links.clone()?;
            Some(Choice {
                of: Selector { from, ..of },
                links,
            })
        })
        .collect()
}

/// Returns the connections of a rule: one selector for each protocol and port range.
fn selectors(rule: &Rule) -> Vec<Selector> {
    let net = |prefix: &Prefix| (prefix.address, prefix.length);
    let of = |transport| Selector {
        from: rule.from.as_ref().map(net),
        to: rule.to.as_ref().map(net),
        transport,
    };
    if rule.protocols.is_empty() {
        return vec![of(None)];
    }
    let mut ranges: Vec<_> = rule
        .to_ports
        .iter()
        .map(|one| Some((one.from, one.to)))
        .collect();
    if ranges.is_empty() {
        ranges.push(None);
    }
    let mut all = Vec::new();
    for protocol in &rule.protocols {
        let protocol = protocol.0;
        all.extend(ranges.iter().map(|to_port| {
            of(Some(Transport {
                protocol,
                to_port: *to_port,
            }))
        }));
    }
    all
}
