// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures of the line: utilisation, its two queues, their length when packets arrive, and its
//! drops.

use crate::figures::Figures;
use crate::run::{Run, one_way};
use crate::window::Window;
use weirgate_experiment::{
    Direction, DropEnd, Experiment, Fate, LinePacket, LineSide, Quantity, Recording, Statistic,
};

/// Each direction with its name as a link and the name of its queue as a place.
pub(crate) const SIDES: [(Direction, &str, &str); 2] = [
    (Direction::Up, "up", "modem"),
    (Direction::Down, "down", "exchange"),
];

/// Returns the line's side of that direction.
pub(crate) fn side(experiment: &Experiment, direction: Direction) -> &LineSide {
    match direction {
        Direction::Up => &experiment.topology.line.up,
        Direction::Down => &experiment.topology.line.down,
    }
}

/// Stores `util`, `queue` and `drops` of both directions, and `ahead` upstream.
pub(crate) fn figures(run: &Run, window: &Window, figures: &mut Figures) {
    if run.recording.line.is_empty() {
        return;
    }
    for (direction, link, place) in SIDES {
        let busy = busy_ns(run.recording, direction, window) as f64;
        let ratio = busy / window.length_ns() as f64;
        figures.put(Quantity::Util, link, Statistic::Only, Some(ratio));
        let levels = levels(run.experiment, run.recording, direction);
        put_levels(&levels, window, place, figures);
        let drops = one_way(run.recording, direction)
            .filter(|packet| packet.fate == Fate::Dropped && window.contains(packet.arrived_ns))
            .count();
        figures.put(Quantity::Drops, place, Statistic::Only, Some(drops as f64));
    }
    ahead(run, window, figures);
}

fn busy_ns(recording: &Recording, direction: Direction, window: &Window) -> u64 {
    one_way(recording, direction)
        .map(|packet| match packet.fate {
            Fate::Sent { start_ns, end_ns } => window.overlap_ns(start_ns, end_ns),
            Fate::Dropped | Fate::Left => 0,
        })
        .fold(0, u64::saturating_add)
}

/// The length of a queue from a time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) from_ns: u64,
    pub(crate) bytes: u64,
}

/// Returns the bytes in one direction of the line, waiting or in transmission, over time.
///
/// The level is what each packet found on arrival, plus the packet itself, minus the bytes
/// transmitted until the next arrival. The backlog that the next packet found corrects it, because
/// the log has no time for a packet dropped from the front.
pub(crate) fn levels(
    experiment: &Experiment,
    recording: &Recording,
    direction: Direction,
) -> Vec<Level> {
    let front = side(experiment, direction).drop == DropEnd::Front;
    let mut ends: Vec<(u64, u64)> = one_way(recording, direction)
        .filter_map(|packet| match packet.fate {
            Fate::Sent { end_ns, .. } => Some((end_ns, u64::from(packet.ip_bytes))),
            Fate::Dropped | Fate::Left => None,
        })
        .collect();
    ends.sort_unstable();
    let mut arrivals = one_way(recording, direction).peekable();
    let mut levels = Vec::new();
    let mut departed = 0;
    while let Some(packet) = arrivals.next() {
        let next: Option<&&LinePacket> = arrivals.peek();
        let until = next.map_or(u64::MAX, |next| next.arrived_ns);
        let begin = departed + ends[departed..].partition_point(|end| end.0 <= packet.arrived_ns);
        let end = begin + ends[begin..].partition_point(|end| end.0 <= until);
        let kept = packet.fate != Fate::Dropped || front;
        let own = if kept { u64::from(packet.ip_bytes) } else { 0 };
        let mut level = u64::from(packet.ahead_bytes) + own;
        if let Some(next) = next {
            let left: u64 = ends[begin..end].iter().map(|end| end.1).sum();
            level = level.min(u64::from(next.ahead_bytes) + left);
        }
        levels.push(Level {
            from_ns: packet.arrived_ns,
            bytes: level,
        });
        for &(at_ns, bytes) in &ends[begin..end] {
            level = level.saturating_sub(bytes);
            levels.push(Level {
                from_ns: at_ns,
                bytes: level,
            });
        }
        departed = end;
    }
    levels
}

