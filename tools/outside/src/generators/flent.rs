// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads flent's output: a compressed JSON file with the samples of each of its runners.

use super::figures::{Figures, times};
use super::python::PYTHON;
use crate::process::direct;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;

/// The length of a test's transfers in seconds, including the warm-up, which is not measured.
pub const LENGTH: f64 = 35.0;
const WARM_UP: f64 = 5.0;

#[derive(Deserialize)]
struct File {
    raw_values: BTreeMap<String, Vec<Sample>>,
}

#[derive(Deserialize)]
struct Sample {
    /// The end of the sample's interval, in seconds since 1970.
    t: f64,
    /// The rate of a transfer in Mbit/s, or the time of an echo in ms; `None` for a lost echo.
    val: Option<f64>,
    /// The length of a transfer's sample in seconds.
    dur: Option<f64>,
    /// An echo's number.
    seq: Option<f64>,
}

/// Returns the text of the only file in a folder.
pub fn unpacked(folder: &str) -> Result<String> {
    let mut files = fs::read_dir(folder).context(folder.to_owned())?;
    let packed = files.next().context("flent wrote nothing")??.path();
    let packed = packed.to_string_lossy();
    // gzip writes `NAME` beside `NAME.gz`.
    let done = direct(&[PYTHON, "-S", "-m", "gzip", "-d", &packed])?;
    ensure!(done.status == Some(0), "{}", done.message());
    let plain = packed.trim_end_matches(".gz");
    fs::read_to_string(plain).with_context(|| plain.to_owned())
}

/// Returns rates of transfers and round trips of echoes, while transfers ran.
pub fn figures(text: &str) -> Result<Figures> {
    let file: File = serde_json::from_str(text).context("flent's file")?;
    let series = |prefix: &str| {
        let prefix = prefix.to_owned();
        let all = file.raw_values.iter();
        all.filter(move |(name, samples)| name.starts_with(&prefix) && !samples.is_empty())
            .map(|(_, samples)| samples.as_slice())
    };
    let first = series("TCP ").filter_map(|samples| {
        let first = samples.first()?;
        Some(first.t - first.dur?)
    });
    let begin = first.fold(f64::INFINITY, f64::min);
    ensure!(begin.is_finite(), "flent has no transfer");
    let measured = |sample: &&Sample| {
        let at = sample.t - begin;
        at > WARM_UP && at <= LENGTH
    };
    let mut figures = Figures::new();
    for (prefix, name) in [("TCP download", "down_kbit"), ("TCP upload", "up_kbit")] {
        let rates = series(prefix).filter_map(|samples| rate(samples.iter().filter(measured)));
        let rates: Vec<f64> = rates.collect();
        if !rates.is_empty() {
            figures.insert(name.to_owned(), 1e3 * rates.iter().sum::<f64>());
        }
    }
    let pings = series("Ping (ms) ICMP").map(|samples| ("ping".to_owned(), samples));
    let datagrams = series("Ping (ms) UDP").zip(1..);
    let datagrams = datagrams.map(|(samples, number)| (format!("udp{number}"), samples));
    for (name, samples) in pings.chain(datagrams) {
        let samples: Vec<&Sample> = samples.iter().filter(measured).collect();
        for (figure, value) in echoes(&samples) {
            figures.insert(format!("{name}.{figure}"), value);
        }
    }
    Ok(figures)
}

/// Returns the mean rate of a transfer in Mbit/s.
fn rate<'a>(samples: impl Iterator<Item = &'a Sample>) -> Option<f64> {
    let (mut sum, mut time) = (0.0, 0.0);
    for sample in samples {
        let dur = sample.dur?;
        sum += sample.val? * dur;
        time += dur;
    }
    (time > 0.0).then(|| sum / time)
}

/// Returns the figures of echoes. For fping, missing numbers are lost echoes.
fn echoes(samples: &[&Sample]) -> Figures {
    let answered = samples.iter().filter_map(|sample| sample.val);
    let took: Vec<u64> = answered.map(|ms| (ms * 1e6).round() as u64).collect();
    let numbers = || samples.iter().filter_map(|sample| sample.seq);
    let first = numbers().fold(f64::INFINITY, f64::min);
    let sent = numbers().fold(0.0, f64::max) - first + 1.0;
    let loss = 1.0 - took.len() as f64 / sent;
    let mut figures = times(took);
    figures.insert("loss".to_owned(), loss);
    figures
}

#[cfg(test)]
mod tests {
    use super::figures;

    #[test]
    fn a_file_of_flent_is_read() {
        let figures = figures(include_str!("samples/flent.json")).unwrap();
        // Only the transfers' last second counts.
        assert_eq!(figures["down_kbit"].round(), 8_429_363.0);
        assert!(!figures.contains_key("up_kbit"));
        assert!((figures["ping.mean_ms"] - 0.085_909).abs() < 1e-6);
        assert_eq!(figures["ping.p50_ms"], 0.054);
        assert_eq!(figures["ping.loss"], 0.0);
    }

    #[test]
    fn missing_numbers_are_lost_echoes() {
        let text = include_str!("samples/flent.json");
        let lost = text
            .lines()
            .filter(|line| !line.contains("\"seq\": 55.0"))
            .collect::<String>();
        let figures = figures(&lost).unwrap();
        assert!((figures["ping.loss"] - 1.0 / 11.0).abs() < 1e-9);
    }

    #[test]
    fn echoes_alone_are_refused() {
        assert!(figures("{\"raw_values\": {\"Ping (ms) ICMP\": []}}").is_err());
    }
}
