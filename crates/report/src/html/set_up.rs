// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an experiment sets up: line, hosts and traffic.

use super::details::folded;
use super::table::{Cell, table};
use crate::Findings;
use crate::format::number;
use weirgate_experiment::{
    Amount, Buffer, DropEnd, Framing, Impairments, LineSide, Node, ProbeKind, QuicSettings,
    TcpSettings, Traffic, TrafficKind,
};
use weirgate_units::Span;

pub(super) fn write(out: &mut String, findings: &Findings) {
    let experiment = findings.experiment;
    let line = &experiment.topology.line;
    let framing = match line.framing {
        Framing::None => "no framing",
        Framing::Atm => "ATM cells",
        Framing::Ptm => "PTM, 64 bytes in 65",
    };
    let facts = [
        ("kernel", findings.kernel().unwrap_or("not run").to_owned()),
        ("seed", findings.seed.to_string()),
        (
            "nodes",
            format!(
                "{} hosts, {} servers",
                experiment.topology.hosts, experiment.topology.servers
            ),
        ),
        ("upstream", direction(&line.up)),
        ("downstream", direction(&line.down)),
        (
            "framing",
            format!(
                "{framing}, {} bytes per packet, mpu {}",
                line.overhead, line.mpu
            ),
        ),
        (
            "measured from",
            format!("{} after a phase begins", experiment.settle),
        ),
    ];
    let rows: Vec<Vec<Cell>> = facts
        .into_iter()
        .map(|(name, value)| vec![Cell::text(name), Cell::text(value)])
        .collect();
    let mut content = String::new();
    table(&mut content, "Set-up", &["what", "value"], &rows);
    let mut rows: Vec<Vec<Cell>> = experiment.traffic.iter().map(traffic_row).collect();
    for probe in &experiment.probes {
        let kind = match probe.kind {
            ProbeKind::Icmp => "echo probe".to_owned(),
            ProbeKind::Udp { port } => format!("UDP probe to port {port}"),
        };
        let when = match probe.per_round_trip {
            Some(number) => format!(
                "{number} in a round trip, at least {} apart",
                probe.interval
            ),
            None => format!("each {}", probe.interval),
        };
        let what = format!("{kind}, {} bytes {when}", probe.packet);
        rows.push(vec![
            Cell::text(probe.name.clone()),
            Cell::text(what),
            Cell::text(format!("{} to {}", node(probe.from), node(probe.to))),
            Cell::text(runs(&probe.runs)),
            Cell::text(probe.dscp.to_string()),
        ]);
    }
    let columns = ["name", "what", "way", "when", "DSCP"];
    table(&mut content, "Traffic and probes", &columns, &rows);
    folded(out, "Set-up, kernel, seed", &content);
}

fn direction(side: &LineSide) -> String {
    let buffer = match side.buffer {
        Buffer::Bytes(bytes) => bytes.to_string(),
        Buffer::Packets(packets) => format!("{packets} packets"),
    };
    let drop = match side.drop {
        DropEnd::Tail => "the arriving packet",
        DropEnd::Front => "the oldest packet",
    };
    let Impairments {
        loss,
        jitter,
        reordering,
        bursts,
    } = side.impairments;
    let percent = |part: u32| format!("{} %", number(f64::from(part) / 1e4));
    let late = || {
        format!(
            "{} {} later than the rest",
            percent(reordering.part),
            reordering.by
        )
    };
    let facts = [
        (loss > 0).then(|| format!("{} lost", percent(loss))),
        (jitter > Span::ZERO).then(|| format!("up to {jitter} longer")),
        (reordering.part > 0).then(late),
        (bursts > Span::ZERO).then(|| format!("in bursts of {bursts}")),
    ];
    let plain = format!(
        "{}/s, {} fixed delay, buffer {buffer} that drops {drop}",
        side.rate, side.delay
    );
    let parts = std::iter::once(plain).chain(facts.into_iter().flatten());
    parts.collect::<Vec<_>>().join(", ")
}

fn traffic_row(traffic: &Traffic) -> Vec<Cell> {
    let what = match &traffic.kind {
        TrafficKind::Tcp(tcp) => format!("TCP transfer{}", settings(tcp)),
        TrafficKind::Quic(quic) => format!("QUIC transfer{}", quic_settings(quic)),
        TrafficKind::Udp {
            interval,
            packet,
            packets,
        } => {
            let most = packets.map_or_else(String::new, |count| format!(", at most {count}"));
            format!("UDP, {packet} bytes each {interval}{most}")
        }
        TrafficKind::Requests {
            request,
            response,
            think,
            tcp,
        } => {
            format!(
                "requests of {request}, responses of {response}, {think} between{}",
                settings(tcp)
            )
        }
        TrafficKind::ShortFlows {
            mean_gap,
            mean_length,
            shape,
            drain,
            sizes: _,
            tcp,
        } => format!(
            "short TCP flows, one each {mean_gap}, {mean_length} on average, shape {shape}{}{}",
            if *drain > Span::ZERO {
                format!(", none in the last {drain}")
            } else {
                String::new()
            },
            settings(tcp)
        ),
        TrafficKind::Syns { interval } => format!("a SYN each {interval} that nobody answers"),
        TrafficKind::Voice { interval, packet } => {
            format!("voice, {packet} bytes each {interval} both ways")
        }
    };
    let count = if traffic.count > 1 {
        format!("{} times ({} apart) ", traffic.count, traffic.stagger)
    } else {
        String::new()
    };
    let version = if traffic.ipv6 { ", IPv6" } else { "" };
    vec![
        Cell::text(traffic.name.clone()),
        Cell::text(format!("{count}{what}{version}")),
        Cell::text(format!("{} to {}", node(traffic.from), node(traffic.to))),
        Cell::text(runs(&traffic.runs)),
        Cell::text(traffic.dscp.to_string()),
    ]
}

fn settings(tcp: &TcpSettings) -> String {
    let mut parts = vec![String::new()];
    if let Some(Amount::Bytes(size)) = tcp.amount {
        parts.push(format!("{size} long"));
    }
    if let Some(congestion) = &tcp.congestion {
        parts.push(congestion.clone());
    }
    if let Some(window) = tcp.window {
        parts.push(format!("window {} bytes", window.as_bytes()));
    }
    parts.join(", ")
}

fn quic_settings(quic: &QuicSettings) -> String {
    let mut parts = vec![String::new()];
    if let Some(Amount::Bytes(size)) = quic.amount {
        parts.push(format!("{size} long"));
    }
    if quic.streams > 1 {
        parts.push(format!("{} streams", quic.streams));
    }
    parts.push(quic.congestion.word().to_owned());
    if quic.ecn {
        parts.push("ECN".to_owned());
    }
    parts.join(", ")
}

fn runs(runs: &[(Span, Span)]) -> String {
    let parts: Vec<String> = runs
        .iter()
        .map(|run| {
            format!(
                "{} to {} s",
                number(run.0.as_secs_f64()),
                number(run.1.as_secs_f64())
            )
        })
        .collect();
    parts.join(", ")
}

pub(super) fn node(node: Node) -> String {
    match node {
        Node::Host(number) => format!("host{number}"),
        Node::Gateway => "gateway".to_owned(),
        Node::Provider => "provider".to_owned(),
        Node::Server(number) => format!("server{number}"),
    }
}