/// Stores the figures of a place's queue.
pub(crate) fn put_levels(levels: &[Level], window: &Window, place: &str, figures: &mut Figures) {
    let mut put = |statistic, value| figures.put(Quantity::Queue, place, statistic, Some(value));
    put(Statistic::Mean, mean_level(levels, window));
    put(Statistic::P95, p95_level(levels, window) as f64);
    put(Statistic::Max, max_level(levels, window) as f64);
}

/// Returns the level that is not exceeded in 95 % of a window's time. Before the first level, the
/// queue is empty.
fn p95_level(levels: &[Level], window: &Window) -> u64 {
    let mut times: Vec<(u64, u64)> = levels
        .iter()
        .enumerate()
        .map(|(index, level)| {
            let next = levels.get(index + 1);
            let until = next.map_or(window.end_ns, |next| next.from_ns);
            (level.bytes, window.overlap_ns(level.from_ns, until))
        })
        .collect();
    let known: u64 = times.iter().map(|(_, time)| time).sum();
    times.push((0, window.length_ns().saturating_sub(known)));
    times.sort_unstable();
    let wanted = u128::from(window.length_ns()) * 95;
    let mut passed = 0;
    times
        .into_iter()
        .find(|(_, time)| {
            passed += u128::from(*time) * 100;
            *time > 0 && passed >= wanted
        })
        .map_or(0, |(bytes, _)| bytes)
}

/// Returns the mean of levels over a window, weighted by time.
fn mean_level(levels: &[Level], window: &Window) -> f64 {
    let mut area: u128 = 0;
    for (index, level) in levels.iter().enumerate() {
        let until = levels
            .get(index + 1)
            .map_or(window.end_ns, |next| next.from_ns);
        let time = window.overlap_ns(level.from_ns, until);
        area += u128::from(time) * u128::from(level.bytes);
    }
    area as f64 / window.length_ns() as f64
}

/// Returns the largest level in a window, including the level at its start.
fn max_level(levels: &[Level], window: &Window) -> u64 {
    let first = levels
        .partition_point(|level| level.from_ns <= window.start_ns)
        .saturating_sub(1);
    levels
        .iter()
        .skip(first)
        .take_while(|level| level.from_ns < window.end_ns)
        .map(|level| level.bytes)
        .max()
        .unwrap_or(0)
}

/// Stores the backlog that packets found at the modem, by the name of the arriving flow or probe.
fn ahead(run: &Run, window: &Window, figures: &mut Figures) {
    let probes = run.experiment.probes.iter().map(|probe| {
        let flows = run.recording.flows.iter().enumerate();
        let members = flows
            .filter(|(_, flow)| flow.name == probe.name)
            .map(|(index, _)| index);
        (probe.name.as_str(), members.collect::<Vec<usize>>())
    });
    let subjects = run
        .subjects
        .iter()
        .filter(|subject| subject.whole)
        .map(|subject| (subject.name.as_str(), subject.members.clone()));
    for (name, members) in probes.chain(subjects) {
        let found: Vec<u64> = members
            .iter()
            .flat_map(|&member| &run.packets[member])
            .filter(|packet| packet.direction == Direction::Up)
            .filter(|packet| window.contains(packet.arrived_ns))
            .map(|packet| u64::from(packet.ahead_packets))
            .collect();
        let found = crate::stats::Sorted::new(found);
        figures.put(Quantity::Ahead, name, Statistic::Mean, found.mean());
        figures.put(
            Quantity::Ahead,
            name,
            Statistic::Max,
            found.max().map(|max| max as f64),
        );
    }
}
