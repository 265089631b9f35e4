// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Link layers inferred from packet times, with and without noise.

use proptest::prelude::*;
use weirgate_linklayer::{Framing, LinkLayer};
use weirgate_probe::{Arrival, Cut, Inference, Timed, Timing, infer, seen, sizes};

/// Steele's splitmix64, as a deviation between -1 and 1 of variance 1/3.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / f64::from(1 << 26) / f64::from(1 << 26) - 1.0
    }
}

/// Returns the times of a busy link, each off by at most `error` seconds.
fn busy(framing: Framing, overhead: i32, rate: f64, error: f64, seed: u64) -> Vec<Timed> {
    let layer = LinkLayer::custom(overhead, 0, framing).expect("a layer");
    let mut noise = Noise(seed);
    let timed = |size| Timed {
        size,
        time: f64::from(layer.wire_bytes(size)) * 8.0 / rate + noise.next() * error,
        error: (error / 3_f64.sqrt()).max(1e-9),
    };
    sizes().map(timed).collect()
}

fn cut(framing: Framing) -> Cut {
    match framing {
        Framing::Atm => Cut::Cells,
        _ => Cut::Bytes,
    }
}

fn rate_within(found: &Inference, rate: f64, part: f64) -> bool {
    let found = found
        .rate()
        .map_or(0.0, |rate| rate.as_bits_per_second() as f64);
    (found / rate - 1.0).abs() < part
}

