// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines and loads that a seed draws from ranges, so that `inbound = "auto"` is not tuned to the
//! rows of a list.

use super::list::{Arm, Beside, Cake, Campaign, CampaignLine, Load};
use anyhow::{Context, Result};
use serde::Deserialize;
use std::fs;
use std::path::Path;

/// The ranges in `drawn.toml`. A range has its minimum and its maximum.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ranges {
    /// The ranges in words, for the page.
    pub about: String,
    buffer_ms: (f64, f64),
    round_trip_ms: (f64, f64),
    downloads: Vec<u64>,
    congestion: Vec<String>,
    beside: Vec<(Beside, u64)>,
    cakes: Vec<u64>,
    kind: Vec<Kind>,
}

/// A kind of line, with its ranges.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    name: String,
    framing: String,
    overhead: u32,
    mpu: u32,
    layer: String,
    cake: String,
    /// The wire bytes of a full packet, whose payload is 1448 bytes.
    packet: f64,
    /// The downstream rate in kbit/s.
    down: (f64, f64),
    /// The ratio of the downstream to the upstream rate.
    ratio: (f64, f64),
}

/// The name of weirgate's arm, which uses a policy's default.
pub const OURS: &str = "auto";

/// SplitMix64 (Steele, Lea and Flood 2014).
struct Draw(u64);

impl Draw {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let once = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let twice = (once ^ once >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        twice ^ twice >> 31
    }

    /// Draws from a range with a log-uniform distribution.
    fn of(&mut self, (least, most): (f64, f64)) -> f64 {
        let part = (self.word() >> 11) as f64 / (1_u64 << 53) as f64;
        least * (most / least).powf(part)
    }

    fn one<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let at = self.word() % all.len() as u64;
        &all[at as usize]
    }

    /// Returns true with a probability of one in `times`.
    fn once_in(&mut self, times: u64) -> bool {
        self.word().is_multiple_of(times)
    }
}

impl Ranges {
    /// Reads the ranges of this workspace.
    pub fn read(root: &Path) -> Result<Self> {
        let path = root.join("tools/xtask/drawn.toml");
        let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{}", path.display()))
    }

    /// Returns `rows` rows of this seed, each with our arm and cake's.
    pub fn campaign(&self, seed: u64, rows: u64) -> Campaign {
        let cake = |percent: &u64| Arm {
            name: format!("cake-{percent}"),
            cake: Some(Cake {
                percent: *percent,
                mode: "ingress".to_owned(),
            }),
            ..Arm::default()
        };
        let ours = Arm {
            name: OURS.to_owned(),
            inbound: Some("auto".to_owned()),
            ..Arm::default()
        };
        let cakes = self.cakes.iter().map(cake);
        let arms = [ours].into_iter().chain(cakes).collect();
        Campaign::of((0..rows).map(|row| self.drawn(seed, row)).collect(), arms)
    }

    /// Returns a row, which does not depend on how many are drawn.
    fn drawn(&self, seed: u64, row: u64) -> (CampaignLine, Load) {
        let mut draw = Draw(seed.wrapping_mul(1_000_003).wrapping_add(row));
        let kind = draw.one(&self.kind);
        // Two significant digits are enough.
        let rate = |kbit: f64| {
            let step = 10_f64.powf(kbit.log10().floor() - 1.0);
            ((kbit / step).round() * step) as u64
        };
        let down = rate(draw.of(kind.down));
        let up = rate(down as f64 / draw.of(kind.ratio));
        let buffer = (down as f64 / 8.0 * draw.of(self.buffer_ms) / 1000.0).round();
        let name = format!("seed-{seed}-row-{}", row + 1);
        let downloads = *draw.one(&self.downloads);
        let congestion = draw.one(&self.congestion);
        let round_trip = draw.of(self.round_trip_ms).round() as u64;
        let beside: Vec<Beside> = self
            .beside
            .iter()
            .filter_map(|(beside, times)| draw.once_in(*times).then_some(*beside))
            .collect();
        let also: String = beside.iter().map(|one| one.words()).collect();
        let about = match downloads {
            1 => format!("1 download, {congestion}, {round_trip} ms{also}"),
            _ => format!("{downloads} downloads, {congestion}, {round_trip} ms{also}"),
        };
        let line = CampaignLine {
            name,
            about: format!("{}, {down}/{up} kbit/s, a queue of {buffer} kB", kind.name),
            up,
            down,
            framing: kind.framing.clone(),
            overhead: kind.overhead,
            mpu: kind.mpu,
            layer: kind.layer.clone(),
            cake: kind.cake.clone(),
            packet: kind.packet,
            buffer: format!("{buffer}kB"),
            from: 4,
            until: 16,
            then: Vec::new(),
        };
        let load = Load {
            name: format!("load-{}", row + 1),
            about,
            round_trip,
            downloads,
            congestion: congestion.clone(),
            beside,
        };
        (line, load)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges() -> Ranges {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        Ranges::read(&root).expect("the ranges are right")
    }

    #[test]
    fn a_row_does_not_depend_on_how_many_are_drawn() {
        let about = |rows| {
            let campaign = ranges().campaign(7, rows);
            let runs = campaign.runs().expect("all names are there");
            let about = |runs: &super::super::list::Runs<'_>| {
                format!("{}: {}", runs.line.about, runs.load.about)
            };
            runs.iter().map(about).collect::<Vec<_>>()
        };
        assert_eq!(about(3), about(30)[..3]);
        assert_ne!(about(3)[0], about(3)[1]);
    }

    #[test]
    fn rows_are_within_the_ranges() {
        let ranges = ranges();
        for row in 0..200 {
            let (line, load) = ranges.drawn(1, row);
            assert!((2_000..=150_000).contains(&line.down), "{line:?}");
            assert!(line.up >= 150 && line.up <= line.down, "{line:?}");
            assert!((8..=80).contains(&load.round_trip), "{load:?}");
        }
    }
}
