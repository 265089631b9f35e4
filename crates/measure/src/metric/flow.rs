// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rates, losses and jitter of flows.

use crate::figures::Figures;
use crate::metric::gap::interval;
use crate::run::{Run, Subject};
use crate::stats::{Sorted, jain};
use crate::window::{SECOND, Window};
use std::collections::BTreeMap;
use weirgate_experiment::{Delivered, Fate, LinePacket, Quantity, Statistic};

/// Amounts that passed in active time.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) total: u64,
    pub(crate) active_ns: u64,
    /// The amount of each full active second.
    pub(crate) seconds: Vec<u64>,
}

impl Passed {
    /// Adds up amounts by the time at which they passed.
    pub(crate) fn new(events: impl Iterator<Item = (u64, u64)>, active: &[(u64, u64)]) -> Self {
        // Index of each stretch's first second in `seconds`.
        let mut first = Vec::with_capacity(active.len());
        let mut seconds = 0;
        for (start, end) in active {
            first.push(seconds);
            seconds += ((end - start) / SECOND) as usize;
        }
        let mut passed = Self {
            total: 0,
            active_ns: active.iter().map(|(start, end)| end - start).sum(),
            seconds: vec![0; seconds],
        };
        for (at_ns, amount) in events {
            let index = active.partition_point(|stretch| stretch.1 <= at_ns);
            let Some(&(start, end)) = active.get(index).filter(|stretch| stretch.0 <= at_ns) else {
                continue;
            };
            passed.total += amount;
            let second = (at_ns - start) / SECOND;
            if second < (end - start) / SECOND {
                passed.seconds[first[index] + second as usize] += amount;
            }
        }
        passed
    }

    /// Returns the amount per second.
    pub(crate) fn per_second(&self) -> f64 {
        self.total as f64 * SECOND as f64 / self.active_ns as f64
    }
}

/// Returns the departures of a subject's data from the line: time and packet.
pub(crate) fn departures<'a>(
    run: &'a Run,
    subject: &'a Subject,
) -> impl Iterator<Item = (u64, &'a LinePacket)> {
    run.packets_of(&subject.members)
        .filter(|packet| Some(packet.direction) == subject.direction)
        .filter_map(|packet| match packet.fate {
            Fate::Sent { end_ns, .. } => Some((end_ns, packet)),
            Fate::Dropped | Fate::Left => None,
        })
}

/// Stores `iprate`, `goodput` and `pps`, and for datagrams `loss`, `reordered` and `jitter`.
pub(crate) fn figures(run: &Run, subject: &Subject, active: &[(u64, u64)], figures: &mut Figures) {
    let name = &subject.name;
    if subject.direction.is_some() && !run.recording.line.is_empty() {
        let bytes = departures(run, subject).map(|(at, packet)| (at, u64::from(packet.ip_bytes)));
        rates(Quantity::IpRate, name, &Passed::new(bytes, active), figures);
        let packets = departures(run, subject).map(|(at, _)| (at, 1));
        let packets = Passed::new(packets, active).per_second();
        figures.put(Quantity::PacketRate, name, Statistic::Only, Some(packets));
    }
    let mut delivered = run.delivered_of(&subject.members).peekable();
    if delivered.peek().is_some() {
        let bytes = delivered.map(|record| (record.at_ns, u64::from(record.bytes)));
        rates(
            Quantity::Goodput,
            name,
            &Passed::new(bytes, active),
            figures,
        );
    }
    datagrams(run, subject, active, figures);
}

fn rates(quantity: Quantity, name: &str, passed: &Passed, figures: &mut Figures) {
    let kbit = |bytes: f64| bytes * 8.0 / 1e3;
    let seconds = Sorted::new(passed.seconds.clone());
    let exact = |bytes: Option<u64>| bytes.map(|bytes| kbit(bytes as f64));
    figures.put(
        quantity,
        name,
        Statistic::Mean,
        Some(kbit(passed.per_second())),
    );
    figures.put(quantity, name, Statistic::Min, exact(seconds.min()));
    figures.put(
        quantity,
        name,
        Statistic::P50,
        exact(seconds.per_mille(500)),
    );
}

/// Loss, order and jitter, from the sequence numbers and transit times of datagrams.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Datagrams {
    received: u64,
    /// How many were sent, as far as the numbers show.
    pub(crate) expected: u64,
    reordered: u64,
    /// The jitter after each datagram except the first, in nanoseconds.
    jitter_ns: Vec<f64>,
}

impl Datagrams {
    /// Adds the datagrams of one flow in one run, in order of receipt.
    fn add(&mut self, records: &[&Delivered]) {
        let mut numbers: Vec<u32> = records
            .iter()
            .filter_map(|record| record.datagram)
            .collect();
        let mut highest = None;
        for &number in &numbers {
            self.reordered += u64::from(highest.is_some_and(|highest| number < highest));
            highest = highest.max(Some(number));
        }
        numbers.sort_unstable();
        numbers.dedup();
        if let (Some(first), Some(last)) = (numbers.first(), numbers.last()) {
            self.received += numbers.len() as u64;
            self.expected += u64::from(last - first) + 1;
        }
        let transits: Vec<u64> = records
            .iter()
            .filter_map(|record| record.transit_ns)
            .collect();
        let mut jitter = 0.0;
        for pair in transits.windows(2) {
            jitter += (pair[1].abs_diff(pair[0]) as f64 - jitter) / 16.0;
            self.jitter_ns.push(jitter);
        }
    }
}

