// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests a link that fails silently, idle and under load, and short pauses.

#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use weirgate_links::{Counted, Health, Sign, Timing, Traffic};

const MS: u64 = 1_000_000;
/// The round trip.
const DELAY: u64 = 20 * MS;

/// A link that sends packets at a rate, and receives as many while it works.
struct Used {
    rate: u64,
    cut: (u64, u64),
}

impl Used {
    fn carries(&self, at: u64) -> bool {
        !(self.cut.0..self.cut.1).contains(&at)
    }

    /// Returns how many packets have left, or arrived, until a time.
    fn packets(&self, now: u64, arriving: bool) -> u64 {
        let (start, end) = self.cut;
        let lost = if arriving {
            now.clamp(start, end) - start
        } else {
            0
        };
        (now - lost) * self.rate / (1_000 * MS)
    }

    /// Runs as a service does; returns when the link was given up, and whether traffic was the
    /// sign.
    fn run(&self, until: u64) -> (Option<u64>, bool) {
        let timing = Timing::default();
        let mut health = Health::new(timing, true, true, 0);
        let mut traffic = Traffic::default();
        let (mut answers, mut questions, mut answered) = (Vec::<u64>::new(), 0, 0);
        let (mut round, mut suspected) = (0, false);
        loop {
            let answer = answers.first().copied();
            let times = [Some(round), health.next(), answer];
            let now = times.into_iter().flatten().min().unwrap();
            if now > until {
                return (None, suspected);
            }
            if answer == Some(now) {
                answers.remove(0);
                answered += 1;
                health.answer(now);
                continue;
            }
            let counted = Counted {
                sent: self.packets(now, false) + questions,
                questions,
                received: self.packets(now, true) + answered,
            };
            let sign = traffic.count(now, counted, timing.every);
            suspected |= sign == Sign::SendsOnly;
            if sign != Sign::Idle {
                health.suspect(now, sign == Sign::SendsOnly);
            }
            if sign == Sign::SendsOnly {
                traffic.forget();
            }
            health.at(now);
            if !health.is_up() {
                return (Some(now), suspected);
            }
            if round == now {
                questions += 1;
                health.ask(now);
                if self.carries(now) && self.carries(now + DELAY) {
                    answers.push(now + DELAY);
                }
                round += health.every().as_nanos();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Under load, a silent link is given up within 1.5 s; idle, never sooner.
    #[test]
    fn load_is_a_sign(start in 3_000..30_000_u64, rate in 100..10_000_u64) {
        let cut = (start * MS, u64::MAX);
        let until = (start + 5_000) * MS;
        let (down, suspected) = Used { rate, cut }.run(until);
        prop_assert!(suspected);
        let took = (down.unwrap() - cut.0) / MS;
        prop_assert!((800..=1_500).contains(&took), "{took} ms under load");
        let (down, suspected) = Used { rate: 0, cut }.run(until);
        prop_assert!(!suspected);
        let took = (down.unwrap() - cut.0) / MS;
        prop_assert!((1_450..=2_000).contains(&took), "{took} ms idle");
    }

    /// A link that works, or pauses for less than 0.85 s, is not given up.
    #[test]
    fn a_pause_is_no_death(start in 3_000..30_000_u64, gap in 0..850_u64, rate in 0..10_000_u64) {
        let cut = (start * MS, (start + gap) * MS);
        let (down, suspected) = Used { rate, cut }.run((start + 60_000) * MS);
        prop_assert_eq!(down, None);
        prop_assert!(gap > 400 || !suspected);
    }
}

#[test]
fn counters_that_begin_anew_are_no_sign() {
    let mut traffic = Traffic::default();
    let patience = Timing::default().every;
    let mut count = |at: u64, sent, received| {
        let counted = Counted {
            sent,
            questions: 0,
            received,
        };
        traffic.count(at * MS, counted, patience)
    };
    assert_eq!(count(0, 1_000, 500), Sign::Idle);
    assert_eq!(count(100, 1_000, 501), Sign::Receives);
    assert_eq!(count(600, 1_005, 501), Sign::Idle);
    assert_eq!(count(1_200, 1_100, 501), Sign::SendsOnly);
    assert_eq!(count(1_800, 3, 500), Sign::Receives);
    assert_eq!(count(1_900, 100, 500), Sign::Idle);
}

#[test]
fn what_came_before_a_suspicion_does_not_end_it() {
    let mut traffic = Traffic::default();
    let patience = Timing::default().every;
    let mut counted = Counted {
        sent: 1_000,
        questions: 0,
        received: 500,
    };
    traffic.count(0, counted, patience);
    // Packets received before the kernel reported the failure, but not counted until then.
    counted.received += 40;
    traffic.forget();
    assert_eq!(traffic.count(300 * MS, counted, patience), Sign::Idle);
    counted.received += 1;
    assert_eq!(traffic.count(400 * MS, counted, patience), Sign::Receives);
}
