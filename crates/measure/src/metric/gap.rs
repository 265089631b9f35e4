// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures that show a pause in forwarding or a leak in a shaper: gaps between datagrams, an idle
//! line, and packets that are too early.

use crate::figures::Figures;
use crate::metric::line::SIDES;
use crate::predict::wire_bytes;
use crate::run::{Run, Subject, one_way};
use crate::window::Window;
use weirgate_experiment::{Direction, Fate, Quantity, Statistic, Traffic, TrafficKind};

/// The largest IP packet.
const FULL_BYTES: u64 = 1500;

/// Stores `gap` of datagrams that are sent at an interval.
pub(crate) fn of_flow(run: &Run, subject: &Subject, active: &[(u64, u64)], figures: &mut Figures) {
    let Some(interval) = interval(run, subject) else {
        return;
    };
    let mut longest: Option<u64> = None;
    for &member in &subject.members {
        for &(start, end) in active {
            let times: Vec<u64> = run.delivered[member]
                .iter()
                .filter(|record| record.datagram.is_some())
                .map(|record| record.at_ns)
                .filter(|at_ns| (start..end).contains(at_ns))
                .collect();
            let gaps = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
            // A flow that stopped for good has a gap up to its end.
            let last = times.last().map(|last| end - last);
            longest = longest.max(gaps.max()).max(last);
        }
    }
    let beyond = longest.map(|gap| gap.saturating_sub(interval));
    let ms = beyond.map(|ns| ns as f64 / 1e6);
    figures.put(Quantity::Gap, &subject.name, Statistic::Max, ms);
}

/// Returns the nanoseconds between two datagrams of a flow, if they are sent at an interval.
pub(crate) fn interval(run: &Run, subject: &Subject) -> Option<u64> {
    match &entry(run, subject)?.kind {
        TrafficKind::Udp { interval, .. } | TrafficKind::Voice { interval, .. } => {
            Some(interval.as_nanos()).filter(|interval| *interval > 0)
        }
        _ => None,
    }
}

/// Returns the traffic entry of a subject.
pub(crate) fn entry<'a>(run: &Run<'a>, subject: &Subject) -> Option<&'a Traffic> {
    let name = subject.name.split('#').next().unwrap_or(&subject.name);
    let mut entries = run.experiment.traffic.iter();
    entries.find(|traffic| traffic.name == name)
}

/// Stores `silence` of both directions and `unshaped` upstream.
pub(crate) fn of_line(run: &Run, window: &Window, figures: &mut Figures) {
    if run.recording.line.is_empty() {
        return;
    }
    for (direction, link, _) in SIDES {
        let ms = silence_ns(run, direction, window) as f64 / 1e6;
        figures.put(Quantity::Silence, link, Statistic::Max, Some(ms));
    }
    let packets = unshaped(run, window).map(|count| count as f64);
    figures.put(Quantity::Unshaped, "up", Statistic::Only, packets);
}

/// Returns the longest interval of the window in which a direction transmitted nothing.
fn silence_ns(run: &Run, direction: Direction, window: &Window) -> u64 {
    let mut busy: Vec<(u64, u64)> = one_way(run.recording, direction)
        .filter_map(|packet| match packet.fate {
            Fate::Sent { start_ns, end_ns } => Some((start_ns, end_ns)),
            Fate::Dropped | Fate::Left => None,
        })
        .filter(|&(start_ns, end_ns)| start_ns < window.end_ns && end_ns > window.start_ns)
        .collect();
    busy.sort_unstable();
    let mut longest = 0;
    let mut until = window.start_ns;
    for (start_ns, end_ns) in busy {
        longest = longest.max(start_ns.saturating_sub(until));
        until = until.max(end_ns);
    }
    longest.max(window.end_ns.saturating_sub(until))
}