/// If nothing arrives for this long before a flow's end, and nothing after it, what it sent in this
/// time is lost, too.
const STOPPED_NS: u64 = 1_000_000_000;

/// Returns the datagrams that a flow received in a stretch of time, in order of receipt.
pub(crate) fn datagrams_in<'a>(
    run: &Run<'a>,
    member: usize,
    (start, end): (u64, u64),
) -> Vec<&'a Delivered> {
    run.delivered[member]
        .iter()
        .filter(|record| (start..end).contains(&record.at_ns))
        .filter(|record| record.datagram.is_some())
        .copied()
        .collect()
}

/// Adds up loss, order and jitter of flows whose datagrams are sent at `interval`.
pub(crate) fn datagrams_of(
    run: &Run,
    members: &[usize],
    interval: Option<u64>,
    active: &[(u64, u64)],
) -> Datagrams {
    let mut all = Datagrams::default();
    for &member in members {
        for &(start, end) in active {
            let records = datagrams_in(run, member, (start, end));
            all.add(&records);
            let arrived = run.delivered[member]
                .last()
                .map_or(0, |record| record.at_ns);
            let stopped = records.last().map(|last| end - last.at_ns);
            if let (Some(interval), Some(stopped)) = (interval, stopped)
                && stopped > STOPPED_NS.max(interval)
                && arrived < end
            {
                all.expected += (stopped / interval).saturating_sub(1);
            }
        }
    }
    all
}

fn datagrams(run: &Run, subject: &Subject, active: &[(u64, u64)], figures: &mut Figures) {
    let all = datagrams_of(run, &subject.members, interval(run, subject), active);
    if all.expected == 0 {
        return;
    }
    let name = &subject.name;
    let loss = (all.expected - all.received) as f64 / all.expected as f64;
    figures.put(Quantity::Loss, name, Statistic::Only, Some(loss));
    let reordered = all.reordered as f64;
    figures.put(Quantity::Reordered, name, Statistic::Only, Some(reordered));
    let jitter = crate::stats::mean(&all.jitter_ns).map(|ns| ns / 1e6);
    figures.put(Quantity::Jitter, name, Statistic::Mean, jitter);
}

/// Stores `jain` of every entry with several members, from their payload in the window. For a group
/// of entries, it compares the sums of their members.
pub(crate) fn fairness(run: &Run, window: &Window, figures: &mut Figures) {
    let received = |&member: &usize| -> f64 {
        let inside = run.delivered[member]
            .iter()
            .filter(|r| window.contains(r.at_ns));
        inside.map(|record| f64::from(record.bytes)).sum()
    };
    let mut groups: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for traffic in &run.experiment.traffic {
        let entry = run
            .subjects
            .iter()
            .find(|subject| subject.whole && subject.name == traffic.name);
        if let (Some(group), Some(entry)) = (&traffic.group, entry)
            && !entry.active_in(window).is_empty()
        {
            let sum = entry.members.iter().map(received).sum();
            groups.entry(group).or_default().push(sum);
        }
    }
    for (name, shares) in groups.iter().filter(|(_, shares)| shares.len() > 1) {
        figures.put(Quantity::Jain, name, Statistic::Only, jain(shares));
    }
    for group in run
        .subjects
        .iter()
        .filter(|subject| subject.whole && subject.members.len() > 1)
    {
        if group.active_in(window).is_empty() {
            continue;
        }
        let shares: Vec<f64> = group.members.iter().map(received).collect();
        figures.put(Quantity::Jain, &group.name, Statistic::Only, jain(&shares));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(number: u32, transit_ms: u64) -> Delivered {
        Delivered {
            flow: 0,
            at_ns: 0,
            bytes: 12,
            datagram: Some(number),
            transit_ns: Some(transit_ms * 1_000_000),
        }
    }

    #[test]
    fn seconds_count_only_when_full() {
        let s = SECOND;
        let active = [(0, 2 * s + s / 2), (10 * s, 11 * s)];
        let events = [
            (0, 1),
            (s - 1, 2),
            (s, 4),
            (2 * s, 8),
            (5 * s, 99),
            (10 * s, 16),
            (11 * s, 99),
        ];
        let passed = Passed::new(events.into_iter(), &active);
        assert_eq!(passed.total, 31);
        assert_eq!(passed.active_ns, 3 * s + s / 2);
        assert_eq!(passed.seconds, [3, 4, 16]);
    }

    #[test]
    fn datagrams_are_counted_by_their_numbers() {
        let records = [
            datagram(4, 10),
            datagram(6, 26),
            datagram(5, 10),
            datagram(9, 10),
        ];
        let mut all = Datagrams::default();
        all.add(&records.iter().collect::<Vec<_>>());
        assert_eq!((all.received, all.expected, all.reordered), (4, 6, 1));
        // The differences are 16, 16 and 0 ms: the jitter is 1, 1 + 15/16, then 15/16 of that.
        let expected = [1e6, 1.9375e6, 1.9375e6 * 15.0 / 16.0];
        for (jitter, expected) in all.jitter_ns.iter().zip(expected) {
            assert!((jitter - expected).abs() < 1e-3, "{jitter} {expected}");
        }
        // A duplicate is neither lost nor received twice.
        let mut twice = Datagrams::default();
        twice.add(&[&records[0], &records[0]]);
        assert_eq!((twice.received, twice.expected, twice.reordered), (1, 1, 0));
    }
}
