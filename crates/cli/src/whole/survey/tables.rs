// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The counts by protocol, port, size and time between packets.

use crate::whole::survey::seen::Seen;
use std::collections::BTreeMap;
use weirgate_bpf::{SIZE_STEP, SurveyCount, SurveyDirection, SurveyService};
use weirgate_units::Arrange as _;

/// The IP protocols that have ports: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// Returns the name of a packet's protocol, without its port.
pub fn protocol(service: SurveyService) -> String {
    match (service.ethertype, service.protocol) {
        (0x0800 | 0x86dd, 1 | 58) => String::from("ICMP"),
        (0x0800 | 0x86dd, 6) => String::from("TCP"),
        (0x0800 | 0x86dd, 17) => String::from("UDP"),
        (0x0800 | 0x86dd, 0) => String::from("fragments, other IP"),
        (0x0800 | 0x86dd, other) => format!("IP protocol {other}"),
        (0x0806, _) => String::from("ARP"),
        (0x8863 | 0x8864, _) => String::from("PPPoE"),
        (0x8100 | 0x88a8, _) => String::from("VLAN"),
        (other, _) => format!("ethertype {other:#06x}"),
    }
}

/// Names with their counts, arriving and leaving.
pub type Rows = Vec<(String, [SurveyCount; 2])>;

/// Returns the counts summed by name, most bytes first.
pub fn grouped(
    services: &BTreeMap<SurveyService, SurveyCount>,
    name: impl Fn(SurveyService) -> Option<String>,
) -> Rows {
    let mut groups: BTreeMap<String, [SurveyCount; 2]> = BTreeMap::new();
    for (service, count) in services {
        let Some(name) = name(*service) else { continue };
        let sum = &mut groups.entry(name).or_default()[usize::from(service.out)];
        sum.packets += count.packets;
        sum.bytes += count.bytes;
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.arrange_by_key(|(_, [one, other])| std::cmp::Reverse(one.bytes + other.bytes));
    groups
}

/// Returns the counts by protocol and port. Ports that did not fit into the map count as other
/// ports.
pub fn ports(seen: &Seen) -> Rows {
    let mut rows = grouped(&seen.services, |one| {
        (one.port > 0).then(|| format!("{} {}", protocol(one), one.port))
    });
    let mut rest = seen.protocols.clone();
    for (service, count) in &seen.services {
        let whole = SurveyService {
            port: 0,
            ..*service
        };
        if let Some(rest) = rest.get_mut(&whole) {
            rest.packets = rest.packets.saturating_sub(count.packets);
            rest.bytes = rest.bytes.saturating_sub(count.bytes);
        }
    }
    rest.retain(|one, count| WITH_PORTS.contains(&one.protocol) && count.packets > 0);
    rows.extend(grouped(&rest, |one| {
        Some(format!("{} other ports", protocol(one)))
    }));
    rows.arrange_by_key(|(_, [one, other])| std::cmp::Reverse(one.bytes + other.bytes));
    rows
}

pub fn version(service: SurveyService) -> &'static str {
    match service.ethertype {
        0x0800 => "IPv4",
        0x86dd => "IPv6",
        _ => "not IP",
    }
}

/// Returns the counts by packet size, without empty rows.
pub fn sizes(directions: &[SurveyDirection; 2]) -> Rows {
    let [arrives, leaves] = directions;
    let steps = arrives.sizes.iter().zip(&leaves.sizes).enumerate();
    let rows = steps.map(|(step, (one, other))| {
        let from = step as u32 * SIZE_STEP;
        let name = if step + 1 == arrives.sizes.len() {
            format!("{from} and more")
        } else {
            format!("{from} to {}", from + SIZE_STEP - 1)
        };
        (name, [*one, *other])
    });
    rows.filter(|(_, [one, other])| one.packets + other.packets > 0)
        .collect()
}

/// Returns the histogram of times between packets, in nanoseconds, with the recorded steps: the
/// counts of arriving and leaving packets.
pub fn gaps(directions: &[SurveyDirection; 2]) -> BTreeMap<(u64, u64), [u64; 2]> {
    let mut steps: BTreeMap<(u64, u64), [u64; 2]> = BTreeMap::new();
    for (direction, seen) in directions.iter().enumerate() {
        for (from, to, count) in seen.gaps.histogram() {
            steps.entry((from, to)).or_default()[direction] += count;
        }
    }
    steps
}
