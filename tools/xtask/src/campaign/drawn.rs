// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines and loads that nobody chose: drawn from ranges by a seed, so that what
//! `inbound = "auto"` does is not tuned to the rows of a list.

use super::list::{Arm, Beside, Cake, Campaign, CampaignLine, Load};
use std::ops::RangeInclusive;

/// A kind of line, and what is drawn of it.
struct Kind {
    name: &'static str,
    framing: &'static str,
    overhead: u32,
    mpu: u32,
    layer: &'static str,
    cake: &'static str,
    /// Bytes on the wire of a full packet, which has 1448 of payload.
    packet: f64,
    /// Kilobits a second downstream.
    down: RangeInclusive<f64>,
    /// How many times faster that is than upstream.
    ratio: RangeInclusive<f64>,
}

const KINDS: [Kind; 4] = [
    Kind {
        name: "ADSL",
        framing: "atm",
        overhead: 28,
        mpu: 0,
        layer: "adsl:bridged-vc-fcs",
        cake: "atm overhead 28",
        packet: 1696.0,
        down: 2_000.0..=16_000.0,
        ratio: 4.0..=12.0,
    },
    Kind {
        name: "VDSL2 with PPPoE",
        framing: "ptm",
        overhead: 30,
        mpu: 68,
        layer: "vdsl2:pppoe",
        cake: "ptm overhead 30 mpu 68",
        packet: 1554.0,
        down: 15_000.0..=100_000.0,
        ratio: 3.0..=10.0,
    },
    Kind {
        name: "cable",
        framing: "none",
        overhead: 18,
        mpu: 64,
        layer: "docsis",
        cake: "overhead 18 mpu 64",
        packet: 1518.0,
        down: 30_000.0..=150_000.0,
        ratio: 5.0..=20.0,
    },
    Kind {
        name: "fibre",
        framing: "none",
        overhead: 38,
        mpu: 84,
        layer: "ethernet",
        cake: "overhead 38 mpu 84",
        packet: 1538.0,
        down: 50_000.0..=150_000.0,
        ratio: 1.0..=10.0,
    },
];

/// Milliseconds of the far end's queue, and of a round trip.
const BUFFER_MS: RangeInclusive<f64> = 50.0..=300.0;
const ROUND_TRIP_MS: RangeInclusive<f64> = 8.0..=80.0;

const DOWNLOADS: [u64; 6] = [1, 2, 4, 8, 16, 32];
const CONGESTION: [&str; 3] = ["cubic", "reno", "bbr"];

/// The ranges in words, for the page.
pub const RANGES: &str = "- ADSL of 2 to 16 Mbit/s, VDSL2 with PPPoE of 15 to 100, cable of 30 \
    to 150, or fibre of 50 to 150. A rate is as likely as one twice as high.\n\
    - Upstream a quarter to a twelfth of it on ADSL, a third to a tenth on VDSL2, a fifth to a \
    twentieth on cable, and all to a tenth of it on fibre.\n\
    - A queue of 50 to 300 ms at the far end, and a round trip of 8 to 80 ms.\n\
    - 1, 2, 4, 8, 16 or 32 downloads with CUBIC, Reno or BBR.\n\
    - Short flows beside them in half of the rows, an upload in a third, and a call in a third.\n";

/// The arm of weirgate's, as a policy has it that says nothing of it.
pub const OURS: &str = "auto";

/// Parts of the line's rate at which cake is run, in percent.
const CAKES: [u64; 5] = [85, 90, 95, 97, 99];

/// SplitMix64 (Steele, Lea and Flood 2014).
struct Draw(u64);

impl Draw {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let once = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let twice = (once ^ once >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        twice ^ twice >> 31
    }

    /// Of a range, where a number is as likely as one twice as high.
    fn of(&mut self, range: &RangeInclusive<f64>) -> f64 {
        let part = (self.word() >> 11) as f64 / (1_u64 << 53) as f64;
        range.start() * (range.end() / range.start()).powf(part)
    }

    fn one<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let at = self.word() % all.len() as u64;
        &all[at as usize]
    }

    /// True once in so many times.
    fn once_in(&mut self, times: u64) -> bool {
        self.word().is_multiple_of(times)
    }
}

/// So many rows of this seed, each with our arm and cake's.
pub fn campaign(seed: u64, rows: u64) -> Campaign {
    let cake = |percent| Arm {
        name: format!("cake-{percent}"),
        cake: Some(Cake {
            percent,
            mode: "ingress".to_owned(),
        }),
        ..Arm::default()
    };
    let ours = Arm {
        name: OURS.to_owned(),
        inbound: Some("auto".to_owned()),
        ..Arm::default()
    };
    let arms = [ours].into_iter().chain(CAKES.map(cake)).collect();
    Campaign::of((0..rows).map(|row| drawn(seed, row)).collect(), arms)
}

/// A row; a later one is the same however many are drawn.
fn drawn(seed: u64, row: u64) -> (CampaignLine, Load) {
    let mut draw = Draw(seed.wrapping_mul(1_000_003).wrapping_add(row));
    let kind = draw.one(&KINDS);
    // Two digits are enough for anybody.
    let rate = |kbit: f64| {
        let step = 10_f64.powf(kbit.log10().floor() - 1.0);
        ((kbit / step).round() * step) as u64
    };
    let down = rate(draw.of(&kind.down));
    let up = rate(down as f64 / draw.of(&kind.ratio));
    let buffer = (down as f64 / 8.0 * draw.of(&BUFFER_MS) / 1000.0).round();
    let name = format!("seed-{seed}-row-{}", row + 1);
    let downloads = *draw.one(&DOWNLOADS);
    let congestion = *draw.one(&CONGESTION);
    let round_trip = draw.of(&ROUND_TRIP_MS).round() as u64;
    let beside: Vec<Beside> = [(Beside::Web, 2), (Beside::Upload, 3), (Beside::Voice, 3)]
        .into_iter()
        .filter_map(|(beside, times)| draw.once_in(times).then_some(beside))
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
        framing: kind.framing.to_owned(),
        overhead: kind.overhead,
        mpu: kind.mpu,
        layer: kind.layer.to_owned(),
        cake: kind.cake.to_owned(),
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
        congestion: congestion.to_owned(),
        beside,
    };
    (line, load)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_does_not_depend_on_how_many_are_drawn() {
        let about = |rows| {
            let campaign = campaign(7, rows);
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
        for row in 0..200 {
            let (line, load) = drawn(1, row);
            assert!((2_000..=150_000).contains(&line.down), "{line:?}");
            assert!(line.up >= 150 && line.up <= line.down, "{line:?}");
            assert!((8..=80).contains(&load.round_trip), "{load:?}");
        }
    }
}
