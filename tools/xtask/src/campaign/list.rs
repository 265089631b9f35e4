// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The campaign in `campaign.toml`: lines, loads, arms, and their combinations.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The whole campaign.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Campaign {
    groups: BTreeMap<String, Vec<String>>,
    #[serde(rename = "line")]
    pub lines: Vec<CampaignLine>,
    #[serde(rename = "load")]
    loads: Vec<Load>,
    #[serde(rename = "arm")]
    pub arms: Vec<Arm>,
    #[serde(rename = "run")]
    runs: Vec<Entry>,
}

/// A line. Rates are in kbit/s on the wire, times in seconds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CampaignLine {
    pub name: String,
    pub about: String,
    pub up: u64,
    /// The initial downstream rate.
    pub down: u64,
    pub framing: String,
    pub overhead: u32,
    pub mpu: u32,
    /// The link layer for weirgate and for cake.
    pub layer: String,
    pub cake: String,
    /// The wire bytes of a full packet with 1448 bytes of payload.
    pub packet: f64,
    /// The size of the far end's queue.
    pub buffer: String,
    pub from: u64,
    pub until: u64,
    /// Other downstream rates, each with its start.
    #[serde(default)]
    pub then: Vec<(u64, u64)>,
}

/// The traffic on a line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Load {
    pub name: String,
    pub about: String,
    /// Milliseconds.
    pub round_trip: u64,
    pub downloads: u64,
    pub congestion: String,
    pub beside: Vec<Beside>,
}

/// Traffic in addition to the downloads of a load.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Beside {
    Web,
    Upload,
    Voice,
    /// Datagrams at 1.25 times the line's rate, from an unresponsive sender.
    Flood,
    /// Datagrams at half the line's rate.
    Stream,
}

/// The control of the line: weirgate if `inbound` is set, otherwise nothing or a rival.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    pub name: String,
    pub inbound: Option<String>,
    #[serde(default)]
    pub margin: String,
    pub receive: Option<String>,
    #[serde(default)]
    pub bucket: bool,
    #[serde(default)]
    pub track: bool,
    pub cake: Option<Cake>,
    pub htb: Option<Htb>,
}

/// Cake on the LAN device, at a percentage of the line's rate.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cake {
    pub percent: u64,
    pub mode: String,
}

/// HTB with one class on both devices, at a percentage of the line's rate.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Htb {
    pub percent: u64,
}

/// A combination as written, by names.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    line: String,
    load: String,
    arms: Vec<String>,
}

/// A line and a load with their arms.
#[derive(Debug)]
pub struct Runs<'c> {
    pub line: &'c CampaignLine,
    pub load: &'c Load,
    pub arms: Vec<&'c Arm>,
}

impl Campaign {
    /// Reads the campaign of this workspace.
    pub fn read(root: &Path) -> Result<Self> {
        let path = root.join("tools/xtask/campaign.toml");
        let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{}", path.display()))
    }

    /// Makes a campaign from rows, each with every arm.
    pub fn of(rows: Vec<(CampaignLine, Load)>, arms: Vec<Arm>) -> Self {
        let entry = |(line, load): &(CampaignLine, Load)| Entry {
            line: line.name.clone(),
            load: load.name.clone(),
            arms: arms.iter().map(|arm| arm.name.clone()).collect(),
        };
        let runs = rows.iter().map(entry).collect();
        let (lines, loads) = rows.into_iter().unzip();
        Self {
            groups: BTreeMap::new(),
            lines,
            loads,
            arms,
            runs,
        }
    }

    /// Returns all runs, with names resolved.
    pub fn runs(&self) -> Result<Vec<Runs<'_>>> {
        let all = self.runs.iter().map(|entry| {
            let line = self.lines.iter().find(|line| line.name == entry.line);
            let load = self.loads.iter().find(|load| load.name == entry.load);
            let names = entry
                .arms
                .iter()
                .flat_map(|name| match self.groups.get(name) {
                    Some(group) => group.as_slice(),
                    None => std::slice::from_ref(name),
                });
            let arms = names.map(|name| {
                let arm = self.arms.iter().find(|arm| arm.name == *name);
                arm.with_context(|| format!("there is no arm {name}"))
            });
            Ok(Runs {
                line: line.with_context(|| format!("there is no line {}", entry.line))?,
                load: load.with_context(|| format!("there is no load {}", entry.load))?,
                arms: arms.collect::<Result<_>>()?,
            })
        });
        all.collect()
    }
}

impl Beside {
    /// Returns a description, which continues a list.
    pub fn words(self) -> &'static str {
        match self {
            Self::Web => ", and short flows",
            Self::Upload => ", and an upload",
            Self::Voice => ", and a call",
            Self::Flood => ", and datagrams at 1.25 times the line",
            Self::Stream => ", and datagrams at half the line",
        }
    }
}

impl CampaignLine {
    /// Returns the mean payload rate of TCP in kbit/s that the downstream can carry in the measured
    /// time, without other traffic.
    pub fn payload(&self) -> f64 {
        let rates = [(0, self.down)]
            .into_iter()
            .chain(self.then.iter().copied());
        let ends = self.then.iter().map(|next| next.0).chain([self.until]);
        let sum: u64 = rates
            .zip(ends)
            .map(|((at, rate), end)| end.min(self.until).saturating_sub(at.max(self.from)) * rate)
            .sum();
        sum as f64 / (self.until - self.from) as f64 * 1448.0 / self.packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn campaign() -> Campaign {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        Campaign::read(&root).expect("the campaign is right")
    }

    #[test]
    fn there_are_at_most_170_runs_and_every_name_is_one() {
        let campaign = campaign();
        let runs = campaign.runs().expect("all names are there");
        let all: usize = runs.iter().map(|runs| runs.arms.len()).sum();
        let name =
            |runs: &Runs, arm: &Arm| format!("{}-{}-{}", runs.line.name, runs.load.name, arm.name);
        let names: BTreeSet<String> = runs
            .iter()
            .flat_map(|runs| runs.arms.iter().map(move |arm| name(runs, arm)))
            .collect();
        assert_eq!(names.len(), all);
        assert!((100..=170).contains(&all), "{all}");
    }

    #[test]
    fn the_payload_of_a_line_that_steps_is_that_of_its_mean_rate() {
        let campaign = campaign();
        let step = &campaign.lines[2];
        // 4 to 10 s and 20 to 32 s at 8000 kbit/s, 10 s at 2000.
        let mean = (18.0 * 8_000.0 + 10.0 * 2_000.0) / 28.0;
        assert!((step.payload() - mean * 1_448.0 / 1_696.0).abs() < 0.1);
    }
}
