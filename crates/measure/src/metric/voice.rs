// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a call is worth to its listeners, by the E-model.

use crate::emodel::{Codec, opinion, rating};
use crate::figures::Figures;
use crate::metric::flow::{datagrams_in, datagrams_of};
use crate::metric::gap::entry;
use crate::run::{Run, Subject};
use std::collections::BTreeMap;
use weirgate_experiment::{Quantity, Statistic, TrafficKind};
use weirgate_units::Span;

/// The length of the listener's de-jitter buffer: a datagram is played this long after the fastest
/// one would arrive. Y.1541 bounds the variation of class 0, for voice, by the same time, see
/// [`crate::y1541::CLASSES`]. So a network that keeps it loses at most one datagram in a thousand
/// here.
const BUFFER: Span = Span::from_millis(50);

/// What a listener hears.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Heard {
    /// The time from mouth to ear, in milliseconds.
    delay_ms: f64,
    /// The share of datagrams that were lost or too late.
    unplayed: f64,
    /// R.
    rating: f64,
}

/// Stores `rating`, `mos`, `playout` and `unplayed` of datagrams that are as long as voice.
pub(crate) fn figures(run: &Run, subject: &Subject, active: &[(u64, u64)], figures: &mut Figures) {
    let Some((codec, interval)) = codec(run, subject) else {
        return;
    };
    let listeners = subject.members.iter();
    let heard = listeners.map(|&member| heard(run, member, &codec, interval, active));
    // If a listener heard nothing, its delay is unknown, and the call has no figures.
    let Some(heard) = heard.collect::<Option<Vec<Heard>>>() else {
        return;
    };
    let worst = heard
        .into_iter()
        .min_by(|a, b| a.rating.total_cmp(&b.rating));
    let Some(worst) = worst else {
        return;
    };
    for (quantity, value) in [
        (Quantity::Rating, worst.rating),
        (Quantity::Opinion, opinion(worst.rating)),
        (Quantity::Playout, worst.delay_ms),
        (Quantity::Unplayed, worst.unplayed),
    ] {
        figures.put(quantity, &subject.name, Statistic::Only, Some(value));
    }
}

fn codec(run: &Run, subject: &Subject) -> Option<(Codec, Span)> {
    let entry = entry(run, subject)?;
    match entry.kind {
        TrafficKind::Udp {
            interval, packet, ..
        }
        | TrafficKind::Voice { interval, packet } => {
            let codec = Codec::of_stream(interval, packet, entry.ipv6)?;
            Some((codec, interval))
        }
        _ => None,
    }
}

