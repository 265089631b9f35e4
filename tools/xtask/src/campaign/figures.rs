// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run of the campaign and what its page shows of it.

use super::list::{CampaignLine, Load};
use serde_json::Value;

/// The figures of a run that the page shows.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// The probe's round trips, in milliseconds: mean, 95th and 99th percentile,
    /// longest.
    pub delay: [f64; 4],
    /// What TCP's receivers got downstream of what the line carries of payload,
    /// 1 for all of it. Datagrams that were asked for count in the run with an
    /// even stream of them.
    pub kept: f64,
    /// Mean completion of short flows, in seconds, where there are any.
    pub mice: Option<f64>,
}

/// One run of the list.
#[derive(Debug)]
pub struct Run<'c> {
    pub line: &'c CampaignLine,
    pub load: &'c Load,
    pub arm: &'c str,
    /// `None` where it was not made yet, or failed.
    pub figures: Option<Figures>,
}

impl Run<'_> {
    /// The name of its file, and of its experiment with the load's.
    pub fn name(&self) -> String {
        format!("{}-{}-{}", self.line.name, self.load.name, self.arm)
    }
}

/// What the page shows of the lab's figures; `None` where there are none.
pub fn figures(run: &Run<'_>, text: &str) -> Option<Figures> {
    let document: Value = serde_json::from_str(text).ok()?;
    let metrics = &document["arms"][run.arm]["metrics"];
    let number = |name: &str| metrics[format!("full.{name}")].as_f64();
    let delay =
        ["mean", "p95", "p99", "max"].map(|which| number(&format!("rtt.interactive.{which}_ms")));
    let [Some(mean), Some(late), Some(latest), Some(longest)] = delay else {
        return None;
    };
    let wanted = ["down", "stream"].map(|name| number(&format!("goodput.{name}.mean_kbit")));
    Some(Figures {
        delay: [mean, late, latest, longest],
        kept: wanted.iter().flatten().sum::<f64>() / run.line.payload(),
        mice: number("response.mice.mean_s"),
    })
}