/// Overheads from 8 to 48 on every framing at five rates: framing and overhead are always right,
/// and every result is unique.
#[test]
fn exact_times_give_every_line_type() {
    for framing in [Framing::None, Framing::Atm, Framing::Ptm] {
        for overhead in 8..=48 {
            for rate in [56e3, 512e3, 2e6, 50e6, 100e6] {
                let found = infer(&busy(framing, overhead, rate, 0.0, 1), Timing::Busy);
                let line = format!("{framing:?} {overhead} {rate}: {found:?}");
                assert_eq!(found.cut, Some(cut(framing)), "{line}");
                assert_eq!(found.overhead(), Some(overhead), "{line}");
                assert!(rate_within(&found, rate, 1e-4), "{line}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// With noise of up to a tenth of a cell's time, cells are never reported wrongly with
    /// confidence, and the true overhead is among the candidates.
    #[test]
    fn noise_makes_unsure_and_not_wrong(
        atm: bool, overhead in 8..=48_i32, rate in 56e3_f64..100e6, part in 0.0_f64..0.1, seed: u64,
    ) {
        let framing = if atm { Framing::Atm } else { Framing::None };
        let error = part * 53.0 * 8.0 / rate;
        let found = infer(&busy(framing, overhead, rate, error, seed), Timing::Busy);
        if let Some(found) = found.cut {
            prop_assert_eq!(found, cut(framing));
        }
        if found.cut.is_some() {
            let one = found.layers.iter().any(|fit| fit.overhead == overhead);
            prop_assert!(one, "{:?}", found);
        }
        // A cell is a tenth of a small packet; these cases are clear.
        if part < 0.02 {
            prop_assert!(found.cut.is_some());
            prop_assert!(rate_within(&found, rate, 0.02));
        }
    }

    /// Round trips: cells, no cells, or unsure; and the overhead modulo a cell.
    #[test]
    fn round_trips_show_cells(
        atm: bool, overhead in 8..=48_i32, base in 1e-3_f64..0.3, part in 0.0_f64..0.3, seed: u64,
    ) {
        let framing = if atm { Framing::Atm } else { Framing::None };
        let rate = 400e3;
        let error = part * 53.0 * 8.0 / rate;
        let mut times = busy(framing, overhead, rate, error, seed);
        for timed in &mut times {
            timed.time += base;
        }
        let found = infer(&times, Timing::RoundTrip);
        if let Some(found) = found.cut {
            prop_assert_eq!(found, cut(framing));
        }
        if part < 0.05 {
            prop_assert!(found.cut.is_some());
            if atm {
                prop_assert_eq!(found.overhead(), Some(overhead % 48));
            }
        }
    }

    /// Times without data, of one size, or of no link at all: unsure, and no panic.
    #[test]
    fn what_is_no_line_is_not_known(
        times in prop::collection::vec((0_u32..3000, any::<f64>(), any::<f64>()), 0..60),
    ) {
        let times: Vec<Timed> = times
            .into_iter()
            .map(|(size, time, error)| Timed { size, time, error })
            .collect();
        for timing in [Timing::Busy, Timing::RoundTrip] {
            let _ = infer(&times, timing);
        }
    }
}

#[test]
fn random_times_are_unsure() {
    let mut noise = Noise(3);
    for _ in 0..200 {
        let any = |size| Timed {
            size,
            time: 1e-3 * (1.5 + noise.next()),
            error: 1e-5,
        };
        let times: Vec<Timed> = sizes().map(any).collect();
        assert_eq!(infer(&times, Timing::Busy).cut, None);
        assert_eq!(infer(&times, Timing::RoundTrip).cut, None);
    }
    assert_eq!(infer(&[], Timing::Busy).cut, None);
}

/// Bytes of a packet in code words as the lab's own line has them
/// (`guest/src/agent/line/framing.rs`, from ITU-T G.993.2 annex N): a byte more for
/// each 64, and for a part of them.
fn in_words(ip_bytes: u32, overhead: i32) -> u32 {
    let framed = ip_bytes.saturating_add_signed(overhead);
    framed + framed.div_ceil(64)
}

/// Returns the measurement of a train through this link, sent faster than its rate, with clocks
/// that are read up to 2 us late.
fn through_words(size: u32, overhead: i32, rate: f64, noise: &mut Noise) -> Timed {
    let time = f64::from(in_words(size, overhead)) * 8.0 / rate;
    // As `measure` sends them.
    let count = ((0.25 / time) as u32).clamp(40, 4000);
    let mut late = |at: f64| ((at + (1.0 + noise.next()) * 1e-6) * 1e6).round() as u64 * 1000;
    let mut free = 0.0_f64;
    let arrivals: Vec<Arrival> = (0..count)
        .map(|index| {
            let sent = f64::from(index) * time / 1.4;
            free = free.max(sent) + time;
            Arrival {
                index,
                sent_ns: late(sent),
                came_ns: late(free),
            }
        })
        .collect();
    let seen = seen(&arrivals);
    Timed {
        size,
        time: seen.gap_ns * 1e-9,
        error: (seen.gap_error_ns * 1e-9).max(1e-6 / f64::from(count)),
    }
}

/// Links with code words, up and down, compared with the truth. They are never taken for cells, and
/// the rate on the wire is within 2 %, with code words or without. The overhead is exact to the
/// byte in nine of ten.
#[test]
fn lines_of_code_words_are_measured() {
    let rates = [
        128e3, 1024e3, 512e3, 2e6, 768e3, 8e6, 10e6, 20e6, 50e6, 100e6,
    ];
    let mut noise = Noise(11);
    let (mut exact, mut words, mut all, mut worst) = (0, 0, 0, 0.0_f64);
    for (number, rate) in rates.into_iter().cycle().take(40).enumerate() {
        let overhead = 8 + number as i32 * 40 / 39;
        let times: Vec<Timed> = sizes()
            .map(|size| through_words(size, overhead, rate, &mut noise))
            .collect();
        let found = infer(&times, Timing::Busy);
        let line = format!("{overhead} at {rate}: {found:?}");
        assert_eq!(found.cut, Some(Cut::Bytes), "{line}");
        let inferred = found
            .rate()
            .map_or(0.0, |one| one.as_bits_per_second() as f64);
        worst = worst.max((inferred / rate - 1.0).abs());
        assert!(rate_within(&found, rate, 0.02), "{line}");
        all += 1;
        exact += usize::from(found.overhead() == Some(overhead));
        words += usize::from(
            found
                .layers
                .first()
                .is_some_and(|fit| fit.framing == Framing::Ptm),
        );
    }
    println!(
        "of {all}: overhead exact {exact}, code words found {words}, rate at worst {worst:.4} off"
    );
    assert!(exact * 10 >= all * 9, "{exact} of {all}");
}
