// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The routing that follows from the links that are up.

use crate::model::{Links, Rule, Use};
use std::collections::BTreeSet;
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
        marks: Some(marking(links, up)),
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
pub(crate) fn marking(links: &Links, up: &[bool]) -> Marking {
    let is_up = |number: usize| up.get(number) == Some(&true);
    let mut choices = Vec::new();
    for rule in &links.rules {
        if let Some(number) = rule.links.iter().find(|number| is_up(**number)) {
            choices.extend(selectors(rule).into_iter().map(|of| Choice {
                of,
                links: vec![(links.mark(*number), 1)],
            }));
        }
    }
    let weighted: Vec<(u32, u32)> = (0..links.links.len())
        .filter(|number| is_up(*number))
        .map(|number| (links.mark(number), links.links[number].weight))
        .collect();
    if links.usage == Use::Balance && weighted.len() > 1 {
        choices.push(Choice {
            of: Selector::default(),
            links: weighted,
        });
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
