// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What must hold for every discipline, whatever comes.

use crate::support::{Chance, link};
use proptest::prelude::*;
use std::collections::BTreeSet;
use weirgate_aqm::{Discipline, Event, Link, Packet, Queue, Settings, SettingsError, What, replay};

/// Returns random parameters within their ranges, mostly defaults.
fn settings(discipline: Discipline, chance: &mut Chance) -> Settings {
    let mut settings = Settings::new(discipline);
    for row in discipline.params() {
        if chance.below(3) == 0 {
            // Draws small and large values alike: a range may span ten decades.
            let span = (row.most - row.least).max(1);
            let bits = u64::from(64 - span.leading_zeros());
            let size = chance.below(bits + 1).min(31);
            let value = row.least + chance.below(1 << size);
            settings
                .set(row.name, value.min(row.most))
                .expect("within its range");
        }
    }
    settings
}

fn events(chance: &mut Chance, count: u64) -> Vec<Event> {
    let mut now = 1 + chance.below(1 << 30);
    let scale = 1 << (10 + chance.below(17));
    let busy = 1 + chance.below(9);
    (0..count)
        .map(|_| {
            now += chance.below(scale);
            if chance.below(1_000) == 0 {
                now += chance.below(1 << 31) * 8;
            }
            if chance.below(10) < busy {
                let len = 40 + chance.below(1475) as u32;
                let packet = Packet {
                    arrived_ns: now,
                    len,
                    wire: len + 48,
                    flow: (chance.word() % 50).wrapping_mul(0x9e37_79b1),
                    ecn: chance.word() % 4,
                };
                Event::Arrival(packet, chance.word())
            } else {
                Event::Departure(now)
            }
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// No packet is lost, invented, sent twice or left behind, and the
    /// counters say the same.
    #[test]
    fn packets_are_conserved(seed: u64) {
        for discipline in Discipline::every() {
            let mut chance = Chance(seed);
            let settings = settings(discipline, &mut chance);
            let mut queue = Queue::new(&settings, &link(1 << (14 + chance.below(18))));
            let events = events(&mut chance, 3_000);
            let outcomes = replay(&mut queue, events.iter().copied());
            let arrivals = events.iter().filter(|event| matches!(event, Event::Arrival(..))).count();
            let mut inside = BTreeSet::new();
            for outcome in outcomes {
                match outcome.what {
                    What::Arrived(verdict) => {
                        if verdict.action != weirgate_aqm::Action::Drop {
                            prop_assert!(inside.insert(outcome.packet));
                        }
                    }
                    What::Evicted | What::Departed(_) => {
                        prop_assert!(inside.remove(&outcome.packet), "{:?}", discipline);
                    }
                }
            }
            prop_assert_eq!(queue.packets(), inside.len() as u64);
            prop_assert_eq!(queue.count("arrived_packets"), Some(arrivals as u64));
            let dropped: u64 = weirgate_aqm::reasons()
                .iter()
                .filter_map(|reason| queue.drops(reason.name))
                .sum();
            let sent = queue.count("sent_packets").expect("a counter");
            prop_assert_eq!(sent + dropped + inside.len() as u64, arrivals as u64);
            // A discipline must not hold packets for ever: all leave when asked often.
            let late = 1 << 50;
            for _ in 0..inside.len() {
                let departure = queue.depart(late);
                for (_, packet) in departure.dropped {
                    prop_assert!(inside.remove(&packet));
                }
                if let Some((_, _, packet)) = departure.sent {
                    prop_assert!(inside.remove(&packet));
                }
            }
            prop_assert!(inside.is_empty(), "{:?} keeps {:?}", discipline, inside);
            prop_assert_eq!((queue.packets(), queue.bytes()), (0, 0));
        }
    }

    /// The same numbers give the same verdicts and the same state, and two
    /// instances share nothing.
    #[test]
    fn a_replay_repeats(seed: u64) {
        for discipline in Discipline::every() {
            let mut chance = Chance(seed);
            let settings = settings(discipline, &mut chance);
            let events = events(&mut chance, 1_000);
            let mut one = Queue::new(&settings, &link(1_000_000));
            let mut two = Queue::new(&settings, &link(1_000_000));
            let mut both = (Vec::new(), Vec::new());
            // The second instance lags behind, so that shared state would show.
            let (early, late) = events.split_at(events.len() / 2);
            both.0.extend(replay(&mut one, early.iter().copied()));
            both.1.extend(replay(&mut two, early.iter().take(7).copied()));
            both.0.extend(replay(&mut one, late.iter().copied()));
            both.1.extend(replay(&mut two, early.iter().skip(7).chain(late).copied()));
            prop_assert_eq!(both.0, both.1);
            prop_assert_eq!(one.state(), two.state());
        }
    }

    /// Every discipline works on any link: with nothing known, and with the largest values.
    #[test]
    fn any_link_serves(rate: u64, mtu: u32, queue_packets: u32, room_packets: u32, seed: u64) {
        for discipline in Discipline::every() {
            let link = Link {
                rate_bytes_s: rate >> 24,
                mtu_bytes: mtu,
                queue_packets,
                room_packets,
                ..Link::default()
            };
            let mut queue = Queue::new(&Settings::new(discipline), &link);
            replay(&mut queue, events(&mut Chance(seed), 200));
        }
    }
}

/// Every table of parameters is complete, and its defaults are allowed.
#[test]
fn every_table_is_sound() {
    for discipline in Discipline::every() {
        let mut names = BTreeSet::new();
        for row in discipline.params() {
            assert!(names.insert(row.name), "{discipline:?}: {} twice", row.name);
            assert!(!row.help.is_empty() && !row.unit.is_empty(), "{}", row.name);
            let range = row.least..=row.most;
            assert!(range.contains(&row.default), "{discipline:?}: {}", row.name);
            let choices = row.unit.split('|').count() as u64;
            if choices > 1 {
                assert_eq!((row.least, row.most), (0, choices - 1), "{}", row.name);
            }
        }
        assert!(!discipline.summary().is_empty());
        for row in discipline.vars().iter().chain(&discipline.stats()) {
            assert!(!row.help.is_empty(), "{discipline:?}: {}", row.name);
        }
    }
}

#[test]
fn a_wrong_parameter_is_refused_with_what_would_be_right() {
    let codel = Discipline::named("codel").expect("codel");
    let unknown = Settings::new(codel)
        .with("targt_ns", 1)
        .expect_err("no such");
    assert!(
        unknown.to_string().contains("target_ns, interval_ns"),
        "{unknown}"
    );
    let range = Settings::new(codel)
        .with("target_ns", 1)
        .expect_err("too small");
    assert!(matches!(range, SettingsError::Range { least: 1024, .. }));
}

#[test]
fn drop_tail_takes_what_fits() {
    let settings = Settings::new(Discipline::named("droptail").expect("droptail"));
    let mut settings = settings.with("limit_packets", 3).expect("a parameter");
    let mut queue = Queue::new(&settings, &link(1_000_000));
    let come = |queue: &mut Queue<u8>, item| {
        queue
            .arrive(&crate::support::packet(1, 600), 0, item)
            .refused
    };
    assert_eq!(
        [1, 2, 3, 4].map(|item| come(&mut queue, item)),
        [None, None, None, Some(4)]
    );
    settings.set("limit_bytes", 1_799).expect("a parameter");
    queue.change(&settings, &link(1_000_000));
    queue.depart(2);
    assert_eq!(come(&mut queue, 5), Some(5));
    assert_eq!(queue.drops("limit"), Some(2));
    assert_eq!(queue.depart(3).sent.map(|sent| sent.2), Some(2));
}
