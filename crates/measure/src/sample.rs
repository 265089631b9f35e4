// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Small experiments and records for tests.

use weirgate_experiment::{
    Arm, Buffer, Direction, DropEnd, Experiment, Fate, FlowName, Framing, Impairments, Line,
    LinePacket, LineSide, Node, Phase, Probe, ProbeKind, Recording, Sampling, TcpSegment,
    TcpSettings, Topology, Traffic, TrafficKind,
};
use weirgate_units::{Dscp, Rate, Size, Span};

pub(crate) const MS: u64 = 1_000_000;

/// Returns Brouer's line: 2000/512 kbit/s, ATM with 28 bytes of overhead.
pub(crate) fn line() -> Line {
    let side = |kbit, bytes| LineSide {
        rate: Rate::kbit(kbit),
        delay: Span::from_millis(2),
        buffer: Buffer::Bytes(Size::bytes(bytes)),
        drop: DropEnd::Tail,
        impairments: Impairments::NONE,
    };
    Line {
        up: side(512, 200_000),
        down: side(2000, 40_000),
        framing: Framing::Atm,
        overhead: 28,
        mpu: 0,
        then: Vec::new(),
        varies: None,
        half_duplex: false,
    }
}

/// Returns an experiment with one host, one server, an arm `modem-only`, and phases in seconds.
pub(crate) fn experiment(phases: &[(&str, u64, u64)]) -> Experiment {
    Experiment {
        name: "sample".into(),
        title: "A sample".into(),
        source: "none".into(),
        about: "For tests.".into(),
        covers: Vec::new(),
        seed: 1,
        machine: weirgate_experiment::Machine::default(),
        topology: Topology {
            hosts: 1,
            servers: 1,
            line: line(),
        },
        phases: phases
            .iter()
            .map(|&(name, start, end)| Phase {
                name: name.into(),
                start: Span::from_secs(start),
                end: Span::from_secs(end),
            })
            .collect(),
        seeds: 1,
        settle: Span::ZERO,
        traffic: Vec::new(),
        probes: Vec::new(),
        sampling: Sampling {
            queues: Span::from_millis(100),
            tcp: Span::from_millis(100),
            segments: false,
            capture: false,
        },
        arms: vec![Arm::named("modem-only")],
        expectations: Vec::new(),
        figures: Vec::new(),
    }
}

fn spans(runs: &[(u64, u64)]) -> Vec<(Span, Span)> {
    runs.iter()
        .map(|&(from, to)| (Span::from_secs(from), Span::from_secs(to)))
        .collect()
}

fn traffic(name: &str, kind: TrafficKind, from: Node, to: Node, runs: &[(u64, u64)]) -> Traffic {
    Traffic {
        name: name.into(),
        kind,
        from,
        to,
        runs: spans(runs),
        count: 1,
        hosts: 1,
        stagger: Span::ZERO,
        port: None,
        dscp: Dscp::default(),
        ipv6: false,
        class: None,
        group: None,
    }
}

pub(crate) fn tcp(name: &str, from: Node, to: Node, runs: &[(u64, u64)]) -> Traffic {
    traffic(
        name,
        TrafficKind::Tcp(TcpSettings::default()),
        from,
        to,
        runs,
    )
}

/// Returns a transfer with a window in bytes.
pub(crate) fn windowed(
    name: &str,
    direction: Direction,
    window: u64,
    runs: &[(u64, u64)],
) -> Traffic {
    let settings = TcpSettings {
        window: Some(Size::bytes(window)),
        ..TcpSettings::default()
    };
    let (from, to) = match direction {
        Direction::Up => (Node::Host(1), Node::Server(1)),
        Direction::Down => (Node::Server(1), Node::Host(1)),
    };
    traffic(name, TrafficKind::Tcp(settings), from, to, runs)
}

/// Datagrams upstream.
pub(crate) fn udp(name: &str, interval_us: u64, packet: u16, runs: &[(u64, u64)]) -> Traffic {
    let kind = TrafficKind::Udp {
        interval: Span::from_micros(interval_us),
        packet,
        packets: None,
    };
    traffic(name, kind, Node::Host(1), Node::Server(1), runs)
}

/// Returns an 84-byte probe each 150 ms.
pub(crate) fn probe(name: &str, until: u64) -> Probe {
    Probe {
        name: name.into(),
        kind: ProbeKind::Icmp,
        from: Node::Host(1),
        to: Node::Provider,
        interval: Span::from_millis(150),
        per_round_trip: None,
        packet: 84,
        runs: spans(&[(0, until)]),
        dscp: Dscp::default(),
        ipv6: false,
        class: None,
        within_ms: vec![35],
    }
}

pub(crate) fn recording(seconds: u64, flows: &[(&str, u16)]) -> Recording {
    Recording {
        kernel: "test".into(),
        arm: "modem-only".into(),
        duration_ns: seconds * 1000 * MS,
        flows: flows
            .iter()
            .map(|&(name, instance)| FlowName {
                name: name.into(),
                instance,
            })
            .collect(),
        ..Recording::default()
    }
}

/// Returns a packet of flow 0: arrival, start and end of transmission in ms, and the backlog on
/// arrival in packets of its own size.
pub(crate) fn sent(
    direction: Direction,
    times_ms: (u64, u64, u64),
    ip_bytes: u16,
    ahead: u32,
) -> LinePacket {
    let (arrived, start, end) = times_ms;
    LinePacket {
        direction,
        flow: Some(0),
        arrived_ns: arrived * MS,
        fate: Fate::Sent {
            start_ns: start * MS,
            end_ns: end * MS,
        },
        ip_bytes,
        wire_bytes: u32::from(ip_bytes) + 196,
        ahead_packets: ahead,
        ahead_bytes: ahead * u32::from(ip_bytes),
        tcp: None,
    }
}

/// Returns a segment's header fields.
pub(crate) fn segment(seq: u32, ack: u32, payload: u16) -> TcpSegment {
    TcpSegment {
        seq,
        ack,
        payload,
        flags: 0x10,
        window: 1000,
        sack: None,
    }
}
