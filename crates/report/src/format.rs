// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Formats numbers for readers.

use weirgate_experiment::{Expectation, Metric, Promise};
use weirgate_measure::{JudgedExpectation, Judgement};

/// Formats a figure with about three digits, without its unit.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && size < 0.0005 {
        return format!("{value:.1e}");
    }
    let decimals = match size {
        s if s >= 100.0 => 0,
        s if s >= 10.0 => 1,
        s if s >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    if decimals > 0 && text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

/// Returns the unit of a metric by its name, as it is written after a number.
pub(crate) fn unit(metric: &str) -> &'static str {
    match metric.parse::<Metric>().map(|metric| metric.unit()) {
        Ok("kbit") => "kbit/s",
        Ok("ratio" | "index" | "value" | "r" | "score") | Err(_) => "",
        Ok(unit) => unit,
    }
}

/// Formats a figure with its unit.
pub(crate) fn quantity(value: f64, metric: &str) -> String {
    with_unit(&number(value), unit(metric))
}

fn with_unit(number: &str, unit: &str) -> String {
    if unit.is_empty() {
        number.to_owned()
    } else {
        format!("{number} {unit}")
    }
}

/// Formats a ratio in per cent, to a tenth.
pub(crate) fn percent(part: f64) -> String {
    let text = format!("{:.1}", part * 100.0);
    let text = text.strip_suffix(".0").unwrap_or(&text);
    format!("{} %", if text == "-0" { "0" } else { text })
}

/// Returns a promised number, with the digits as written, but rounded if it comes from a formula.
fn stated(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 => 1,
        size if size >= 1.0 => 3,
        _ => 6,
    };
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

/// Returns an expectation's promise: `440 kbit/s within 10 %`.
pub(crate) fn promise(expectation: &Expectation, promise: Option<Promise>) -> String {
    let metric = &expectation.metric;
    let value = |value| with_unit(&stated(value), unit(metric));
    match promise {
        None => "a number that has no value".to_owned(),
        Some(Promise::Near {
            value: v,
            tolerance,
        }) => {
            format!("{} within {}", value(v), percent(tolerance))
        }
        Some(Promise::Within {
            value: v,
            tolerance,
        }) => {
            format!("{} within {}", value(v), stated(tolerance))
        }
        Some(Promise::AtLeast(v)) => format!("at least {}", value(v)),
        Some(Promise::AtMost(v)) => format!("at most {}", value(v)),
    }
}

/// Returns the deviation of the figure from the promised one: `+4.6 %`. For several runs, half the
/// width of the confidence interval follows: `+4.6 % ±0.8 %`. Empty without a promised number.
pub(crate) fn deviation(verdict: &JudgedExpectation) -> String {
    let own = of_mean(verdict);
    let margin = match (verdict.margin, verdict.promised()) {
        (Some(margin), Some(promised)) if promised != 0.0 => {
            format!(" ±{:.1} %", margin / promised.abs() * 100.0)
        }
        (Some(margin), Some(_)) => format!(" ±{}", number(margin)),
        _ => String::new(),
    };
    if own.is_empty() { own } else { own + &margin }
}

fn of_mean(verdict: &JudgedExpectation) -> String {
    match (verdict.deviation(), verdict.promised()) {
        (Some(0.0), Some(_)) => "0".to_owned(),
        (Some(deviation), Some(promised)) if promised != 0.0 => {
            let part = deviation / promised.abs() * 100.0;
            if part.abs() < 0.05 {
                return "0 %".to_owned();
            }
            let decimals = usize::from(part.abs() < 99.95);
            format!("{part:+.decimals$} %")
        }
        (Some(deviation), Some(_)) => format!("{}{}", sign(deviation), number(deviation.abs())),
        _ => String::new(),
    }
}

fn sign(value: f64) -> &'static str {
    if value < 0.0 { "-" } else { "+" }
}

/// Returns `kept`, `broken`, `explained` or `no data`.
pub(crate) fn judgement(verdict: &JudgedExpectation) -> &'static str {
    match verdict.judgement {
        Judgement::Kept => "kept",
        Judgement::Broken if verdict.explained() => "explained",
        Judgement::Broken => "broken",
        Judgement::NoData(_) => "no data",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_about_three_digits() {
        let printed = [
            0.0, 0.99315, 4.0, 14.94, 33.5, 438.7, 1139.2, -2.5, 0.000_04,
        ]
        .map(number);
        assert_eq!(
            printed,
            [
                "0", "0.993", "4", "14.9", "33.5", "439", "1139", "-2.5", "4.0e-5"
            ]
        );
        assert_eq!(quantity(438.7, "a.iprate.up.mean_kbit"), "439 kbit/s");
        assert_eq!(quantity(0.5, "util.up.ratio"), "0.5");
        let promised = [631.2761, 1645.2, 440.0, 8.5, 1.0, 0.99, 0.0, -0.0].map(stated);
        assert_eq!(
            promised,
            ["631.3", "1645.2", "440", "8.5", "1", "0.99", "0", "0"]
        );
        assert_eq!(
            [0.025, -0.0004, 0.98].map(percent),
            ["2.5 %", "0 %", "98 %"]
        );
    }
}
