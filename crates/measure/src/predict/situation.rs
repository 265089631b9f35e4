// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who sends what in one phase, in the terms of the calculation.

use super::wire::{MTU, wire_bytes};
use crate::activity::data_direction;
use weirgate_experiment::{
    Arm, Buffer, Direction, Experiment, Line, LineSide, Phase, Probe, Traffic, TrafficKind,
};

/// TCP/IP headers with timestamps, as Linux sends them: 20 + 20 + 12.
const HEADERS: u64 = 52;

/// What IPv6 adds to that.
const IPV6_EXTRA: u64 = 20;

/// Segments per ACK of a Linux receiver (RFC 9293 section 3.8.6.3).
pub(super) const DELAYED: f64 = 2.0;

/// Transfers of equal kind.
pub(super) struct Transfers<'a> {
    pub(super) name: &'a str,
    pub(super) count: f64,
    /// Segments that the window of one holds; `None` where nothing limits it.
    pub(super) segments: Option<f64>,
    /// Payload bytes of a segment.
    pub(super) ack_bits: f64,
}

/// Datagrams at a constant rate.
pub(super) struct Datagrams<'a> {
    pub(super) name: &'a str,
    pub(super) class: Option<&'a str>,
    pub(super) per_second: f64,
    pub(super) ip_bytes: u64,
    pub(super) wire_bits: f64,
}

/// Probes, once per interval in both directions.
pub(super) struct Asked<'a> {
    pub(super) probe: &'a Probe,
    pub(super) per_second: f64,
    pub(super) wire_bits: f64,
}

/// What goes one way.
pub(super) struct Way<'a> {
    pub(super) side: &'a LineSide,
    pub(super) rate: f64,
    pub(super) transfers: Vec<Transfers<'a>>,
    pub(super) datagrams: Vec<Datagrams<'a>>,
}

/// One phase.
pub(super) struct Situation<'a> {
    pub(super) phase: &'a str,
    /// From the phase's start to its end, seconds.
    pub(super) seconds: f64,
    pub(super) up: Way<'a>,
    pub(super) down: Way<'a>,
    pub(super) probes: Vec<Asked<'a>>,
    /// Wire bits of a full packet.
    pub(super) full_bits: f64,
}

impl<'a> Situation<'a> {
    /// What runs from the phase's measured start to its end; `None` where
    /// something starts or stops in between, or is of an unpredictable kind.
    pub(super) fn new(experiment: &'a Experiment, arm: &Arm, phase: &'a Phase) -> Option<Self> {
        let line = &experiment.topology.line;
        let way = |side: &'a LineSide| Way {
            side,
            rate: side.rate.as_bits_per_second() as f64,
            transfers: Vec::new(),
            datagrams: Vec::new(),
        };
        let mut situation = Self {
            phase: &phase.name,
            seconds: (phase.end - phase.start).as_secs_f64(),
            up: way(&line.up),
            down: way(&line.down),
            probes: Vec::new(),
            full_bits: bits(line, MTU),
        };
        if situation.up.rate == 0.0 || situation.down.rate == 0.0 {
            return None;
        }
        let from = phase.start + experiment.settle;
        for traffic in experiment
            .traffic
            .iter()
            .filter(|t| !arm.without.contains(&t.name))
        {
            match runs(&traffic.runs, from, phase.end) {
                Some(false) => {}
                Some(true) => situation.add(line, traffic)?,
                None => return None,
            }
        }
        for probe in &experiment.probes {
            if runs(&probe.runs, from, phase.end)? {
                let per_second = per_second(probe.interval)?;
                let wire_bits = bits(line, u64::from(probe.packet));
                situation.probes.push(Asked {
                    probe,
                    per_second,
                    wire_bits,
                });
            }
        }
        Some(situation)
    }

    fn add(&mut self, line: &Line, traffic: &'a Traffic) -> Option<()> {
        let way = match data_direction(traffic.from, traffic.to)? {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        };
        let headers = if traffic.ipv6 {
            HEADERS + IPV6_EXTRA
        } else {
            HEADERS
        };
        match &traffic.kind {
            TrafficKind::Tcp(tcp) if tcp.amount.is_none() => {
                let payload = MTU - headers;
                let segments = |window: u64| (window / payload) as f64;
                way.transfers.push(Transfers {
                    name: &traffic.name,
                    count: f64::from(traffic.count),
                    segments: tcp.window.map(|window| segments(window.as_bytes())),
                    ack_bits: bits(line, headers),
                });
            }
            TrafficKind::Udp {
                interval,
                packet,
                packets: None,
            } => {
                way.datagrams.push(Datagrams {
                    name: &traffic.name,
                    class: traffic.class.as_deref(),
                    per_second: per_second(*interval)? * f64::from(traffic.count),
                    ip_bytes: u64::from(*packet),
                    wire_bits: bits(line, u64::from(*packet)),
                });
            }
            _ => return None,
        }
        Some(())
    }

    /// The fixed delay of both ways, seconds.
    pub(super) fn propagation(&self) -> f64 {
        self.up.side.delay.as_secs_f64() + self.down.side.delay.as_secs_f64()
    }

    /// Wire bit/s of all probes in one direction.
    pub(super) fn probe_bits(&self) -> f64 {
        self.probes
            .iter()
            .map(|asked| asked.per_second * asked.wire_bits)
            .sum()
    }

    /// The round trip of a probe that waits nowhere, seconds.
    pub(super) fn idle(&self, asked: &Asked) -> f64 {
        asked.wire_bits / self.up.rate + asked.wire_bits / self.down.rate + self.propagation()
    }

    /// A metric's name in this phase.
    pub(super) fn name(&self, rest: &str) -> String {
        format!("{}.{rest}", self.phase)
    }
}

impl Way<'_> {
    /// Wire bit/s of datagrams.
    pub(super) fn datagram_bits(&self) -> f64 {
        self.datagrams
            .iter()
            .map(|udp| udp.per_second * udp.wire_bits)
            .sum()
    }

    /// Full packets that the queue holds beside the one in transmission.
    pub(super) fn buffer_packets(&self) -> f64 {
        match self.side.buffer {
            Buffer::Bytes(size) => (size.as_bytes() / MTU) as f64,
            Buffer::Packets(packets) => f64::from(packets),
        }
    }

    /// Segments that all windows hold together; `None` where one has no limit.
    pub(super) fn segments(&self) -> Option<f64> {
        self.transfers
            .iter()
            .map(|t| t.segments.map(|segments| segments * t.count))
            .sum()
    }
}

/// Whether one of the runs covers a stretch (true), none touches it (false),
/// or neither (`None`).
fn runs(
    runs: &[(weirgate_units::Span, weirgate_units::Span)],
    from: weirgate_units::Span,
    until: weirgate_units::Span,
) -> Option<bool> {
    if runs.iter().any(|run| run.0 <= from && run.1 >= until) {
        return Some(true);
    }
    let touches = runs.iter().any(|run| run.0 < until && run.1 > from);
    (!touches).then_some(false)
}

fn per_second(interval: weirgate_units::Span) -> Option<f64> {
    let seconds = interval.as_secs_f64();
    (seconds > 0.0).then(|| 1.0 / seconds)
}

fn bits(line: &Line, ip_bytes: u64) -> f64 {
    wire_bytes(line, ip_bytes) as f64 * 8.0
}
