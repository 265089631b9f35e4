// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Curves over time for plots.

use crate::MeasureError;
use crate::activity::data_direction;
use crate::metric::flow::departures;
use crate::metric::line::{SIDES, levels};
use crate::metric::queue::{place_name, samples};
use crate::run::Run;
use crate::stats::Sorted;
use crate::window::SECOND;
use weirgate_experiment::{Direction, Experiment, Fate, Recording, TcpSample, TcpSegment};

/// Header flags (RFC 9293 section 3.1).
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// A curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name: a flow, a probe or a place.
    pub name: String,
    /// Seconds since the start of traffic, and value, in order of time.
    pub points: Vec<(f64, f64)>,
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / SECOND as f64
}

/// Returns the IP rate of every flow in each full second in kbit/s, at the second's start. Flows
/// whose data never crossed the line have no curve.
///
/// # Errors
///
/// Fails as [`crate::measure`] does.
pub fn throughput(
    experiment: &Experiment,
    recording: &Recording,
) -> Result<Vec<Series>, MeasureError> {
    let run = Run::new(experiment, recording)?;
    let full = (recording.duration_ns / SECOND) as usize;
    let mut curves = Vec::new();
    for subject in run.subjects.iter().filter(|subject| subject.whole) {
        let mut bytes = vec![0u64; full];
        let mut any = false;
        for (at_ns, packet) in departures(&run, subject) {
            any = true;
            if let Some(second) = bytes.get_mut((at_ns / SECOND) as usize) {
                *second += u64::from(packet.ip_bytes);
            }
        }
        if any {
            let point = |(second, &bytes): (usize, &u64)| (second as f64, bytes as f64 * 8.0 / 1e3);
            let points = bytes.iter().enumerate().map(point).collect();
            curves.push(Series {
                name: subject.name.clone(),
                points,
            });
        }
    }
    Ok(curves)
}

/// Returns the round-trip times of every probe in milliseconds, by time of sending.
pub fn latency(experiment: &Experiment, recording: &Recording) -> Vec<Series> {
    let curve = |(index, name): (usize, &String)| {
        let own = recording
            .probes
            .iter()
            .filter(|reply| usize::from(reply.probe) == index);
        let points: Vec<(f64, f64)> = own
            .filter_map(|reply| Some((seconds(reply.sent_ns), reply.rtt_ns? as f64 / 1e6)))
            .collect();
        (!points.is_empty()).then(|| Series {
            name: name.clone(),
            points,
        })
    };
    let names = experiment.probes.iter().map(|probe| &probe.name);
    names.enumerate().filter_map(curve).collect()
}

/// Returns a sampled value of each TCP sender over time, for flows of one connection: the bytes in
/// flight, or the smoothed round trip. Returns nothing if there are more than `most` such flows.
pub fn senders(
    experiment: &Experiment,
    recording: &Recording,
    most: usize,
    value: impl Fn(&TcpSample) -> f64,
) -> Vec<Series> {
    let Ok(run) = Run::new(experiment, recording) else {
        return Vec::new();
    };
    let single = run.subjects.iter().filter(|one| one.members.len() == 1);
    let curves = single.filter_map(|subject| {
        let own = recording.tcp.iter();
        let own = own.filter(|sample| subject.members.contains(&usize::from(sample.flow)));
        let points: Vec<(f64, f64)> = own
            .map(|sample| (seconds(sample.at_ns), value(sample)))
            .collect();
        (!points.is_empty()).then(|| Series {
            name: subject.name.clone(),
            points,
        })
    });
    let curves: Vec<Series> = curves.collect();
    if curves.len() > most {
        return Vec::new();
    }
    curves
}

/// Returns the round-trip times in nanoseconds of one probe (by index) between two times, for
/// histograms.
pub fn round_trips(recording: &Recording, probe: usize, start_ns: u64, end_ns: u64) -> Sorted {
    let inside = recording
        .probes
        .iter()
        .filter(|reply| usize::from(reply.probe) == probe)
        .filter(|reply| (start_ns..end_ns).contains(&reply.sent_ns));
    Sorted::new(inside.filter_map(|reply| reply.rtt_ns).collect())
}

/// Returns the backlog in bytes over time: `modem` and `exchange` from the line's log, then sampled
/// places that ever had a backlog. Each value holds until the next.
pub fn queues(experiment: &Experiment, recording: &Recording) -> Vec<Series> {
    let mut curves = Vec::new();
    for (direction, _, place) in SIDES {
        let levels = levels(experiment, recording, direction);
        if !levels.is_empty() {
            let points = levels
                .iter()
                .map(|l| (seconds(l.from_ns), l.bytes as f64))
                .collect();
            curves.push(Series {
                name: place.to_owned(),
                points,
            });
        }
    }
    for (place, name) in recording.places.iter().enumerate() {
        let samples = samples(recording, place);
        if samples.iter().any(|sample| sample.backlog_bytes > 0) {
            let point = |s: &&_| {
                let sample: &weirgate_experiment::QueueSample = s;
                (seconds(sample.at_ns), f64::from(sample.backlog_bytes))
            };
            let points = samples.iter().map(point).collect();
            curves.push(Series {
                name: place_name(name),
                points,
            });
        }
    }
    curves
}