/// Counts packets that came from the gateway in a window earlier than a gate at the line's rate
/// would send them. Returns `None` without a log of packets.
///
/// A gate sends one packet at a time, each after the wire time of its predecessor. Its packets
/// therefore conform to a token bucket at the line's rate with a depth of one full packet. The
/// depth is a quarter larger, to allow for the timers of kernel and lab. A packet that does not
/// conform is counted and takes no tokens, so that later packets do not count because of it.
pub(crate) fn unshaped(run: &Run, window: &Window) -> Option<u64> {
    if run.recording.line.is_empty() {
        return None;
    }
    let line = &run.experiment.topology.line;
    let rate = line.up.rate.as_bits_per_second();
    // The unit is 1/8 of a byte and a nanosecond, so that nothing is rounded.
    let unit = 8_000_000_000_u128;
    let depth = u128::from(wire_bytes(line, FULL_BYTES)) * unit * 5 / 4;
    let mut level = depth;
    let mut last_ns = window.start_ns;
    let mut count = 0;
    for packet in one_way(run.recording, Direction::Up) {
        if !window.contains(packet.arrived_ns) {
            continue;
        }
        let passed = u128::from(packet.arrived_ns.saturating_sub(last_ns));
        last_ns = packet.arrived_ns;
        level = depth.min(level + passed * u128::from(rate));
        let cost = u128::from(packet.wire_bytes) * unit;
        match level.checked_sub(cost) {
            Some(rest) => level = rest,
            None => count += 1,
        }
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{MS, experiment, recording, sent, udp};
    use weirgate_experiment::{Delivered, LinePacket};

    fn packet(direction: Direction, from_ms: u64, to_ms: u64) -> LinePacket {
        let mut packet = sent(direction, (from_ms, from_ms, to_ms), 1500, 0);
        packet.wire_bytes = 1696;
        packet.flow = None;
        packet
    }

    #[test]
    fn a_gap_is_what_exceeds_the_interval() {
        let mut experiment = experiment(&[("only", 0, 10)]);
        experiment.traffic = vec![udp("stream", 20_000, 200, &[(0, 10)])];
        let mut recording = recording(10, &[("stream", 0)]);
        let times = [0, 20, 41, 60, 95, 100].into_iter();
        recording.delivered = times
            .chain((120..10_000).step_by(20))
            .enumerate()
            .map(|(number, at)| Delivered {
                flow: 0,
                at_ns: at * MS,
                bytes: 172,
                datagram: Some(number as u32),
                transit_ns: None,
            })
            .collect();
        let metrics = crate::measure(&experiment, &recording).unwrap().metrics;
        assert_eq!(metrics.get("gap.stream.max_ms"), Some(&15.0));
    }

    #[test]
    fn a_flow_that_stops_for_good_has_a_gap_to_its_end() {
        let mut experiment = experiment(&[("only", 0, 10)]);
        experiment.traffic = vec![udp("stream", 20_000, 200, &[(0, 10)])];
        let mut recording = recording(10, &[("stream", 0)]);
        recording.delivered = (0..250_u32)
            .map(|number| Delivered {
                flow: 0,
                at_ns: u64::from(number) * 20 * MS,
                bytes: 172,
                datagram: Some(number),
                transit_ns: None,
            })
            .collect();
        let metrics = crate::measure(&experiment, &recording).unwrap().metrics;
        assert_eq!(metrics.get("gap.stream.max_ms"), Some(&5_000.0));
        // Half of the datagrams did not arrive, too.
        let loss = metrics.get("loss.stream.ratio").copied().unwrap();
        assert!((loss - 0.5).abs() < 0.01, "{loss}");
    }

    #[test]
    fn silence_counts_to_the_ends_of_the_window() {
        let experiment = experiment(&[("only", 0, 1)]);
        let mut recording = recording(1, &[]);
        let up = [(100, 127), (127, 154), (400, 500)];
        recording.line = up
            .map(|(from, to)| packet(Direction::Up, from, to))
            .to_vec();
        let run = Run::new(&experiment, &recording).unwrap();
        let window = |start: u64, end: u64| Window {
            phase: None,
            begin_ns: start * MS,
            start_ns: start * MS,
            end_ns: end * MS,
        };
        let silent = |start, end| silence_ns(&run, Direction::Up, &window(start, end)) / MS;
        assert_eq!(silent(0, 450), 246);
        assert_eq!(silent(0, 150), 100);
        assert_eq!(silent(0, 1000), 500);
        assert_eq!(silent(110, 140), 0);
    }

    #[test]
    fn what_a_gate_lets_out_is_shaped_and_one_more_is_not() {
        let experiment = experiment(&[("only", 0, 10)]);
        let mut recording = recording(10, &[]);
        // A packet takes 26.5 ms: an interval of 27 ms is slower than the line, 20 ms is faster.
        let counted = |recording: &mut weirgate_experiment::Recording, every: u64, more: &[u64]| {
            let mut times: Vec<u64> = (0..50).map(|number| number * every).collect();
            times.extend(more);
            times.sort_unstable();
            recording.line = times
                .into_iter()
                .map(|at| packet(Direction::Up, at, at + 26))
                .collect();
            let run = Run::new(&experiment, recording).unwrap();
            let window = Window {
                phase: None,
                begin_ns: 0,
                start_ns: 0,
                end_ns: 10_000 * MS,
            };
            unshaped(&run, &window)
        };
        assert_eq!(counted(&mut recording, 27, &[]), Some(0));
        assert_eq!(counted(&mut recording, 27, &[500]), Some(1));
        assert_eq!(counted(&mut recording, 27, &[500, 900, 901]), Some(3));
        // In an interval, the bucket fills by three quarters of a packet: of three in a row, the
        // last does not conform.
        assert_eq!(counted(&mut recording, 20, &[]), Some(16));
        recording.line.clear();
        let run = Run::new(&experiment, &recording).unwrap();
        let window = Window {
            phase: None,
            begin_ns: 0,
            start_ns: 0,
            end_ns: 1,
        };
        assert_eq!(unshaped(&run, &window), None);
    }
}
