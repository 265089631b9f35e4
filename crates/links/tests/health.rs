// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the health of a link that is cut at random.

#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use weirgate_links::{Health, Timing};
use weirgate_units::Span;

const MS: u64 = 1_000_000;
/// The promised time to detect a silent link.
const DETECTED: u64 = 3_000 * MS;

/// The time and the new value of a change of health.
type Change = (u64, bool);

/// A path that is cut at times, loses some rounds, and answers late.
struct ProbedPath {
    /// The beginning and the end of each cut.
    cuts: Vec<(u64, u64)>,
    /// The loss of rounds, in thousandths.
    lost: u64,
    /// The round trip.
    delay: u64,
    seed: u64,
}

impl ProbedPath {
    fn carries(&self, at: u64) -> bool {
        !self
            .cuts
            .iter()
            .any(|(start, end)| (*start..*end).contains(&at))
    }

    fn loses(&mut self) -> bool {
        // The generator of Knuth's MMIX.
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % 1_000 < self.lost
    }

    /// Sends probes as a service would until a time, and returns the changes.
    fn run(mut self, timing: Timing, until: u64) -> Vec<Change> {
        let mut health = Health::new(timing, true, true, 0);
        let (mut changes, mut answers) = (Vec::new(), Vec::<u64>::new());
        let mut round = 0;
        loop {
            let answer = answers.first().copied();
            let now = [Some(round), health.next(), answer]
                .into_iter()
                .flatten()
                .min()
                .unwrap();
            if now > until {
                return changes;
            }
            if answer == Some(now) {
                answers.remove(0);
                health.answer(now);
            } else if round == now {
                health.ask(now);
                let back = now + self.delay;
                if self.carries(now) && self.carries(back) && !self.loses() {
                    answers.push(back);
                }
                round += health.every().as_nanos();
            } else {
                health.at(now);
            }
            let before = changes.last().is_none_or(|(_, up)| *up);
            if health.is_up() != before {
                changes.push((now, health.is_up()));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// With a cut of any length at any time, and up to a tenth of the rounds lost: the link is
    /// given up within 3 s, and used again once, after it is steady.
    #[test]
    fn a_cut_makes_one_change_each_way(
        start in 5_000..30_000_u64,
        length in 3_000..120_000_u64,
        lost in 0..=100_u64,
        delay in 1..900_u64,
        seed: u64,
    ) {
        let (start, end) = (start * MS, (start + length) * MS);
        let timing = Timing::default();
        let line = ProbedPath { cuts: vec![(start, end)], lost, delay: delay * MS, seed };
        let changes = line.run(timing, end + 600_000 * MS);
        prop_assert_eq!(changes.len(), 2, "{:?}", &changes);
        let (down, up) = (changes[0], changes[1]);
        prop_assert!(!down.1 && down.0 >= start && down.0 <= start + DETECTED, "{:?}", down);
        prop_assert!(up.1 && up.0 >= end + timing.steady.as_nanos(), "{:?}", up);
    }

    /// A link that loses single rounds is used again after a time like that of a link without loss,
    /// also after failures that follow each other so fast that the time has doubled thrice.
    #[test]
    fn single_losses_do_not_delay_the_return(lost in 10..=20_u64, seed: u64) {
        let second = 1_000 * MS;
        let cut = |from: u64| (from * second, (from + 5) * second);
        let end = 285 * second;
        let cuts = [60, 120, 190, 280].map(cut).to_vec();
        let line = ProbedPath { cuts, lost, delay: 30 * MS, seed };
        let changes = line.run(Timing::default(), 3_600 * second);
        let (at, up) = *changes.last().unwrap();
        prop_assert!(up, "{:?}", &changes);
        // It takes 80 s without a gap. Two rounds in a row are rarely lost.
        prop_assert!(at <= end + 800 * second, "{:?}", &changes);
    }

    /// A link that flaps is used less and less: within an hour it changes at most 20 times, in any
    /// rhythm.
    #[test]
    fn flapping_is_damped(cut in 2_500..20_000_u64, pause in 1_000..20_000_u64) {
        let hour = 3_600_000 * MS;
        let every = (cut + pause) * MS;
        let cuts = (0..hour / every).map(|n| (n * every, n * every + cut * MS)).collect();
        let line = ProbedPath { cuts, lost: 0, delay: 20 * MS, seed: 0 };
        let changes = line.run(Timing::default(), hour);
        prop_assert!(changes.len() <= 20, "{} changes", changes.len());
    }

    /// Gaps shorter than half the silence do not count, however frequent.
    #[test]
    fn short_gaps_are_no_failure(gap in 1..1_000_u64, pause in 1_500..9_000_u64) {
        let every = (gap + pause) * MS;
        let cuts = (1..200).map(|n| (n * every, n * every + gap * MS)).collect();
        let line = ProbedPath { cuts, lost: 0, delay: 30 * MS, seed: 0 };
        prop_assert_eq!(line.run(Timing::default(), 200 * every), []);
    }

    /// Any order of inputs is harmless, and repeated times change nothing.
    #[test]
    fn any_order_of_inputs_is_harmless(inputs in prop::collection::vec((0..7_u8, 0..5_000_u64), 0..200)) {
        let mut health = Health::new(Timing::default(), true, true, 0);
        let mut now = 0;
        for (kind, later) in inputs {
            now += later * MS;
            match kind {
                0 => health.ask(now),
                1 => health.answer(now),
                2 => health.carrier(now, false),
                3 => health.carrier(now, true),
                4 => health.probed(now, false),
                5 => health.probed(now, true),
                _ => health.at(now),
            }
            let same = health.clone();
            health.at(now);
            prop_assert_eq!(&health, &same);
            prop_assert!(health.next().is_none_or(|next| next > now || !health.is_up()));
        }
    }
}

#[test]
fn a_lost_carrier_needs_no_silence() {
    let mut health = Health::new(Timing::default(), true, true, 0);
    health.carrier(7, false);
    assert!(!health.is_up());
    health.carrier(8, true);
    health.answer(9);
    assert_eq!(health.next(), Some(9 + Span::from_secs(10).as_nanos()));
}

#[test]
fn without_hosts_the_carrier_decides() {
    let mut health = Health::new(Timing::default(), false, true, 0);
    for second in 0..100 {
        health.at(second * 1_000 * MS);
        assert!(health.is_up());
    }
    health.carrier(100_000 * MS, false);
    assert!(!health.is_up());
    health.carrier(101_000 * MS, true);
    health.at(110_999 * MS);
    assert!(!health.is_up());
    health.at(111_000 * MS);
    assert!(health.is_up());
}

/// Probes that this machine itself prevents are no silence of the link.
#[test]
fn while_hosts_cannot_be_probed_the_carrier_decides() {
    let mut health = Health::new(Timing::default(), true, true, 0);
    (1..=3).for_each(|round| health.ask(round * 500 * MS));
    health.probed(1_900 * MS, false);
    health.at(100_000 * MS);
    assert!(health.is_up() && !health.is_suspected());
    health.carrier(100_000 * MS, false);
    health.carrier(101_000 * MS, true);
    health.at(110_999 * MS);
    assert!(!health.is_up());
    health.at(111_000 * MS);
    assert!(health.is_up());
    // From now on silence counts.
    health.probed(200_000 * MS, true);
    (0..4).for_each(|round| health.ask(200_000 * MS + round * 500 * MS));
    assert!(health.is_up());
    health.at(202_000 * MS);
    assert!(!health.is_up());
}

#[test]
fn who_slept_has_not_asked() {
    let mut health = Health::new(Timing::default(), true, true, 0);
    health.ask(1);
    health.answer(2);
    // After a night.
    let night = 8 * 3_600_000 * MS;
    health.at(night);
    health.ask(night);
    health.ask(night + 500 * MS);
    assert!(health.is_up());
    health.ask(night + 1_000 * MS);
    assert_eq!(health.next(), Some(night + 1_500 * MS));
}
