// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Trains: packets sent at equal intervals, and the analysis of their arrival.

pub(crate) mod client;
pub(crate) mod measure;
pub(crate) mod message;
pub(crate) mod pace;
pub(crate) mod serve;

use crate::bound::{OutOfRange, within};
use crate::train::message::{Seen, Train};

/// The arrival of one packet of a train.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Its index in the train.
    pub index: u32,
    /// The time of sending by the sender's clock, in nanoseconds.
    pub sent_ns: u64,
    /// The time of arrival by the receiver's clock, in nanoseconds.
    pub came_ns: u64,
}

/// The packets of one train that have arrived.
#[derive(Debug)]
pub struct Arrivals {
    train: Train,
    all: Vec<Arrival>,
}

impl Arrivals {
    /// Starts without packets.
    #[must_use]
    pub const fn of(train: Train) -> Self {
        let all = Vec::new();
        Self { train, all }
    }

    /// Adds a packet; returns whether it was the last one of the train.
    pub fn take(&mut self, arrival: Arrival) -> Result<bool, OutOfRange> {
        let last = self.train.count.saturating_sub(1);
        within("index", arrival.index, 0..=last)?;
        // A duplicate takes the place of a missing packet.
        if self.all.len() < self.train.count as usize {
            self.all.push(arrival);
        }
        Ok(arrival.index == last || self.all.len() == self.train.count as usize)
    }

    /// Returns whether no packet has arrived.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the observations.
    #[must_use]
    pub fn seen(&self) -> Seen {
        seen(&self.all)
    }
}

/// Into how many parts a train is divided to estimate the error of the mean.
const PARTS: usize = 8;

/// Evaluates a train. The gap is that between consecutive packets: on a line that is never idle,
/// the time of a packet, regardless of losses before it. The first gaps, before a queue builds
/// up, are ignored. The error is that of means over parts of the train, because adjacent gaps
/// depend on each other.
#[must_use]
pub fn seen(arrivals: &[Arrival]) -> Seen {
    let received = u32::try_from(arrivals.len()).unwrap_or(u32::MAX);
    let delays: Vec<i128> = arrivals
        .iter()
        .map(|one| i128::from(one.came_ns) - i128::from(one.sent_ns))
        .collect();
    let (Some(least), Some(most)) = (delays.iter().min(), delays.iter().max()) else {
        return Seen::default();
    };
    let second = delays[delays.len() / 2..].iter().min().unwrap_or(least);
    let span = |from: i128, to: i128| u64::try_from(to - from).unwrap_or(0);
    let skipped = (arrivals.len() / 20).max(1).min(arrivals.len() - 1);
    let (gap_ns, gap_error_ns) = gaps(&arrivals[skipped..]);
    Seen {
        received,
        gap_ns,
        gap_error_ns,
        delay_ns: span(*least, *most),
        standing_ns: span(*least, *second),
    }
}

/// Returns the mean gap and its standard error; 0 and infinity if they are unknown.
fn gaps(arrivals: &[Arrival]) -> (f64, f64) {
    let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else {
        return (0.0, f64::INFINITY);
    };
    let count = arrivals.len() - 1;
    if count < PARTS {
        return (0.0, f64::INFINITY);
    }
    let between = |from: &Arrival, to: &Arrival| to.came_ns.saturating_sub(from.came_ns) as f64;
    let mean = between(first, last) / count as f64;
    let part = count / PARTS;
    let squares: f64 = (0..PARTS)
        .map(|number| {
            let (from, to) = (number * part, (number + 1) * part);
            let own = between(&arrivals[from], &arrivals[to]) / part as f64;
            (own - mean).powi(2)
        })
        .sum();
    let parts = PARTS as f64;
    (mean, (squares / (parts - 1.0) / parts).sqrt())
}

#[cfg(test)]
mod tests {
    use super::{Arrival, seen};

    /// Packets sent each millisecond on a line that takes 1.5 ms for each and buffers 30 of
    /// them.
    #[test]
    fn a_full_line_shows_its_time_and_its_buffer() {
        let mut free_at = 0_u64;
        let mut arrivals = Vec::new();
        for index in 0..1000_u32 {
            let sent_ns = u64::from(index) * 1_000_000;
            let start = free_at.max(sent_ns);
            if start - sent_ns > 45_000_000 {
                continue;
            }
            free_at = start + 1_500_000;
            arrivals.push(Arrival {
                index,
                sent_ns,
                came_ns: free_at + 7_000_000_000,
            });
        }
        let seen = seen(&arrivals);
        assert_eq!(seen.received as usize, arrivals.len());
        assert!((seen.gap_ns - 1_500_000.0).abs() < 1.0, "{seen:?}");
        assert!(seen.gap_error_ns < 1.0, "{seen:?}");
        assert!(
            (44_000_000..=45_000_000).contains(&seen.delay_ns),
            "{seen:?}"
        );
        assert!(seen.standing_ns > 40_000_000, "{seen:?}");
    }

    #[test]
    fn few_packets_say_nothing() {
        let one = Arrival {
            index: 0,
            sent_ns: 5,
            came_ns: 3,
        };
        for count in 0..9 {
            let seen = seen(&vec![one; count]);
            assert_eq!(seen.received as usize, count);
            assert_eq!(seen.gap_ns, 0.0);
        }
    }
}
