// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result of a survey.

use std::collections::BTreeMap;
use std::time::Duration;
use weirgate_bpf::{SurveyCount, SurveyDirection, SurveyService};
use weirgate_linklayer::LinkLayer;
use weirgate_units::Rate;

/// The counts of a survey.
pub struct Seen {
    pub device: String,
    pub time: Duration,
    pub rate: Option<Rate>,
    pub link: Option<LinkLayer>,
    /// The arriving packets, then the leaving packets.
    pub directions: [SurveyDirection; 2],
    pub protocols: BTreeMap<SurveyService, SurveyCount>,
    pub services: BTreeMap<SurveyService, SurveyCount>,
    /// The counts of every second.
    pub seconds: Vec<Second>,
}

/// The bytes between two readings, arriving and leaving.
pub struct Second {
    pub bytes: [u64; 2],
    /// The bytes on the wire.
    pub wire: [u64; 2],
    pub time: Duration,
}

impl Second {
    /// Returns the rate in bits per second. It uses the exact time, because a reading may be late.
    pub fn rate(&self, bytes: [u64; 2], direction: usize) -> u64 {
        (bytes[direction] as f64 * 8.0 / self.time.as_secs_f64().max(1e-3)) as u64
    }
}