/// One TCP segment of a flow as seen at the line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mark {
    /// The time in seconds: for data when it arrived at the line, for ACKs when they left it.
    pub at_s: f64,
    /// The first byte, relative to the flow's first byte; of an ACK the acknowledged byte.
    pub from: i64,
    /// The byte after the last; of an ACK the same as `from`.
    pub to: i64,
    /// The kind of segment.
    pub kind: MarkKind,
}

/// The kind of a segment in a time-sequence plot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MarkKind {
    /// Data sent for the first time.
    Data,
    /// Data that was sent before.
    Retransmission,
    /// Data that the line dropped.
    Dropped,
    /// A cumulative acknowledgement.
    Ack,
    /// The first SACK block of an acknowledgement.
    Sack,
}

/// Returns the time-sequence view of one flow (by index) between two times in nanoseconds. Sequence
/// numbers are unwrapped.
pub fn time_sequence(
    experiment: &Experiment,
    recording: &Recording,
    flow: usize,
    start_ns: u64,
    end_ns: u64,
) -> Vec<Mark> {
    let traffic = recording.flows.get(flow).and_then(|flow| {
        experiment
            .traffic
            .iter()
            .find(|traffic| traffic.name == flow.name)
    });
    let Some(direction) = traffic.and_then(|traffic| data_direction(traffic.from, traffic.to))
    else {
        return Vec::new();
    };
    let mut sequence = Sequence::default();
    let mut marks = Vec::new();
    let own = recording
        .line
        .iter()
        .filter(|p| p.flow.is_some_and(|f| usize::from(f) == flow));
    for packet in own {
        let Some(segment) = packet.tcp else {
            continue;
        };
        if packet.direction == direction {
            if segment.flags & SYN != 0 {
                // A new connection starts at its own first byte.
                sequence = Sequence::default();
            }
            let mark = sequence.data(&segment, packet.fate == Fate::Dropped);
            if let Some((from, to, kind)) = mark {
                marks.push((
                    packet.arrived_ns,
                    Mark {
                        at_s: seconds(packet.arrived_ns),
                        from,
                        to,
                        kind,
                    },
                ));
            }
        } else if let (Fate::Sent { end_ns, .. }, true) = (packet.fate, segment.flags & ACK != 0) {
            let at_s = seconds(end_ns);
            let ack = sequence.relative(segment.ack);
            marks.push((
                end_ns,
                Mark {
                    at_s,
                    from: ack,
                    to: ack,
                    kind: MarkKind::Ack,
                },
            ));
            if let Some((left, right)) = segment.sack {
                let (from, to) = (sequence.relative(left), sequence.relative(right));
                marks.push((
                    end_ns,
                    Mark {
                        at_s,
                        from,
                        to,
                        kind: MarkKind::Sack,
                    },
                ));
            }
        }
    }
    marks.sort_by_key(|mark| mark.0);
    let inside = marks
        .into_iter()
        .filter(|mark| (start_ns..end_ns).contains(&mark.0));
    inside.map(|mark| mark.1).collect()
}

/// Unwraps the sequence numbers of one direction.
#[derive(Default)]
struct Sequence {
    /// The first sequence number.
    origin: Option<u32>,
    /// The byte after the highest sent, relative to `origin`.
    highest: i64,
}

impl Sequence {
    /// Returns a number relative to the first one, choosing the value nearest to the highest so
    /// far.
    fn relative(&mut self, number: u32) -> i64 {
        let origin = *self.origin.get_or_insert(number);
        let expected = origin.wrapping_add(self.highest as u32);
        self.highest + i64::from(number.wrapping_sub(expected) as i32)
    }

    fn data(&mut self, segment: &TcpSegment, dropped: bool) -> Option<(i64, i64, MarkKind)> {
        let from = self.relative(segment.seq);
        let to = from + i64::from(segment.payload);
        if segment.payload == 0 {
            return None;
        }
        let kind = match (dropped, from < self.highest) {
            (true, _) => MarkKind::Dropped,
            (false, true) => MarkKind::Retransmission,
            (false, false) => MarkKind::Data,
        };
        self.highest = self.highest.max(to);
        Some((from, to, kind))
    }
}

/// Returns whether a flow (by index) is a TCP transfer whose segments are in the log.
pub fn has_segments(recording: &Recording, flow: usize) -> bool {
    let own = |packet: &&weirgate_experiment::LinePacket| {
        packet.flow.is_some_and(|known| usize::from(known) == flow)
    };
    recording
        .line
        .iter()
        .filter(own)
        .any(|packet| packet.tcp.is_some())
}

/// Returns the direction of a flow's data (by index in the recording).
pub fn direction(experiment: &Experiment, recording: &Recording, flow: usize) -> Option<Direction> {
    let name = &recording.flows.get(flow)?.name;
    let traffic = experiment
        .traffic
        .iter()
        .find(|traffic| &traffic.name == name)?;
    data_direction(traffic.from, traffic.to)
}
