// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kit's fixed-point arithmetic against real numbers.

mod support;

use proptest::prelude::*;
use support::ONE;
use weirgate_aqm::Link;
use weirgate_aqm::arithmetic::{automatic_weight, idle_packets, power, scale};

fn real(ratio: u64) -> f64 {
    ratio as f64 / ONE as f64
}

proptest! {
    #[test]
    fn scaling_is_the_exact_product_rounded_down(a: u64, ratio in 0..=ONE) {
        prop_assert_eq!(u128::from(scale(a, ratio)), (u128::from(a) * u128::from(ratio)) >> 32);
    }

    #[test]
    fn a_power_is_low_by_less_than_its_comment_says(base in 0..=ONE, n in 0_u32..100_000) {
        let exact = real(base).powi(n as i32);
        let bound = 2.0 * f64::from(n.max(1)) / ONE as f64;
        let got = real(power(base, n));
        prop_assert!(got <= exact + 1e-12, "{got} above {exact}");
        prop_assert!(exact - got <= bound, "{got} below {exact} by more than {bound}");
    }

    #[test]
    fn bytes_on_the_wire_follow_the_formula(
        len in 1_u32..10_000, overhead in -64_i32..257, mpu in 0_u32..257, framing in 0_u32..3,
    ) {
        let link = Link { overhead_bytes: overhead, mpu_bytes: mpu, framing, ..Link::default() };
        let frame = (i64::from(len) + i64::from(overhead)).max(i64::from(mpu.max(1)));
        let expected = match framing {
            1 => (frame + 47) / 48 * 53,
            2 => frame + (frame + 63) / 64,
            _ => frame,
        };
        prop_assert_eq!(i64::from(link.wire_bytes(len)), expected);
    }
}

/// AQM-4.2.1: x0 for the thesis's four curves.
#[test]
fn the_parabola_ends_where_the_power_is_one_fifteenth() {
    for (v, x0) in [(0.8, 12.14), (0.9, 25.70), (0.99, 269.4), (0.999, 2706.7)] {
        let weight = ((1.0 - v) * ONE as f64) as u64;
        let got = idle_packets(weight) as f64;
        assert!(
            got >= x0 && got < x0 + 1.001,
            "v {v}: {got}, the thesis has {x0}"
        );
    }
}

/// ARED section 4: 1 - exp(-1/C).
#[test]
fn the_automatic_weight_is_that_of_the_paper() {
    for rate in [8_u64, 40, 1_000, 8_333, 833_333] {
        let exact = 1.0 - (-1.0 / rate as f64).exp();
        let got = real(automatic_weight(rate));
        assert!(
            (got / exact - 1.0).abs() < 1e-3,
            "{rate}/s: {got}, not {exact}"
        );
    }
}
