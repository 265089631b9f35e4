// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The section `[[probe]]`.

use super::common::{
    CLASS, DSCP, IPV6, NODE_HINT, PORT, SHORTEST_INTERVAL, SPAN_HINT, STAMP, common, crosses_line,
    packet,
};
use crate::parse::field::LONGEST;
use crate::parse::registry::{Field, Integer, Own, Table, Texts, Within, Word, time};
use crate::parse::scope::{Scope, Transport};
use crate::parse::{codes, field, schedule};
use crate::{Probe, ProbeKind};
use weirgate_document::Reader;
use weirgate_units::Span;

pub(crate) const PROBE: Field<Own> = Field::new(
    "probe",
    Own("tables"),
    "Requests at an interval, and the time until each reply",
);

const NAME: Field<Own> = Field::new(
    "name",
    Own("name"),
    "The subject in the names of its metrics",
)
.required("give the probe a name");
const KIND: Field<Word<bool>> = Field::new(
    "kind",
    Word(&[("icmp", false), ("udp", true)]),
    "An ICMP echo request that the kernel answers, or a datagram that the lab's agent answers",
)
.default("`\"icmp\"`");
const ASKS: Field<Own> = Field::new(
    "from",
    Own("place"),
    "Who sends the requests; across the line from `to`",
)
.required(NODE_HINT);
const ANSWERS: Field<Own> = Field::new("to", Own("place"), "Who replies").required(NODE_HINT);
const BETWEEN: Field<Within<Span>> = Field::new(
    "interval",
    time(SHORTEST_INTERVAL, LONGEST),
    "The time between two requests",
)
.required(SPAN_HINT);
const PER_ROUND_TRIP: Field<Integer> = Field::new(
    "per-round-trip",
    Integer(1, 100),
    "Requests in a round trip: after each, this part of the last round trip passes, but at least \
     `interval`",
);
const LENGTH: Field<Own> = Field::new(
    "packet",
    Own("bytes up to 1500"),
    "The length of the IP packet",
)
.default("84");
const ANSWERING: Field<Own> = Field::new(
    "port",
    Own("1 to 65535"),
    "The port that replies; required for `udp`, refused for `icmp`",
);
const WITHIN_MS: Field<Texts> = Field::new(
    "within-ms",
    Texts("whole ms, 1 to 100000"),
    "Bounds for `rtt.PROBE.within_N_ms.ratio`",
);

pub(crate) const TABLE: Table = Table::new(
    "[[probe]]",
    "A probe sends requests at an interval, and measures the time until each reply",
    &[
        &NAME,
        &KIND,
        &ASKS,
        &ANSWERS,
        &schedule::DURING,
        &schedule::FROM_TIME,
        &schedule::UNTIL,
        &BETWEEN,
        &PER_ROUND_TRIP,
        &LENGTH,
        &ANSWERING,
        &WITHIN_MS,
        &DSCP,
        &IPV6,
        &CLASS,
    ],
);

pub(crate) fn probes(root: &mut Reader<'_, '_>, scope: &mut Scope) -> Vec<Probe> {
    let tables = root.tables(PROBE.name).into_iter();
    tables
        .filter_map(|mut table| probe(&mut table, scope))
        .collect()
}

fn probe(table: &mut Reader<'_, '_>, scope: &mut Scope) -> Option<Probe> {
    let name = field::name(table, &NAME, "probe", &mut scope.names);
    if let Some(name) = &name {
        scope.probes.insert(name.value.clone());
    }
    let udp = KIND.get(table);
    let common = common(table, scope, [&ASKS, &ANSWERS]);
    let interval = BETWEEN.get(table);
    let per_round_trip = PER_ROUND_TRIP.get(table).map(|number| number as u16);
    let inner = if udp == Some(false) { 8 } else { 8 + STAMP };
    let packet = if LENGTH.is_in(table) {
        packet(table, common.ipv6, inner)
    } else {
        Some(84)
    };
    let port = if udp == Some(true) && !ANSWERING.is_in(table) {
        table.missing(ANSWERING.name, "a UDP probe needs the port that answers")
    } else {
        PORT.get(table).map(|port| port as u16)
    };
    let within_ms = within(table);
    let kind = if udp? {
        ProbeKind::Udp { port: port? }
    } else {
        if ANSWERING.is_in(table) {
            let message = "an ICMP probe has no port";
            let hint = "leave `port` out, or write `kind = \"udp\"`";
            table
                .problems()
                .error(codes::PORT, field::head(table), message, hint);
        }
        ProbeKind::Icmp
    };
    let probe = Probe {
        name: name?.value,
        kind,
        from: common.from?,
        to: common.to?,
        interval: interval?,
        per_round_trip,
        packet: packet?,
        runs: common.runs?,
        dscp: common.dscp,
        ipv6: common.ipv6,
        class: common.class,
        within_ms,
    };
    crosses_line(table, probe.from, probe.to);
    if let ProbeKind::Udp { port } = probe.kind {
        scope.take_port(table, &probe.name, probe.to, Transport::Udp, port);
    }
    scope.add_packets(table, probe.packets());
    Some(probe)
}

fn within(table: &mut Reader<'_, '_>) -> Vec<u32> {
    let bounds = WITHIN_MS.get(table).unwrap_or_default();
    let mut list = Vec::new();
    for bound in bounds {
        match bound.value.parse::<u32>() {
            Ok(ms) if (1..=100_000).contains(&ms) => list.push(ms),
            _ => {
                let message = format!("`{}` is not a bound in whole milliseconds", bound.value);
                let hint = "write whole numbers from 1 to 100000, such as `within-ms = [35, 45]`";
                table
                    .problems()
                    .error(codes::LIMIT, bound.span, message, hint);
            }
        }
    }
    list.sort_unstable();
    list.dedup();
    list
}
