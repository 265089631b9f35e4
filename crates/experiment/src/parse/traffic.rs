// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sections `[[traffic]]` and `[[probe]]`.

use super::field::LONGEST;
use super::scope::{Scope, Transport};
use super::{codes, field, quic, schedule};
use crate::{Amount, Node, Probe, ProbeKind, TcpSettings, Traffic, TrafficKind};
use weirgate_document::Reader;
use weirgate_units::{Dscp, Size, Span};

/// The most sockets of one entry.
const MOST_MEMBERS: i64 = 1_000;
/// Largest IP packet on the lab's devices (their MTU).
const LARGEST_PACKET: i64 = 1_500;
/// Shortest time between packets of one sender: 100 000 packets/s.
const SHORTEST_INTERVAL: Span = Span::from_micros(10);
/// Bytes of a stamp that datagrams carry: sequence number and time. An ICMP
/// echo has its own sequence number.
const STAMP: i64 = 12;

pub(super) fn traffic(root: &mut Reader<'_, '_>, scope: &mut Scope) -> Vec<Traffic> {
    let tables = root.tables("traffic").into_iter();
    let entries = tables
        .filter_map(|mut table| {
            let entry = one_traffic(&mut table, scope)?;
            scope.add_load(&table, &entry);
            Some(entry)
        })
        .collect();
    // Both are subjects of `jain`.
    if let Some(name) = scope.groups.intersection(&scope.flows).next() {
        let message = format!("`{name}` is a traffic entry and a group");
        let hint = "give the group a name of its own";
        root.problems()
            .error(codes::NAME, field::TOP, message, hint);
    }
    entries
}

