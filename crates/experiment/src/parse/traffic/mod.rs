// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The section `[[traffic]]`.

mod common;
pub(super) mod kind;
pub(super) mod probe;

use super::field::LONGEST;
use super::registry::{Field, Integer, Own, Table, Text, Within, time};
use super::scope::{Scope, Transport};
use super::{codes, field, schedule};
use crate::{Node, Traffic, TrafficKind};
use common::{CLASS, DSCP, IPV6, NODE_HINT, PORT, common, crosses_line, inside};
use kind::{KIND, kind};
use weirgate_document::Reader;
use weirgate_units::Span;

/// The largest number of sockets of one entry.
const MOST_MEMBERS: i64 = 1_000;
pub(super) const TRAFFIC: Field<Own> = Field::new(
    "traffic",
    Own("tables"),
    "What is sent; at least one entry of traffic or one probe is required",
);
const NAME: Field<Own> = Field::new(
    "name",
    Own("name"),
    "The subject in the names of its metrics; unique among traffic and probes",
)
.required("give the traffic entry a name");
const FROM: Field<Own> = Field::new("from", Own("place"), "Who sends").required(NODE_HINT);
const TO: Field<Own> = Field::new("to", Own("place"), "Who receives").required(NODE_HINT);
const COUNT: Field<Integer> = Field::new(
    "count",
    Integer(1, MOST_MEMBERS),
    "How many run at once; they are measured together",
)
.default("1");
const HOSTS: Field<Own> = Field::new(
    "hosts",
    Own("1 to the last host"),
    "The number of hosts over which they are spread in turn: the host that `from` or `to` names \
     and those that follow it",
)
.default("1");
const STAGGER: Field<Within<Span>> = Field::new(
    "stagger",
    time(Span::ZERO, LONGEST),
    "The time between the starts of two of them",
)
.default("0");
const GROUP: Field<Text> = Field::new(
    "group",
    Text,
    "A name. Entries of one group are compared: `jain.GROUP.index` is Jain's index of what each \
     entry got",
);
pub(super) const TABLE: Table = Table::new(
    "[[traffic]]",
    "The fields of every kind of traffic",
    &[
        &NAME,
        &KIND,
        &FROM,
        &TO,
        &schedule::DURING,
        &schedule::FROM_TIME,
        &schedule::UNTIL,
        &COUNT,
        &HOSTS,
        &STAGGER,
        &PORT,
        &DSCP,
        &IPV6,
        &GROUP,
        &CLASS,
    ],
);

pub(super) fn traffic(root: &mut Reader<'_, '_>, scope: &mut Scope) -> Vec<Traffic> {
    let tables = root.tables(TRAFFIC.name).into_iter();
    let entries = tables
        .filter_map(|mut table| {
            let entry = one_traffic(&mut table, scope)?;
            scope.add_load(&table, &entry);
            Some(entry)
        })
        .collect();
    // Groups and traffic entries are both subjects of `jain`, so their names must differ.
    if let Some(name) = scope.groups.intersection(&scope.flows).next() {
        let message = format!("`{name}` is a traffic entry and a group");
        let hint = "give the group a name of its own";
        root.problems()
            .error(codes::NAME, field::TOP, message, hint);
    }
    entries
}

fn one_traffic(table: &mut Reader<'_, '_>, scope: &mut Scope) -> Option<Traffic> {
    let name = field::name(table, &NAME, "traffic entry", &mut scope.names);
    if let Some(name) = &name {
        scope.flows.insert(name.value.clone());
    }
    let common = common(table, scope, [&FROM, &TO]);
    let kind = kind(table, common.ipv6);
    let count = COUNT.or(table, 1);
    let hosts = spread(table, scope, common.from, common.to);
    let stagger = STAGGER.or(table, Span::ZERO);
    let port = PORT.get(table).map(|port| port as u16);
    let group = GROUP.get(table);
    let group = group.filter(|group| field::well_formed(table, "group", group));
    if let Some(group) = &group {
        scope.groups.insert(group.value.clone());
    }
    let entry = Traffic {
        name: name?.value,
        kind: kind?,
        from: common.from?,
        to: common.to?,
        runs: common.runs?,
        count: count? as u16,
        hosts: hosts?,
        stagger: stagger?,
        port,
        dscp: common.dscp,
        ipv6: common.ipv6,
        class: common.class,
        group: group.map(|group| group.value),
    };
    scope
        .parts
        .extend(entry.parts().into_iter().map(|part| part.name));
    starts_in_time(table, &entry);
    crosses_line(table, entry.from, entry.to);
    if let Some(port) = entry.port {
        let transport = match entry.kind {
            TrafficKind::Udp { .. } | TrafficKind::Voice { .. } | TrafficKind::Quic(_) => {
                Transport::Udp
            }
            _ => Transport::Tcp,
        };
        scope.take_port(table, &entry.name, far_end(&entry), transport, port);
    }
    Some(entry)
}

/// Reads the number of hosts over which the senders are spread, from the named host on.
fn spread(
    table: &mut Reader<'_, '_>,
    scope: &Scope,
    from: Option<Node>,
    to: Option<Node>,
) -> Option<u16> {
    if !HOSTS.is_in(table) {
        return Some(1);
    }
    let first = [from, to]
        .into_iter()
        .flatten()
        .find_map(|node| match node {
            Node::Host(number) => Some(number),
            _ => None,
        });
    let Some(first) = first else {
        let hosts = table.integer(HOSTS.name, 1..=1)?;
        return Some(hosts.value as u16);
    };
    let most = i64::from(scope.hosts().saturating_sub(first) + 1);
    let hosts = table.integer(HOSTS.name, 1..=most.max(1))?;
    Some(hosts.value as u16)
}

/// Returns the node beyond the line, whose port is known in advance.
fn far_end(traffic: &Traffic) -> Node {
    if inside(traffic.to) {
        traffic.from
    } else {
        traffic.to
    }
}

/// Checks that the last sender of a group starts before its run ends.
fn starts_in_time(table: &Reader<'_, '_>, entry: &Traffic) {
    let last = u64::from(entry.count - 1).saturating_mul(entry.stagger.as_nanos());
    let drain = match entry.kind {
        TrafficKind::ShortFlows { drain, .. } => drain,
        _ => Span::ZERO,
    };
    let late = entry
        .runs
        .iter()
        .any(|(start, stop)| *start + Span::from_nanos(last) + drain >= *stop);
    if late {
        let message = format!(
            "the last of `{}` would start after its run has ended",
            entry.name
        );
        let hint = "lower `count`, `stagger` or `drain`, or make the run longer";
        table
            .problems()
            .error(codes::TIME, field::head(table), message, hint);
    }
}
