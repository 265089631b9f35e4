// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures of sampled queues, and of sojourn times in the gateway.

use crate::figures::Figures;
use crate::metric::line::{Level, put_levels};
use crate::run::Run;
use crate::stats::Sorted;
use crate::window::Window;
use weirgate_experiment::{Direction, Quantity, QueueSample, Recording, Sojourn, Statistic};

/// Stores `queue`, `drops`, `sent` and `marks` of sampled places, and `sojourn` of classes.
pub(crate) fn figures(run: &Run, window: &Window, figures: &mut Figures) {
    for place in 0..run.recording.places.len() {
        let samples = samples(run.recording, place);
        let covered = samples
            .first()
            .is_some_and(|first| first.at_ns < window.end_ns)
            && samples
                .last()
                .is_some_and(|last| last.at_ns >= window.start_ns);
        if !covered {
            continue;
        }
        let name = place_name(&run.recording.places[place]);
        let levels: Vec<Level> = samples
            .iter()
            .map(|s| Level {
                from_ns: s.at_ns,
                bytes: u64::from(s.backlog_bytes),
            })
            .collect();
        put_levels(&levels, window, &name, figures);
        let drops = counted(&samples, window, |sample| sample.drops);
        figures.put(Quantity::Drops, &name, Statistic::Only, drops);
        let sent = counted(&samples, window, |sample| sample.packets);
        figures.put(Quantity::Sent, &name, Statistic::Only, sent);
        let marks = counted(&samples, window, |sample| sample.marks);
        figures.put(Quantity::Marks, &name, Statistic::Only, marks);
    }
    for class in 0..run.recording.classes.len() {
        sojourn(run.recording, class, window, figures);
    }
}

/// Returns the samples of a place in order of time.
pub(crate) fn samples(recording: &Recording, place: usize) -> Vec<&QueueSample> {
    recording
        .queues
        .iter()
        .filter(|sample| usize::from(sample.place) == place)
        .collect()
}

/// Converts a place's name to a metric's subject: without spaces and dots.
pub(crate) fn place_name(place: &str) -> String {
    let parts: Vec<&str> = place
        .split([' ', '.'])
        .filter(|part| !part.is_empty())
        .collect();
    parts.join("-")
}

/// Returns how much a counter rose in a window: from the last sample at or before its start to the
/// last one before its end. A whole run counts from 0. A counter that went back is of a new queue,
/// which counts from 0; what the former one counted after its last sample is not known.
fn counted(
    samples: &[&QueueSample],
    window: &Window,
    counter: impl Fn(&QueueSample) -> u64,
) -> Option<f64> {
    let before = samples.partition_point(|sample| sample.at_ns <= window.start_ns);
    let first = window.phase.map_or(0, |_| before.saturating_sub(1));
    let inside = samples.iter().skip(first);
    let inside = inside.filter(|sample| sample.at_ns < window.end_ns);
    let values: Vec<u64> = inside.map(|sample| counter(sample)).collect();
    let from = match (window.phase, before) {
        (None, _) => 0,
        (Some(_), 0) => *values.first()?,
        (Some(_), before) => counter(samples[before - 1]),
    };
    let mut last = from;
    let mut rise = 0_u64;
    for value in &values {
        let more = value.checked_sub(last).unwrap_or(*value);
        rise = more.saturating_add(rise);
        last = *value;
    }
    (!values.is_empty()).then_some(rise as f64)
}

fn sojourn(recording: &Recording, class: usize, window: &Window, figures: &mut Figures) {
    let own: Vec<&Sojourn> = recording
        .sojourns
        .iter()
        .filter(|sojourn| usize::from(sojourn.class) == class && window.contains(sojourn.at_ns))
        .collect();
    let mut put = |name: &str, direction: Option<Direction>| {
        let matches = |sojourn: &&&Sojourn| direction.is_none_or(|d| sojourn.direction == d);
        let waits = own
            .iter()
            .filter(matches)
            .map(|sojourn| sojourn.wait_ns)
            .collect();
        let waits = Sorted::new(waits);
        let ms = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e6);
        figures.put(
            Quantity::Sojourn,
            name,
            Statistic::Mean,
            waits.mean().map(|ns| ns / 1e6),
        );
        figures.put(
            Quantity::Sojourn,
            name,
            Statistic::P99,
            ms(waits.per_mille(990)),
        );
        figures.put(Quantity::Sojourn, name, Statistic::Max, ms(waits.max()));
    };
    let name = &recording.classes[class];
    put(name, None);
    put(&format!("{name}-up"), Some(Direction::Up));
    put(&format!("{name}-down"), Some(Direction::Down));
}
