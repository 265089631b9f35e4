// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests what quantities accept, refuse, print and compute.

use proptest::prelude::*;
use std::fmt::{Debug, Display};
use std::str::FromStr;
use weirgate_units::{Dscp, Handle, ParseError, Rate, Share, Size, Span};

fn parses<T>(text: &str) -> T
where
    T: FromStr<Err = ParseError> + Debug,
{
    text.parse()
        .unwrap_or_else(|error| panic!("`{text}`: {error}"))
}

/// Returns the message that a user sees.
fn refusal<T>(text: &str) -> String
where
    T: FromStr<Err = ParseError> + Debug,
{
    match text.parse::<T>() {
        Ok(value) => panic!("`{text}` was taken for {value:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn rates_in_every_spelling() {
    for text in [
        "512kbit",
        "512 kbit/s",
        "512KBIT",
        " 0.512mbit ",
        "512000bit",
        "512K",
        "0.512 m",
    ] {
        assert_eq!(parses::<Rate>(text), Rate::kbit(512), "{text}");
    }
    assert_eq!(parses::<Rate>("1.5mbit").to_string(), "1500kbit");
    assert_eq!(parses::<Rate>("10gbit").to_string(), "10gbit");
    assert_eq!(parses::<Rate>(".5kbit").to_string(), "500bit");
    assert_eq!(parses::<Rate>("0bit").to_string(), "0bit");
}

#[test]
fn rates_that_may_be_bits_or_bytes_are_refused() {
    for (text, bits, bytes) in [
        ("40 Mbps", "40mbit", "320mbit"),
        ("64kbps", "64kbit", "512kbit"),
        ("1.5gbps", "1500mbit", "12gbit"),
        ("8bps", "8bit", "64bit"),
    ] {
        let right = format!("write `{bits}` if it is bits, or `{bytes}` if it is bytes");
        assert_eq!(
            refusal::<Rate>(text),
            format!("`{text}` may be bits or bytes per second; {right}")
        );
    }
}

#[test]
fn refused_rates_say_what_would_be_right() {
    let hint = "write a number with bit, kbit, mbit or gbit, such as `512kbit`";
    for text in [
        "",
        "512",
        "kbit",
        "-1kbit",
        "+1kbit",
        "1e3bit",
        "1..5kbit",
        "1.2.3kbit",
        ".kbit",
    ] {
        assert_eq!(
            refusal::<Rate>(text),
            format!("`{text}` is not a rate; {hint}")
        );
    }
    assert_eq!(
        refusal::<Rate>("0.5bit"),
        format!("`0.5bit` is finer than a rate can be; {hint}")
    );
    assert_eq!(
        refusal::<Rate>("18446744073709551616bit"),
        format!("`18446744073709551616bit` is too large for a rate; {hint}")
    );
    assert_eq!(
        refusal::<Rate>("0.1234567891gbit"),
        format!("`0.1234567891gbit` has more than nine digits after the point; {hint}")
    );
    assert!(refusal::<Rate>("٣kbit").contains("is not a rate"));
    assert!(refusal::<Rate>("99999999999999999999999999999999999999999kbit").contains("too large"));
}

#[test]
fn sizes_spans_and_shares() {
    assert_eq!(parses::<Size>("28125"), Size::bytes(28_125));
    assert_eq!(parses::<Size>("206kB"), Size::bytes(206_000));
    assert_eq!(parses::<Size>("64KiB"), Size::bytes(65_536));
    for (bytes, written) in [
        (65_536, "64KiB"),
        (1 << 30, "1GiB"),
        (3 << 20, "3MiB"),
        (2_000_000_000, "2GB"),
        (64_000, "64kB"),
        (65_535, "65535B"),
        (0, "0B"),
    ] {
        assert_eq!(Size::bytes(bytes).to_string(), written);
    }
    assert!(refusal::<Size>("64k").contains("kB, MB, GB, KiB, MiB or GiB"));

    assert_eq!(parses::<Span>("2.5s"), Span::from_millis(2_500));
    assert_eq!(parses::<Span>("1min"), Span::from_secs(60));
    assert_eq!(Span::from_secs(90).to_string(), "90s");
    assert_eq!(Span::ZERO.to_string(), "0s");
    assert!(refusal::<Span>("150").contains("such as `150ms`"));
    assert!(refusal::<Span>("0.5ns").contains("finer"));

    assert_eq!(parses::<Share>("20%"), Share::percent(20));
    assert_eq!(parses::<Share>("2.5 %").to_string(), "2.5%");
    assert_eq!(Share::millionths(1).to_string(), "0.0001%");
    assert_eq!(parses::<Share>("0.0001%"), Share::millionths(1));
    assert!(refusal::<Share>("20").contains("write a percentage"));
    assert!(refusal::<Share>("0.00001%").contains("finer"));
    assert!(refusal::<Share>("429497%").contains("too large"));
}

#[test]
fn constructors_stop_at_the_largest_value() {
    assert_eq!(Rate::kbit(u64::MAX), Rate::bits_per_second(u64::MAX));
    assert_eq!(Span::from_secs(u64::MAX), Span::from_nanos(u64::MAX));
    assert_eq!(Span::from_millis(u64::MAX), Span::from_micros(u64::MAX));
    assert_eq!(Share::percent(u32::MAX), Share::millionths(u32::MAX));
    assert_eq!(
        Span::from_nanos(u64::MAX) + Span::from_nanos(1),
        Span::from_nanos(u64::MAX)
    );
    assert_eq!(Span::from_nanos(1) - Span::from_nanos(2), Span::ZERO);
}

#[test]
fn code_points_by_name_and_number() {
    for (text, value) in [
        ("EF", 46),
        ("ef", 46),
        ("46", 46),
        ("0x2e", 46),
        ("0X2E", 46),
        ("BE", 0),
        ("DF", 0),
        ("CS0", 0),
        ("LE", 1),
        ("af41", 34),
        ("voice-admit", 44),
        ("63", 63),
    ] {
        assert_eq!(parses::<Dscp>(text).value(), value, "{text}");
    }
    assert_eq!(Dscp::new(46).map(|d| d.to_string()).as_deref(), Some("EF"));
    assert_eq!(Dscp::new(63).map(|d| d.to_string()).as_deref(), Some("63"));
    assert_eq!(Dscp::new(64), None);
    for text in [
        "", "64", "256", "-1", "+46", "0x", "0x+2e", "0x40", "AF44", "EF1",
    ] {
        assert!(
            refusal::<Dscp>(text).contains("is not a code point; write a name"),
            "{text}"
        );
    }
    // RFC 2597: AFxy is 8x + 2y; RFC 2474: CSx is 8x.
    for class in 1..=4u8 {
        for drop in 1..=3u8 {
            assert_eq!(
                parses::<Dscp>(&format!("AF{class}{drop}")).value(),
                8 * class + 2 * drop
            );
        }
    }
    for class in 0..=7u8 {
        assert_eq!(parses::<Dscp>(&format!("CS{class}")).value(), 8 * class);
    }
}

#[test]
fn handles_are_hexadecimal() {
    assert_eq!(parses::<Handle>("1:"), Handle::new(1, 0));
    assert_eq!(parses::<Handle>("1:10"), Handle::new(1, 0x10));
    assert_eq!(parses::<Handle>("ffff:fff1").as_u32(), 0xffff_fff1);
    assert_eq!(Handle::from_u32(0x0001_0010).to_string(), "1:10");
    assert_eq!(Handle::new(1, 0).to_string(), "1:");
    for text in [
        "", "1", "1:10000", "1:+2", "+1:2", "1:2:3", "g:1", "-1:0", "1: 2",
    ] {
        assert!(
            refusal::<Handle>(text).contains("is not a handle"),
            "{text}"
        );
    }
}

/// Figures of the theses that only need size over rate: experiments ADSL-6.1, ADSL-6.2, ADSL-7.5.
#[test]
fn serialisation_times_of_the_theses() {
    let ms = |bytes, kbit| {
        Rate::kbit(kbit)
            .time_for(Size::bytes(bytes))
            .map(|t| (t.as_millis_f64() * 100.0).round())
    };
    assert_eq!(
        ms(28_125, 450),
        Some(50_000.0),
        "500 ms: the leaf buffer of ADSL-6.1"
    );
    assert_eq!(ms(28_125, 356), Some(63_202.0), "632 ms: ADSL-6.2 phase 1");
    assert_eq!(ms(28_125, 252), Some(89_286.0), "893 ms: ADSL-6.2 phase 2");
    assert_eq!(
        ms(2_226, 512),
        Some(3_478.0),
        "34.78 ms: one burst of 2000 bytes in cells"
    );
    assert_eq!(ms(1_696, 512), Some(2_650.0), "26.5 ms: one full packet");
    assert_eq!(Rate::bits_per_second(0).time_for(Size::bytes(1)), None);
    assert_eq!(
        Rate::kbit(450).bytes_in(Span::from_millis(500)),
        Size::bytes(28_125)
    );
}

#[test]
fn serde_takes_the_same_text() {
    let rate: Rate = serde_json::from_str("\"2mbit\"").expect("a rate");
    assert_eq!(rate, Rate::kbit(2_000));
    assert_eq!(serde_json::to_string(&rate).expect("text"), "\"2mbit\"");
    let error = serde_json::from_str::<Span>("\"soon\"")
        .expect_err("not a span")
        .to_string();
    assert!(error.contains("`soon` is not a time span"), "{error}");
    assert!(
        serde_json::from_str::<Rate>("512").is_err(),
        "a number has no unit"
    );
}

fn round_trips<T>(value: T) -> Result<(), TestCaseError>
where
    T: FromStr<Err = ParseError> + Display + Debug + PartialEq + Copy,
{
    let text = value.to_string();
    let back = text.parse::<T>();
    prop_assert_eq!(back.as_ref().ok(), Some(&value), "{}", text);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_printed_parses_back(n in any::<u64>(), shift in 0u32..64, factor in 0usize..9) {
        let unit = [1, 1_000, 1_000_000, 1_000_000_000, 60_000_000_000, 1 << 10, 1 << 20, 1 << 30, 10_000][factor];
        for value in [n, n >> shift, (n >> shift).saturating_mul(unit)] {
            round_trips(Rate::bits_per_second(value))?;
            round_trips(Size::bytes(value))?;
            round_trips(Span::from_nanos(value))?;
            round_trips(Share::millionths(value as u32))?;
            round_trips(Handle::from_u32(value as u32))?;
            if let Some(dscp) = Dscp::new((value % 64) as u8) {
                round_trips(dscp)?;
            }
        }
    }

    #[test]
    fn no_text_makes_a_parser_panic(text in "\\PC{0,24}|[0-9.:%+xX -]{0,40}(bit|kbit|ms|s|B|%)?") {
        let _ = text.parse::<Rate>();
        let _ = text.parse::<Size>();
        let _ = text.parse::<Span>();
        let _ = text.parse::<Share>();
        let _ = text.parse::<Handle>();
        let _ = text.parse::<Dscp>();
    }

    /// Rounded up, and by less than a nanosecond: in exact integers,
    /// `(t - 1 ns) * rate < bits <= t * rate`.
    #[test]
    fn time_for_is_the_least_whole_nanosecond(bytes in 0u64..1 << 32, bits in 1u64..1 << 40) {
        let time = Rate::bits_per_second(bits).time_for(Size::bytes(bytes)).expect("a rate above 0");
        let need = u128::from(bytes) * 8_000_000_000;
        let done = u128::from(time.as_nanos()) * u128::from(bits);
        prop_assert!(done >= need);
        prop_assert!(done < need + u128::from(bits));
    }

    /// The bytes in the time of a size are that size, if a nanosecond is shorter than a byte.
    #[test]
    fn bytes_in_undoes_time_for(bytes in 0u64..1 << 32, bits in 1u64..8_000_000_000) {
        let rate = Rate::bits_per_second(bits);
        let time = rate.time_for(Size::bytes(bytes)).expect("a rate above 0");
        prop_assert_eq!(rate.bytes_in(time), Size::bytes(bytes));
    }

    #[test]
    fn shares_of_a_rate_never_add_up_to_more(bits in any::<u64>(), a in 0u32..=1_000_000) {
        let rate = Rate::bits_per_second(bits);
        let part = Share::millionths(a).of(rate).as_bits_per_second();
        let rest = Share::millionths(1_000_000 - a).of(rate).as_bits_per_second();
        prop_assert!(part + rest <= bits);
        prop_assert!(bits - part - rest <= 1);
        prop_assert_eq!(Share::WHOLE.of(rate), rate);
    }
}
