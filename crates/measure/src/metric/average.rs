// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sampled averages on which disciplines of the kit base their decisions.

use crate::figures::Figures;
use crate::metric::queue::place_name;
use crate::run::Run;
use crate::stats::Sorted;
use crate::window::Window;
use weirgate_experiment::{Quantity, Statistic};

/// Stores `average` of every place in the window.
pub(crate) fn figures(run: &Run, window: &Window, figures: &mut Figures) {
    for (place, name) in run.recording.places.iter().enumerate() {
        let own = run.recording.averages.iter();
        let own = own.filter(|one| usize::from(one.place) == place);
        let values = own.filter(|one| window.contains(one.at_ns));
        let values = Sorted::new(values.map(|one| one.value).collect());
        let name = place_name(name);
        let mut put = |statistic, value: Option<f64>| {
            figures.put(Quantity::Average, &name, statistic, value);
        };
        put(Statistic::Mean, values.mean());
        put(Statistic::Min, values.min().map(|bytes| bytes as f64));
        put(
            Statistic::P50,
            values.per_mille(500).map(|bytes| bytes as f64),
        );
        put(Statistic::Max, values.max().map(|bytes| bytes as f64));
    }
}
