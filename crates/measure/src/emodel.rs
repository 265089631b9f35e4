// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The E-model of ITU-T G.107 (06/2015): how good a telephone call is, from its delay and its loss.
//!
//! The transmission rating is R = Ro - Is - Id - Ie,eff + A. Every parameter that a network does
//! not change has its default value (G.107 table 3). So has the echo path: its delays T and Tr are
//! 0, which means that echo cancellers leave no echo. G.114 draws its curve of R over delay in this
//! way, and Brouer 4.4 quotes it. Of Id, the listener echo Idle at Tr = 0 is a constant, the talker
//! echo Idte is 0, and the absolute delay adds Idd.

use weirgate_units::Span;

/// Ro less Is and Idle, all at their defaults: 94.769 - 1.414 - 0.149 (G.107 equations 7-2, 7-8 and
/// 7-25). The advantage factor A is 0.
const AT_BEST: f64 = 93.206;

/// The absolute delay up to which a conversation is as good as without delay, in milliseconds (mT,
/// G.107 table 1).
const MINIMAL_DELAY_MS: f64 = 100.0;

/// The worst equipment impairment (G.107 equation 7-29).
const WORST: f64 = 95.0;

/// What a codec does to speech (G.113 appendix I), and how long it takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Codec {
    /// The equipment impairment factor Ie.
    pub impairment: f64,
    /// The packet-loss robustness factor Bpl.
    pub robustness: f64,
    /// Its time beside that of collecting the packet: a frame and the look-ahead, in milliseconds
    /// (G.114 annex A).
    pub coding_ms: f64,
    /// The time that a byte of its payload lasts, in nanoseconds.
    byte_ns: u64,
}

/// G.711 at 64 kbit/s with packet-loss concealment. G.113 gives its robustness for packets of 10
/// ms.
pub const G711: Codec = Codec {
    impairment: 0.0,
    robustness: 25.1,
    coding_ms: 0.125,
    byte_ns: 125_000,
};

/// G.729A at 8 kbit/s: frames of 10 ms, and 5 ms of look-ahead.
pub const G729A: Codec = Codec {
    impairment: 11.0,
    robustness: 19.0,
    coding_ms: 15.0,
    byte_ns: 1_000_000,
};

/// The headers of IPv4, UDP and RTP (RFC 791, RFC 768, RFC 3550), in bytes.
const HEADERS: u64 = 20 + 8 + 12;

/// How much longer the header of IPv6 is (RFC 8200).
const IPV6_MORE: u64 = 20;

impl Codec {
    /// Returns the codec whose packets are this long at this interval; `None` if datagrams of this
    /// kind are no voice.
    #[must_use]
    pub fn of_stream(interval: Span, packet: u16, ipv6: bool) -> Option<Self> {
        let headers = HEADERS + if ipv6 { IPV6_MORE } else { 0 };
        let payload = u64::from(packet).checked_sub(headers).filter(|&b| b > 0)?;
        [G711, G729A]
            .into_iter()
            .find(|codec| payload * codec.byte_ns == interval.as_nanos())
    }
}

/// Returns R of a call: from its absolute one-way delay from mouth to ear in milliseconds, and the
/// share of its packets that are lost or too late. Losses count as random (BurstR is 1, the
/// default). It is within 0 and 93.206.
#[must_use]
pub fn rating(codec: &Codec, delay_ms: f64, lost: f64) -> f64 {
    let percent = lost.clamp(0.0, 1.0) * 100.0;
    // Equation 7-29.
    let equipment =
        codec.impairment + (WORST - codec.impairment) * percent / (percent + codec.robustness);
    (AT_BEST - of_delay(delay_ms) - equipment).max(0.0)
}

/// Returns Idd (G.107 equations 7-27 and 7-28, with sT = 1).
fn of_delay(delay_ms: f64) -> f64 {
    if delay_ms <= MINIMAL_DELAY_MS {
        return 0.0;
    }
    let x = (delay_ms / MINIMAL_DELAY_MS).log2();
    let root = |value: f64| (1.0 + value.powi(6)).powf(1.0 / 6.0);
    25.0 * (root(x) - 3.0 * root(x / 3.0) + 2.0)
}

