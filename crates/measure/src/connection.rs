// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Times of short connections and of requests.

use crate::figures::Figures;
use crate::run::{Run, Subject};
use crate::stats::Sorted;
use crate::window::{SECOND, Window};
use weirgate_experiment::{Connection, Quantity, Statistic};

/// `connect` and `response` of one subject.
pub(crate) fn figures(run: &Run, subject: &Subject, window: &Window, figures: &mut Figures) {
    let own = || {
        run.recording
            .connections
            .iter()
            .filter(|connection| subject.members.contains(&usize::from(connection.flow)))
            .filter(|connection| window.contains(connection.start_ns))
    };
    let mut put = |quantity, end: fn(&Connection) -> Option<u64>| {
        let times = own()
            .filter_map(|c| Some(end(c)?.saturating_sub(c.start_ns)))
            .collect();
        let times = Sorted::new(times);
        let seconds = |ns: f64| ns / SECOND as f64;
        figures.put(
            quantity,
            &subject.name,
            Statistic::Mean,
            times.mean().map(seconds),
        );
        let p95 = times.per_mille(950).map(|ns| seconds(ns as f64));
        figures.put(quantity, &subject.name, Statistic::P95, p95);
    };
    put(Quantity::Connect, |connection| connection.connected_ns);
    put(Quantity::Response, |connection| connection.finished_ns);
}