fn one_traffic(table: &mut Reader<'_, '_>, scope: &mut Scope) -> Option<Traffic> {
    let name = field::name(table, "traffic entry", &mut scope.names);
    if let Some(name) = &name {
        scope.flows.insert(name.value.clone());
    }
    let common = common(table, scope);
    let kind = kind(table, common.ipv6);
    let count = if table.has("count") {
        table.integer("count", 1..=MOST_MEMBERS).map(|n| n.value)
    } else {
        Some(1)
    };
    let hosts = spread(table, scope, common.from, common.to);
    let stagger = optional_span(table, "stagger", Span::ZERO, LONGEST, Span::ZERO);
    let port = port(table);
    let group = table.text("group");
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

/// Over how many hosts the members are spread, from the one that is named.
fn spread(
    table: &mut Reader<'_, '_>,
    scope: &Scope,
    from: Option<Node>,
    to: Option<Node>,
) -> Option<u16> {
    if !table.has("hosts") {
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
        let hosts = table.integer("hosts", 1..=1)?;
        return Some(hosts.value as u16);
    };
    let most = i64::from(scope.hosts().saturating_sub(first) + 1);
    let hosts = table.integer("hosts", 1..=most.max(1))?;
    Some(hosts.value as u16)
}

/// The node whose port is known beforehand: where datagrams go, and for TCP
/// and QUIC the side that does not connect.
fn far_end(traffic: &Traffic) -> Node {
    let datagrams = matches!(
        traffic.kind,
        TrafficKind::Udp { .. } | TrafficKind::Voice { .. }
    );
    match (datagrams, inside(traffic.to)) {
        (false, true) => traffic.from,
        _ => traffic.to,
    }
}

/// True for nodes on the gateway's side of the line.
fn inside(node: Node) -> bool {
    matches!(node, Node::Host(_) | Node::Gateway)
}

fn crosses_line(table: &Reader<'_, '_>, from: Node, to: Node) {
    if inside(from) == inside(to) {
        let message = format!("packets from {from} to {to} do not cross the line");
        let hint = "one end is a host or the gateway, the other the provider or a server";
        table
            .problems()
            .error(codes::DIRECTION, field::head(table), message, hint);
    }
}

/// The last member of a group must start before its run ends.
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

/// What traffic and probes have in common.
struct Common {
    from: Option<Node>,
    to: Option<Node>,
    runs: Option<Vec<(Span, Span)>>,
    dscp: Dscp,
    ipv6: bool,
    class: Option<String>,
}

fn common(table: &mut Reader<'_, '_>, scope: &mut Scope) -> Common {
    let from = scope.node(table, "from");
    let to = scope.node(table, "to");
    let runs = schedule::runs(table, scope);
    let dscp = table.parsed::<Dscp>("dscp");
    let ipv6 = table.boolean("ipv6");
    let class = table.text("class");
    let class = class.filter(|class| field::well_formed(table, "class", class));
    if let Some(class) = &class {
        scope.classes.insert(class.value.clone());
    }
    Common {
        from,
        to,
        runs,
        dscp: dscp.map(|dscp| dscp.value).unwrap_or_default(),
        ipv6: ipv6.is_some_and(|ipv6| ipv6.value),
        class: class.map(|class| class.value),
    }
}

/// The port, where there is one; a wrong one is reported and then absent.
fn port(table: &mut Reader<'_, '_>) -> Option<u16> {
    table
        .integer("port", 1..=65_535)
        .map(|port| port.value as u16)
}

fn optional_span(
    table: &mut Reader<'_, '_>,
    key: &'static str,
    least: Span,
    most: Span,
    absent: Span,
) -> Option<Span> {
    if table.has(key) {
        field::span(table, key, least, most)
    } else {
        Some(absent)
    }
}

fn required_span(table: &mut Reader<'_, '_>, key: &'static str, least: Span) -> Option<Span> {
    if table.has(key) {
        field::span(table, key, least, LONGEST)
    } else {
        table.missing(key, "write a time span, such as `\"10ms\"`")
    }
}

fn required_size(table: &mut Reader<'_, '_>, key: &'static str) -> Option<Size> {
    if table.has(key) {
        field::size(table, key, Size::bytes(1), Size::bytes(10_000_000_000))
    } else {
        table.missing(key, "write a size, such as `\"5000\"`")
    }
}

#[derive(Clone, Copy)]
enum KindWord {
    Tcp,
    Quic,
    Udp,
    Requests,
    ShortFlows,
    Syns,
    Voice,
}

fn kind(table: &mut Reader<'_, '_>, ipv6: bool) -> Option<TrafficKind> {
    if !table.has("kind") {
        let hint = "write tcp, quic, udp, requests, short-flows, syns or voice";
        return table.missing("kind", hint);
    }
    let words = [
        ("tcp", KindWord::Tcp),
        ("quic", KindWord::Quic),
        ("udp", KindWord::Udp),
        ("requests", KindWord::Requests),
        ("short-flows", KindWord::ShortFlows),
        ("syns", KindWord::Syns),
        ("voice", KindWord::Voice),
    ];
    match field::word(table, "kind", &words)? {
        KindWord::Tcp => tcp(table, true).map(TrafficKind::Tcp),
        KindWord::Quic => quic::settings(table).map(TrafficKind::Quic),
        KindWord::Udp => {
            let interval = required_span(table, "interval", SHORTEST_INTERVAL);
            let packet = packet(table, ipv6, None, 8 + STAMP);
            let packets = if table.has("packets") {
                table
                    .integer("packets", 1..=i64::from(u32::MAX))
                    .map(|n| Some(n.value as u64))
            } else {
                Some(None)
            };
            Some(TrafficKind::Udp {
                interval: interval?,
                packet: packet?,
                packets: packets?,
            })
        }
        KindWord::Requests => {
            let request = required_size(table, "request");
            let response = required_size(table, "response");
            let longest = LONGEST;
            let think = optional_span(table, "think", Span::ZERO, longest, Span::ZERO);
            let tcp = tcp(table, false);
            Some(TrafficKind::Requests {
                request: request?,
                response: response?,
                think: think?,
                tcp: tcp?,
            })
        }
        KindWord::ShortFlows => {
            let mean_gap = required_span(table, "mean-gap", Span::from_millis(1));
            let mean_length = required_size(table, "mean-length");
            let shape = shape(table);
            let drain = optional_span(table, "drain", Span::ZERO, LONGEST, Span::ZERO);
            let sizes = sizes(table);
            let tcp = tcp(table, false);
            Some(TrafficKind::ShortFlows {
                mean_gap: mean_gap?,
                mean_length: mean_length?,
                shape: shape?,
                drain: drain?,
                sizes,
                tcp: tcp?,
            })
        }
        KindWord::Syns => {
            let interval = required_span(table, "interval", Span::from_millis(1));
            Some(TrafficKind::Syns {
                interval: interval?,
            })
        }
        KindWord::Voice => {
            let interval = required_span(table, "interval", Span::from_millis(1));
            let packet = packet(table, ipv6, None, 8 + STAMP);
            Some(TrafficKind::Voice {
                interval: interval?,
                packet: packet?,
            })
        }
    }
}

/// An IP packet length that leaves room for `inner` bytes after the IP header.
fn packet(table: &mut Reader<'_, '_>, ipv6: bool, absent: Option<u16>, inner: i64) -> Option<u16> {
    if !table.has("packet") {
        return absent.or_else(|| {
            table.missing(
                "packet",
                "write the IP packet's length, such as `packet = 40`",
            )
        });
    }
    let packet = table.integer("packet", 0..=65_535)?;
    let header = if ipv6 { 40 } else { 20 };
    let least = header + inner;
    if !(least..=LARGEST_PACKET).contains(&packet.value) {
        let message = format!("an IP packet of {} bytes cannot be sent here", packet.value);
        let hint = format!("write {least} (headers and what the lab adds) to {LARGEST_PACKET}");
        table
            .problems()
            .error(codes::PACKET, packet.span, message, hint);
        return None;
    }
    Some(packet.value as u16)
}

/// A Pareto shape; at 1 and below there is no mean.
fn shape(table: &mut Reader<'_, '_>) -> Option<f64> {
    if !table.has("shape") {
        return table.missing("shape", "write the Pareto shape, such as `shape = 1.4`");
    }
    let shape = table.number("shape")?;
    if shape.value > 1.0 && shape.value <= 10.0 {
        return Some(shape.value);
    }
    let message = "a Pareto distribution of this shape has no usable mean";
    let hint = "write a number above 1, at most 10";
    table
        .problems()
        .error(codes::LIMIT, shape.span, message, hint);
    None
}

/// Bounds by which flows are distinguished, ascending and each once.
fn sizes(table: &mut Reader<'_, '_>) -> Vec<Size> {
    let mut found: Vec<Size> = Vec::new();
    for size in table.parsed_list::<Size>("sizes").unwrap_or_default() {
        if found.last().is_none_or(|last| *last < size.value) && size.value > Size::bytes(0) {
            found.push(size.value);
            continue;
        }
        let message = format!("`{}` is no further bound of sizes", size.value);
        let hint = "write sizes above 0, each larger than the one before";
        let problems = table.problems();
        problems.error(codes::LIMIT, size.span, message, hint);
    }
    found
}

fn tcp(table: &mut Reader<'_, '_>, bulk: bool) -> Option<TcpSettings> {
    let mut settings = TcpSettings::default();
    let mut complete = true;
    let largest = Size::bytes(1 << 30);
    let mut size = |table: &mut Reader<'_, '_>, key: &'static str, least: u64| {
        if !table.has(key) {
            return None;
        }
        let size = field::size(table, key, Size::bytes(least), largest);
        complete &= size.is_some();
        size
    };
    if bulk {
        settings.amount = size(table, "bytes", 1).map(Amount::Bytes);
    }
    settings.window = size(table, "window", 1_000);
    settings.send_buffer = size(table, "send-buffer", 4_096);
    settings.receive_buffer = size(table, "receive-buffer", 4_096);
    if let Some(congestion) = table.text("congestion") {
        let plain = congestion
            .value
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        // TCP_CA_NAME_MAX (include/net/tcp.h) is 16 with the final zero.
        if plain && !congestion.value.is_empty() && congestion.value.len() < 16 {
            settings.congestion = Some(congestion.value);
        } else {
            let message = format!("`{}` cannot name a congestion control", congestion.value);
            let hint = "write the kernel's name, such as `cubic`, `reno`, `bbr`, or `prague`";
            table
                .problems()
                .error(codes::WORD, congestion.span, message, hint);
            complete = false;
        }
    }
    complete.then_some(settings)
}

pub(super) fn probes(root: &mut Reader<'_, '_>, scope: &mut Scope) -> Vec<Probe> {
    let tables = root.tables("probe").into_iter();
    tables
        .filter_map(|mut table| probe(&mut table, scope))
        .collect()
}

fn probe(table: &mut Reader<'_, '_>, scope: &mut Scope) -> Option<Probe> {
    let name = field::name(table, "probe", &mut scope.names);
    if let Some(name) = &name {
        scope.probes.insert(name.value.clone());
    }
    let udp = field::word(table, "kind", &[("icmp", false), ("udp", true)]);
    let common = common(table, scope);
    let interval = required_span(table, "interval", SHORTEST_INTERVAL);
    let inner = if udp == Some(false) { 8 } else { 8 + STAMP };
    let packet = packet(table, common.ipv6, Some(84), inner);
    let port = if udp == Some(true) && !table.has("port") {
        table.missing("port", "a UDP probe needs the port that answers")
    } else {
        port(table)
    };
    let within_ms = within(table);
    let kind = if udp? {
        ProbeKind::Udp { port: port? }
    } else {
        if table.has("port") {
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
    let bounds = table.text_list("within-ms").unwrap_or_default();
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