/// Returns the mean opinion score that is estimated from R, 1 to 4.5 (G.107 annex B). The formula
/// of the annex is below 1 for R under 6.5, where its inverse is not defined; here it is 1.
#[must_use]
pub fn opinion(rating: f64) -> f64 {
    let r = rating.clamp(0.0, 100.0);
    (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).max(1.0)
}

/// A category of speech quality (G.109 table 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Category {
    /// Its lowest R.
    pub from: u8,
    /// Its name.
    pub name: &'static str,
    /// Who is satisfied.
    pub users: &'static str,
}

const fn category(from: u8, name: &'static str, users: &'static str) -> Category {
    Category { from, name, users }
}

/// The categories, best first. G.109 does not recommend a connection below the last but one.
pub const CATEGORIES: [Category; 6] = [
    category(90, "best", "very satisfied"),
    category(80, "high", "satisfied"),
    category(70, "medium", "some dissatisfied"),
    category(60, "low", "many dissatisfied"),
    category(50, "poor", "nearly all dissatisfied"),
    category(0, "not recommended", "nearly all dissatisfied"),
];

impl Category {
    /// Returns the category of an R.
    #[must_use]
    pub fn of(rating: f64) -> Self {
        let mut all = CATEGORIES.into_iter();
        let found = all.find(|category| rating >= f64::from(category.from));
        found.unwrap_or(CATEGORIES[CATEGORIES.len() - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// G.711 without concealment, which is the default of G.107.
    const PLAIN: Codec = Codec {
        robustness: 4.3,
        ..G711
    };

    #[track_caller]
    fn near(value: f64, expected: f64, tolerance: f64) {
        assert!(
            (value - expected).abs() <= tolerance,
            "{value}, not {expected}"
        );
    }

    /// Ro, Is and Idle from the defaults of G.107 table 3, by its equations: SLR 8, RLR 2, STMR 15,
    /// LSTR 18, Ds and Dr 3, TELR 65, WEPL 110, qdu 1, Nc -70, Nfor -64, Ps and Pr 35.
    #[test]
    fn the_best_rating_follows_from_the_defaults() {
        let db = |level: f64| 10f64.powf(level / 10.0);
        let pre = 35.0 + 10.0 * (1.0 + db(10.0 - 18.0)).log10();
        let nos = 35.0 - 8.0 - 3.0 - 100.0 + 0.004 * (35.0f64 - 10.0 - 3.0 - 14.0).powi(2);
        let nor = 2.0 - 121.0 + pre + 0.008 * (pre - 35.0).powi(2);
        let no = 10.0 * (db(-70.0) + db(nos) + db(nor) + db(-64.0 + 2.0)).log10();
        let ro = 15.0 - 1.5 * (8.0 + no);
        near(ro, 94.77, 0.005);
        let x = 10.0 + 0.2 * (64.0 + no - 2.0);
        let loudness = 20.0 * ((1.0 + (x / 8.0).powi(8)).powf(1.0 / 8.0) - x / 8.0);
        let stmr = -10.0 * (db(-15.0) + db(-65.0)).log10();
        let root = |value: f64, order: i32| (1.0 + value.powi(order)).powf(1.0 / f64::from(order));
        let sidetone = 12.0 * root((stmr - 13.0) / 6.0, 8)
            - 28.0 * root((stmr + 1.0) / 19.4, 35)
            - 13.0 * root((stmr - 3.0) / 33.0, 13)
            + 29.0;
        let g = 1.07 + 0.258 * 37.0 + 0.0602 * 37.0 * 37.0;
        let (y, z) = (
            (ro - 100.0) / 15.0 + 46.0 / 8.4 - g / 9.0,
            46.0 / 30.0 - g / 40.0,
        );
        let quantizing = 15.0 * (1.0 + 10f64.powf(y) + 10f64.powf(z)).log10();
        let simultaneous = loudness + sidetone + quantizing;
        near(simultaneous, 1.41, 0.005);
        let difference = ro - 10.5 * (110.0 + 7.0);
        let echo = difference / 2.0 + (difference.powi(2) / 4.0 + 169.0).sqrt();
        near(AT_BEST, ro - simultaneous - echo, 0.0005);
        // As the recommendation prints it.
        near(rating(&G711, 0.0, 0.0), 93.2, 0.05);
        near(opinion(rating(&G711, 0.0, 0.0)), 4.41, 0.005);
    }

    #[test]
    fn delay_costs_what_the_curve_of_g114_shows() {
        // With X = 0, 1 and 2.
        for (delay_ms, impairment) in [(100.0, 0.0), (200.0, 3.04), (400.0, 24.07)] {
            near(of_delay(delay_ms), impairment, 0.005);
        }
        let category = |delay_ms| Category::of(rating(&G711, delay_ms, 0.0)).name;
        // Brouer 4.4: users are very satisfied up to 200 ms.
        assert_eq!(category(200.0), "best");
        assert_eq!(category(205.0), "high");
        assert_eq!(category(300.0), "medium");
        assert_eq!(category(400.0), "low");
        assert_eq!(category(1000.0), "not recommended");
    }

    #[test]
    fn loss_costs_what_g113_gives() {
        let r = |codec, percent: f64| rating(codec, 0.0, percent / 100.0);
        // About 4 points per percent with concealment, about 20 without.
        near(r(&G711, 1.0), 93.2 - 95.0 / 26.1, 0.01);
        near(r(&PLAIN, 1.0), 93.2 - 95.0 / 5.3, 0.01);
        near(r(&G729A, 0.0), 82.2, 0.01);
        near(r(&G729A, 1.0), 82.2 - 84.0 / 20.0, 0.01);
        assert_eq!(rating(&G711, 3000.0, 1.0), 0.0);
    }

    #[test]
    fn opinions_are_those_of_the_table_of_annex_b() {
        for (r, mos) in [
            (90.0, 4.34),
            (80.0, 4.03),
            (70.0, 3.60),
            (60.0, 3.10),
            (50.0, 2.58),
        ] {
            // The table rounds up.
            near(opinion(r), mos, 0.0065);
        }
        near(opinion(100.0), 4.5, 1e-9);
        near(opinion(0.0), 1.0, 1e-9);
        near(opinion(3.0), 1.0, 1e-9);
    }

    #[test]
    fn categories_begin_at_their_lowest_rating() {
        for category in CATEGORIES {
            assert_eq!(Category::of(f64::from(category.from)), category);
            assert_ne!(
                Category::of(f64::from(category.from) - 0.001).from,
                category.from.max(1)
            );
        }
        assert_eq!(Category::of(-1.0).name, "not recommended");
    }

    #[test]
    fn voice_has_the_length_of_a_codecs_packets() {
        let of = |ms, packet, ipv6| Codec::of_stream(Span::from_millis(ms), packet, ipv6);
        assert_eq!(of(20, 200, false), Some(G711));
        assert_eq!(of(20, 220, true), Some(G711));
        assert_eq!(of(10, 120, false), Some(G711));
        assert_eq!(of(20, 60, false), Some(G729A));
        // Without payload, of another length, and short messages each 4 s.
        assert_eq!(of(10, 40, false), None);
        assert_eq!(of(20, 39, false), None);
        assert_eq!(of(20, 1500, false), None);
        assert_eq!(of(4_000, 70, false), None);
    }

    proptest! {
        #[test]
        fn more_delay_or_loss_is_never_better(
            delay_ms in 0.0f64..5000.0,
            more_ms in 0.0f64..5000.0,
            lost in 0.0f64..1.0,
            more in 0.0f64..1.0,
        ) {
            for codec in [G711, G729A, PLAIN] {
                let r = rating(&codec, delay_ms, lost);
                prop_assert!((0.0..=AT_BEST).contains(&r));
                prop_assert!(rating(&codec, delay_ms + more_ms, lost) <= r + 1e-9);
                prop_assert!(rating(&codec, delay_ms, (lost + more).min(1.0)) <= r + 1e-9);
                prop_assert!(rating(&PLAIN, delay_ms, lost) <= rating(&G711, delay_ms, lost));
                let mos = opinion(r);
                prop_assert!((1.0..=4.5).contains(&mos));
                prop_assert!(Category::of(r).from <= r as u8);
            }
        }

        #[test]
        fn a_better_rating_is_never_a_worse_opinion(r in 0.0f64..100.0, more in 0.0f64..100.0) {
            prop_assert!(opinion(r + more) >= opinion(r) - 1e-9);
        }
    }
}
