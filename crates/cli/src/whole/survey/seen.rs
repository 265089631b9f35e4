// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a survey saw.

use std::collections::BTreeMap;
use std::time::Duration;
use weirgate_bpf::{SurveyCount, SurveyDirection, SurveyService};
use weirgate_linklayer::LinkLayer;
use weirgate_units::Rate;

/// What was seen.
pub struct Seen {
    pub device: String,
    pub time: Duration,
    pub rate: Option<Rate>,
    pub link: Option<LinkLayer>,
    /// What arrived, and what left.
    pub directions: [SurveyDirection; 2],
    pub protocols: BTreeMap<SurveyService, SurveyCount>,
    pub services: BTreeMap<SurveyService, SurveyCount>,
    /// Every second.
    pub seconds: Vec<Second>,
}

/// What passed from one look to the next, arriving and leaving.
pub struct Second {
    pub bytes: [u64; 2],
    /// The same on the wire.
    pub wire: [u64; 2],
    pub time: Duration,
}

impl Second {
    /// Bits by the second: a look may come late.
    pub fn rate(&self, bytes: [u64; 2], direction: usize) -> u64 {
        (bytes[direction] as f64 * 8.0 / self.time.as_secs_f64().max(1e-3)) as u64
    }
}