/// Returns what the listener of one flow hears; `None` if no datagram arrived.
fn heard(
    run: &Run,
    member: usize,
    codec: &Codec,
    interval: Span,
    active: &[(u64, u64)],
) -> Option<Heard> {
    let mut transits: Vec<u64> = Vec::new();
    for &stretch in active {
        // Of a datagram that arrives twice, the first copy is played.
        let mut first: BTreeMap<u32, u64> = BTreeMap::new();
        for record in datagrams_in(run, member, stretch) {
            if let (Some(number), Some(transit)) = (record.datagram, record.transit_ns) {
                first.entry(number).or_insert(transit);
            }
        }
        transits.extend(first.into_values());
    }
    let fastest = *transits.iter().min()?;
    let deadline = fastest.saturating_add(BUFFER.as_nanos());
    let played = transits
        .iter()
        .filter(|&&transit| transit <= deadline)
        .count();
    let sent = datagrams_of(run, &[member], Some(interval.as_nanos()), active).expected;
    let unplayed = 1.0 - played as f64 / sent as f64;
    let delay_ms = codec.coding_ms + (interval.as_nanos() as f64 + deadline as f64) / 1e6;
    Some(Heard {
        delay_ms,
        unplayed,
        rating: rating(codec, delay_ms, unplayed),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emodel::{G711, G729A};
    use crate::sample::{self, MS};
    use crate::{ArmFigures, measure, y1541};
    use proptest::prelude::*;
    use weirgate_experiment::{Delivered, Experiment, Node, Recording};

    /// Returns a call of ten seconds of `packet` bytes each 20 ms, both ways.
    fn call(packet: u16) -> (Experiment, Recording) {
        let mut experiment = sample::experiment(&[("a", 0, 10)]);
        let kind = TrafficKind::Voice {
            interval: Span::from_millis(20),
            packet,
        };
        let mut call = sample::tcp("call", Node::Host(1), Node::Server(1), &[(0, 10)]);
        call.kind = kind;
        experiment.traffic = vec![call];
        (
            experiment,
            sample::recording(10, &[("call", 0), ("call", 1)]),
        )
    }

    /// Adds a datagram to one direction, with its time on the way.
    fn arrive(recording: &mut Recording, flow: u16, number: u32, transit_ms: u64) {
        recording.delivered.push(Delivered {
            flow,
            at_ns: (u64::from(number) * 20 + transit_ms) * MS,
            bytes: 172,
            datagram: Some(number),
            transit_ns: Some(transit_ms * MS),
        });
    }

    fn measured(experiment: &Experiment, recording: &mut Recording) -> ArmFigures {
        recording.delivered.sort_by_key(|record| record.at_ns);
        measure(experiment, recording).unwrap()
    }

    #[track_caller]
    fn are(figures: &ArmFigures, expected: [(&str, f64); 4]) {
        for (word, value) in expected {
            let name = format!("a.{word}");
            let figure = figures.metrics.get(&name).copied();
            let near = figure.is_some_and(|figure| (figure - value).abs() < 5e-4);
            assert!(near, "{name} is {figure:?}, not {value}");
        }
    }

    #[test]
    fn the_buffer_holds_what_class_0_may_vary() {
        let ms = BUFFER.as_nanos() as f64 / 1e6;
        assert_eq!(y1541::CLASSES[0].variation_ms, Some(ms));
    }

    #[test]
    fn a_call_is_rated_by_its_worse_direction() {
        let (experiment, mut recording) = call(200);
        for number in 0..480 {
            arrive(&mut recording, 0, number, 10 + u64::from(number % 2) * 50);
            // Every 100th is a millisecond too late, and every other 100th is lost.
            match number % 100 {
                7 => arrive(&mut recording, 1, number, 181),
                57 => {}
                _ => arrive(&mut recording, 1, number, 130),
            }
        }
        let figures = measured(&experiment, &mut recording);
        let r = rating(&G711, 200.125, 10.0 / 480.0);
        are(
            &figures,
            [
                ("playout.call.ms", 20.0 + 0.125 + 130.0 + 50.0),
                ("unplayed.call.ratio", 10.0 / 480.0),
                ("rating.call.r", r),
                ("mos.call.score", opinion(r)),
            ],
        );
        assert!((82.0..84.0).contains(&r), "{r}");
    }

    #[test]
    fn a_call_without_loss_and_queue_is_as_good_as_can_be() {
        for (packet, codec, delay_ms) in [(200, G711, 20.125), (60, G729A, 35.0)] {
            let (experiment, mut recording) = call(packet);
            for number in 0..480 {
                for flow in [0, 1] {
                    arrive(&mut recording, flow, number, 10);
                    // The second copy is not heard.
                    arrive(&mut recording, flow, number, 700);
                }
            }
            let figures = measured(&experiment, &mut recording);
            let best = rating(&codec, 0.0, 0.0);
            are(
                &figures,
                [
                    ("playout.call.ms", delay_ms + 60.0),
                    ("unplayed.call.ratio", 0.0),
                    ("rating.call.r", best),
                    ("mos.call.score", opinion(best)),
                ],
            );
        }
    }

    #[test]
    fn what_is_no_voice_or_not_heard_has_no_rating() {
        let (experiment, mut recording) = call(1500);
        let (voice, _) = call(200);
        arrive(&mut recording, 0, 1, 10);
        arrive(&mut recording, 1, 1, 10);
        let none = measured(&experiment, &mut recording);
        assert_eq!(none.metrics.get("a.rating.call.r"), None);
        assert!(
            measured(&voice, &mut recording)
                .metrics
                .contains_key("a.rating.call.r")
        );
        // One direction arrives, the other does not.
        recording.delivered.retain(|record| record.flow == 0);
        let half = measured(&voice, &mut recording);
        assert_eq!(half.metrics.get("a.rating.call.r"), None);
        assert!(half.metrics.contains_key("a.loss.call.ratio"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_lost_or_slower_datagram_never_improves_a_call(
            transits in prop::collection::vec(0u64..300, 3..200),
            chosen in 0usize..200,
            more in 0u64..500,
        ) {
            let rated = |transits: &[Option<u64>]| {
                let (experiment, mut recording) = call(200);
                for (number, transit) in transits.iter().enumerate() {
                    for flow in [0, 1] {
                        if let Some(ms) = transit {
                            arrive(&mut recording, flow, number as u32, *ms);
                        }
                    }
                }
                measured(&experiment, &mut recording).metrics["a.rating.call.r"]
            };
            // One comes before them, and others follow to the end: numbers show how many were sent.
            let chosen = 1 + chosen % transits.len();
            let mut all = vec![Some(0)];
            all.extend(transits.into_iter().map(Some));
            all.resize(480, Some(0));
            let before = rated(&all);
            prop_assert!((0.0..=93.206).contains(&before));
            all[chosen] = all[chosen].map(|ms| ms + more);
            prop_assert!(rated(&all) <= before);
            all[chosen] = None;
            prop_assert!(rated(&all) <= before);
        }
    }
}
