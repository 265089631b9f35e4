// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the output of irtt's client: JSON, format 1.

use super::figures::{Figures, times};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;

#[derive(Deserialize)]
struct File {
    version: Version,
    stats: Stats,
    round_trips: Vec<RoundTrip>,
}

#[derive(Deserialize)]
struct Version {
    json_format: u32,
}

#[derive(Deserialize)]
struct Stats {
    rtt: Times,
    ipdv_round_trip: Times,
    packet_loss_percent: f64,
}

/// Times in nanoseconds.
#[derive(Deserialize)]
struct Times {
    mean: f64,
    median: f64,
}

#[derive(Deserialize)]
struct RoundTrip {
    delay: Delay,
}

/// A round trip; `None` if it was lost.
#[derive(Deserialize)]
struct Delay {
    rtt: Option<u64>,
}

/// Returns irtt's own means, medians and loss. The percentile is computed here.
pub fn figures(text: &str) -> Result<Figures> {
    let file: File = serde_json::from_str(text).context("irtt's output")?;
    ensure!(
        file.version.json_format == 1,
        "irtt's output has another format: {}",
        file.version.json_format
    );
    let trips = file.round_trips.iter().filter_map(|trip| trip.delay.rtt);
    let mut figures = times(trips.collect());
    let stats = file.stats;
    for (name, value) in [
        ("mean_ms", stats.rtt.mean / 1e6),
        ("p50_ms", stats.rtt.median / 1e6),
        ("ipdv_ms", stats.ipdv_round_trip.mean / 1e6),
        ("loss", stats.packet_loss_percent / 100.0),
    ] {
        figures.insert(name.to_owned(), value);
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::figures;

    #[test]
    fn a_file_of_irtt_is_read() {
        let figures = figures(include_str!("samples/irtt.json")).unwrap();
        // One of six was lost.
        assert!((figures["loss"] - 1.0 / 6.0).abs() < 1e-9);
        assert_eq!(figures["mean_ms"], 0.255_795);
        assert_eq!(figures["p50_ms"], 0.234_037);
        assert_eq!(figures["p99_ms"], 0.357_280);
        assert_eq!(figures["ipdv_ms"], 0.055_151);
    }

    #[test]
    fn another_format_is_refused() {
        let text = include_str!("samples/irtt.json");
        assert!(figures(&text.replace("\"json_format\": 1", "\"json_format\": 2")).is_err());
        assert!(figures("Error: dial udp4").is_err());
    }
}
