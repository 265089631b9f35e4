// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result of a survey as text.

use crate::whole::survey::seen::Seen;
use crate::whole::survey::tables::{Rows, gaps, grouped, ports, protocol, sizes, version};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use weirgate_bpf::SurveyDirection;
use weirgate_units::Rate;

/// The most lines of a table.
const MOST: usize = 15;

/// Returns the greatest rate, or 0 without any.
fn peak(rates: impl Iterator<Item = u64>) -> f64 {
    rates.max().unwrap_or_default() as f64
}

fn part(of: u64, all: u64) -> f64 {
    if all == 0 {
        0.0
    } else {
        of as f64 * 100.0 / all as f64
    }
}

/// Returns the text for the load of the line at these rates in bits per second, of packets and on
/// the wire.
fn full(seen: &Seen, [packets, wire]: [f64; 2]) -> String {
    let part = |bits: f64, rate: Rate| bits * 100.0 / rate.as_bits_per_second() as f64;
    match (seen.rate, &seen.link) {
        (Some(rate), None) => format!(
            ", {:.0} % of the line without its link layer",
            part(packets, rate)
        ),
        (Some(rate), Some(_)) => {
            format!(
                ", {} on the wire: {:.0} % of the line",
                bits(wire),
                part(wire, rate)
            )
        }
        (None, Some(_)) => format!(", {} on the wire", bits(wire)),
        (None, None) => String::new(),
    }
}

pub fn report(seen: &Seen) -> String {
    let mut text = format!(
        "{} for {:.0} s, in bytes of IP and of what else links carry\n",
        seen.device,
        seen.time.as_secs_f64()
    );
    for (direction, name) in ["arrives", "leaves"].into_iter().enumerate() {
        let all = &seen.directions[direction];
        let mean = |bytes: u64| bytes as f64 * 8.0 / seen.time.as_secs_f64();
        let seconds = || seen.seconds.iter();
        let peaks = [
            peak(seconds().map(|one| one.rate(one.bytes, direction))),
            peak(seconds().map(|one| one.rate(one.wire, direction))),
        ];
        let _ = writeln!(
            text,
            "{name}: {} packets, {}{}; the fullest second {}{}",
            all.all.packets,
            bits(mean(all.all.bytes)),
            full(seen, [mean(all.all.bytes), mean(all.wire)]),
            bits(peaks[0]),
            full(seen, peaks),
        );
        if let Some(gap) = all.gaps.mean_ns() {
            let at = |part| all.gaps.at_most_ns(part).unwrap_or_default();
            let _ = writeln!(
                text,
                "  from packet to packet: {} in the mean, half within {}, 95 % within {}",
                span(gap),
                span(at(500)),
                span(at(950))
            );
        }
    }
    let total = seen.directions[0].all.bytes + seen.directions[1].all.bytes;
    let tables: [(&str, Rows); 4] = [
        (
            "version",
            grouped(&seen.protocols, |one| Some(version(one).to_owned())),
        ),
        (
            "protocol",
            grouped(&seen.protocols, |one| Some(protocol(one))),
        ),
        ("port", ports(seen)),
        ("size", sizes(&seen.directions)),
    ];
    for (title, rows) in tables.into_iter().filter(|(_, rows)| !rows.is_empty()) {
        let _ = writeln!(
            text,
            "\n{title:<22} {:>7} {:>11} {:>13} {:>11} {:>11}",
            "bytes", "arrives", "bytes", "leaves", "bytes"
        );
        for (name, [arrives, leaves]) in rows.iter().take(MOST) {
            let _ = writeln!(
                text,
                "{name:<22} {:>5.1} % {:>11} {:>13} {:>11} {:>11}",
                part(arrives.bytes + leaves.bytes, total),
                arrives.packets,
                arrives.bytes,
                leaves.packets,
                leaves.bytes
            );
        }
        if rows.len() > MOST {
            let _ = writeln!(text, "and {} more, in --json", rows.len() - MOST);
        }
    }
    text += &wide_text(&seen.directions);
    text.truncate(text.trim_end().len());
    text
}

/// Returns the table of times between packets, or nothing without any.
fn wide_text(directions: &[SurveyDirection; 2]) -> String {
    let mut text = String::new();
    let wide = wide_gaps(directions);
    if !wide.is_empty() {
        let _ = writeln!(
            text,
            "\n{:<22} {:>7} {:>11} {:>13} {:>11}",
            "packet to packet", "", "arrives", "", "leaves"
        );
    }
    for (name, [arrives, leaves]) in wide {
        let _ = writeln!(
            text,
            "{name:<22} {:>7} {arrives:>11} {:>13} {leaves:>11}",
            "", ""
        );
    }
    text
}

/// Returns the histogram of times between packets in steps of a factor of four. The widest step
/// ends at 17 s.
fn wide_gaps(directions: &[SurveyDirection; 2]) -> Vec<(String, [u64; 2])> {
    let mut wide: BTreeMap<u32, [u64; 2]> = BTreeMap::new();
    for ((_, to), counts) in gaps(directions) {
        // The first power of four, in ns, at or above the end of the step.
        let power = (to.max(1) - 1).checked_ilog2().map_or(0, |log| log / 2 + 1);
        let sum = wide.entry(power).or_default();
        sum[0] += counts[0];
        sum[1] += counts[1];
    }
    let named = wide.into_iter().map(|(power, counts)| {
        let end = 1_u64 << (2 * power);
        // There is only one step below this.
        let name = if end <= 4096 {
            format!("under {}", span(end))
        } else {
            format!("{} to {}", span(end / 4), span(end))
        };
        (name, counts)
    });
    named.collect()
}

fn bits(rate: f64) -> String {
    match rate {
        ..1e4 => format!("{rate:.0} bit/s"),
        1e4..1e7 => format!("{:.0} kbit/s", rate / 1e3),
        _ => format!("{:.1} Mbit/s", rate / 1e6),
    }
}

fn span(ns: u64) -> String {
    match ns {
        0..1_000_000 => format!("{} us", ns / 1000),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}
