// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run of the campaign, and its figures on the page.

use super::list::{CampaignLine, Load};
use serde_json::Value;

/// The figures of a run on the page.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// The probe's round trips in milliseconds: mean, 95th and 99th percentile, maximum.
    pub delay: [f64; 4],
    /// The goodput of TCP's receivers downstream, relative to the payload that the line can carry.
    /// In the run with a constant stream of requested datagrams, these are included.
    pub kept: f64,
    /// The mean completion time of short flows in seconds, if there are any.
    pub mice: Option<f64>,
}

/// One run of the list.
#[derive(Debug)]
pub struct Run<'c> {
    pub line: &'c CampaignLine,
    pub load: &'c Load,
    pub arm: &'c str,
    /// `None` if the run is missing or failed.
    pub figures: Option<Figures>,
}

impl Run<'_> {
    /// Returns the name of the run's file, from the names of line, load and arm.
    pub fn name(&self) -> String {
        format!("{}-{}-{}", self.line.name, self.load.name, self.arm)
    }
}

/// Returns the page's figures from the lab's; `None` if there are none.
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
