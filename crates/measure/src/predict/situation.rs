// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The calculation's input, which is the traffic of one phase, and its result.

use super::wire::{MTU, wire_bytes};
use crate::activity::data_direction;
use weirgate_experiment::{
    Arm, Buffer, Direction, Experiment, Line, LineSide, Phase, Probe, Traffic, TrafficKind,
};
use weirgate_units::Span;

/// TCP/IP headers with timestamps, as Linux sends them: 20 + 20 + 12.
const HEADERS: u64 = 52;

/// The additional header bytes of IPv6.
const IPV6_EXTRA: u64 = 20;

/// Segments per ACK of a Linux receiver (RFC 9293 section 3.8.6.3).
pub(super) const DELAYED: f64 = 2.0;

/// Segments per ACK if ACKs wait in the other direction's queue and data comes in bursts. The
/// delayed-ACK timer then sends an odd segment's ACK (Brouer 8.1 uses this number).
pub(super) const DELAYED_IN_BURSTS: f64 = 1.5;

/// A calculated figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// The metric's full name.
    pub metric: String,
    /// Its value, in the metric's unit.
    pub value: f64,
    /// Its derivation from line and traffic, in words and numbers.
    pub derivation: String,
}

impl Prediction {
    /// Returns the deviation of a measured figure, relative to this one.
    pub fn deviation(&self, measured: f64) -> f64 {
        if self.value == 0.0 {
            return if measured == 0.0 { 0.0 } else { f64::INFINITY };
        }
        (measured - self.value) / self.value
    }
}

/// Equal transfers.
pub(super) struct Transfers<'a> {
    pub(super) name: &'a str,
    pub(super) count: f64,
    /// The window of one transfer in segments; `None` if it has no limit.
    pub(super) segments: Option<f64>,
    /// Payload over IP bytes of a full segment.
    pub(super) payload: f64,
    /// Whether its window grows by one segment per round trip after a loss.
    pub(super) reno: bool,
    /// Wire bits of an ACK without payload.
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

/// Probes, one per interval in each direction.
pub(super) struct Asked<'a> {
    pub(super) probe: &'a Probe,
    pub(super) per_second: f64,
    pub(super) wire_bits: f64,
}

/// The traffic of one direction.
pub(super) struct DirectionLoad<'a> {
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
    pub(super) up: DirectionLoad<'a>,
    pub(super) down: DirectionLoad<'a>,
    pub(super) probes: Vec<Asked<'a>>,
    /// Wire bits of a full packet.
    pub(super) full_bits: f64,
}

impl<'a> Situation<'a> {
    /// Returns what runs from the phase's measured start to its end; `None` if something starts or
    /// stops in between, or is unpredictable.
    pub(super) fn new(experiment: &'a Experiment, arm: &Arm, phase: &'a Phase) -> Option<Self> {
        let line = &experiment.topology.line;
        let load = |side: &'a LineSide| DirectionLoad {
            side,
            rate: side.rate.as_bits_per_second() as f64,
            transfers: Vec::new(),
            datagrams: Vec::new(),
        };
        let mut situation = Self {
            phase: &phase.name,
            seconds: (phase.end - phase.start).as_secs_f64(),
            up: load(&line.up),
            down: load(&line.down),
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
            let count = members(traffic, from, phase.end)?;
            if count > 0 {
                situation.add(line, traffic, f64::from(count))?;
            }
        }
        for probe in &experiment.probes {
            if runs(&probe.runs, from, phase.end)? {
                if probe.per_round_trip.is_some() {
                    return None;
                }
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

    fn add(&mut self, line: &Line, traffic: &'a Traffic, count: f64) -> Option<()> {
        let load = match data_direction(traffic.from, traffic.to)? {
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
                load.transfers.push(Transfers {
                    name: &traffic.name,
                    count,
                    segments: tcp.window.map(|window| segments(window.as_bytes())),
                    payload: payload as f64 / MTU as f64,
                    reno: tcp.congestion.as_deref() == Some("reno"),
                    ack_bits: bits(line, headers),
                });
            }
            TrafficKind::Udp {
                interval,
                packet,
                packets: None,
            } => {
                load.datagrams.push(Datagrams {
                    name: &traffic.name,
                    class: traffic.class.as_deref(),
                    per_second: per_second(*interval)? * count,
                    ip_bytes: u64::from(*packet),
                    wire_bits: bits(line, u64::from(*packet)),
                });
            }
            _ => return None,
        }
        Some(())
    }

    /// Returns the fixed delay of both directions, in seconds.
    pub(super) fn propagation(&self) -> f64 {
        self.up.side.delay.as_secs_f64() + self.down.side.delay.as_secs_f64()
    }

    /// Returns the wire bit/s of all probes in one direction.
    pub(super) fn probe_bits(&self) -> f64 {
        self.probes
            .iter()
            .map(|asked| asked.per_second * asked.wire_bits)
            .sum()
    }

    /// Returns the round trip of a probe on an idle line, in seconds.
    pub(super) fn idle(&self, asked: &Asked) -> f64 {
        asked.wire_bits / self.up.rate + asked.wire_bits / self.down.rate + self.propagation()
    }

    /// Returns a metric's name in this phase.
    pub(super) fn name(&self, rest: &str) -> String {
        format!("{}.{rest}", self.phase)
    }
}

impl DirectionLoad<'_> {
    /// Returns the wire bit/s of datagrams.
    pub(super) fn datagram_bits(&self) -> f64 {
        self.datagrams
            .iter()
            .map(|udp| udp.per_second * udp.wire_bits)
            .sum()
    }

    /// Returns how many full packets the queue holds besides the one in transmission.
    pub(super) fn buffer_packets(&self) -> f64 {
        match self.side.buffer {
            Buffer::Bytes(size) => (size.as_bytes() / MTU) as f64,
            Buffer::Packets(packets) => f64::from(packets),
        }
    }

    /// Returns the segments of all windows together; `None` if a window has no limit.
    pub(super) fn segments(&self) -> Option<f64> {
        self.transfers
            .iter()
            .map(|t| t.segments.map(|segments| segments * t.count))
            .sum()
    }
}

/// Returns how many members of a traffic entry run throughout an interval; `None` if one starts or
/// stops in it.
fn members(traffic: &Traffic, from: Span, until: Span) -> Option<u16> {
    let mut count = 0;
    for member in 0..traffic.count {
        let shift = traffic.stagger.as_nanos().saturating_mul(u64::from(member));
        let shifted = |run: &(Span, Span)| (run.0 + Span::from_nanos(shift), run.1);
        let own: Vec<(Span, Span)> = traffic.runs.iter().map(shifted).collect();
        count += u16::from(runs(&own, from, until)?);
    }
    Some(count)
}

/// Returns true if a run covers the interval, false if no run overlaps it, and `None` otherwise.
fn runs(runs: &[(Span, Span)], from: Span, until: Span) -> Option<bool> {
    if runs.iter().any(|run| run.0 <= from && run.1 >= until) {
        return Some(true);
    }
    let touches = runs.iter().any(|run| run.0 < until && run.1 > from);
    (!touches).then_some(false)
}

fn per_second(interval: Span) -> Option<f64> {
    let seconds = interval.as_secs_f64();
    (seconds > 0.0).then(|| 1.0 / seconds)
}

fn bits(line: &Line, ip_bytes: u64) -> f64 {
    wire_bytes(line, ip_bytes) as f64 * 8.0
}
