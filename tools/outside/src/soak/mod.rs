// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A soak test: hours of the dormitory's policy in the laboratory's machine, with every command in
//! turn and faults in between. Whatever grows from cycle to cycle is a leak.

mod inside;
mod judge;
mod traffic;

use crate::kept::Kept;
use crate::machine::{LIMITS, lab, lines};
use anyhow::{Context, Result};
use inside::{CIRCUITS, POLICIES, Round};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

pub use inside::run;

/// The programs that it uses.
const PROGRAMS: [&str; 7] = ["date", "ip", "kill", "mount", "nft", "strace", "tc"];

/// Makes `runs` runs of `seconds` virtual seconds, and returns a report. Completed runs are not
/// repeated.
///
/// # Errors
///
/// Fails if there is no laboratory, or a run does not end.
pub fn soak(root: &Path, runs: u64, seconds: u64) -> Result<String> {
    let lab = lab(PROGRAMS)?;
    let kept = Kept::of("soak", &[&lab.kernel().release, &seconds.to_string()])?;
    let read = |file: &str| fs::read_to_string(root.join(file)).with_context(|| file.to_owned());
    // Lower the rates, so that a machine that is slower than its clock keeps up.
    let policy = read("policies/dormitory.toml")?
        .replace("\"100mbit\"", "\"2mbit\"")
        .replace("\"200mbit\"", "\"4mbit\"");
    let other = policy.replace("\"2mbit\"", "\"3mbit\"");
    let devices = "Circuit ID,IPv4,Parent Node,Download Max Mbps,Upload Max Mbps\n\
                   1,203.0.113.1,mast,10,2\n2,203.0.113.2,mast,20,4\n";
    let network = r#"{"mast": {"downloadBandwidthMbps": 100, "uploadBandwidthMbps": 20}}"#;
    let files: [(&str, &[u8]); 4] = [
        (POLICIES[0], policy.as_bytes()),
        (POLICIES[1], other.as_bytes()),
        (CIRCUITS[0], devices.as_bytes()),
        (CIRCUITS[1], network.as_bytes()),
    ];
    let mut report = String::new();
    for seed in 0..runs {
        let part = seed.to_string();
        let rounds: Vec<Round> = if let Some(rounds) = kept.read(part.as_bytes()) {
            rounds
        } else {
            let (from, long) = (seed.to_string(), seconds.to_string());
            let words = ["outside", "inside", "soak", &from, &long];
            let output = lab.execute(&words, &files, (seed + 1, LIMITS), &mut |_| ())?;
            let rounds = lines(&output)?;
            kept.write(part.as_bytes(), &rounds)?;
            rounds
        };
        report += &text(seed, &rounds);
    }
    Ok(report)
}

/// Returns the report of a run.
fn text(seed: u64, rounds: &[Round]) -> String {
    let mut out = format!("Run {}: {} rounds.\n\n", seed + 1, rounds.len());
    let faults = rounds.iter().flat_map(|round| {
        let late = round.longest.filter(|(longest, bound)| longest > bound);
        let late = late.map(|(longest, bound)| format!("{longest:.1} ms, {bound:.1} promised"));
        let all = round.faults.iter().cloned().chain(late);
        all.map(|fault| format!("{}: {}", round.step, fault.replace('\n', " ")))
    });
    let faults: Vec<String> = faults.collect();
    let judged: Vec<(f64, f64)> = rounds.iter().filter_map(|round| round.longest).collect();
    let part = |(longest, bound): &(f64, f64)| longest / bound;
    let _ = writeln!(
        out,
        "In {} rounds a policy was in force; the longest round trip of `urgent` under load was \
         {:.0} % of what `check` promises. Faults: {}.\n",
        judged.len(),
        100.0 * judged.iter().map(part).fold(0.0, f64::max),
        faults.len(),
    );
    for fault in &faults {
        let _ = writeln!(out, "- {fault}");
    }
    out.push_str(
        "\n| after `remove` | files of keep, watch, its web | memory of each, KiB | in use, KiB | \
         programs | pins | rules | tree | processes |\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let ends = rounds.iter().filter(|round| round.step == "remove");
    for (turn, round) in ends.enumerate() {
        let look = &round.look;
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            turn + 1,
            listed(&look.files),
            listed(&look.resident),
            look.used,
            look.programs,
            look.pins,
            look.rules,
            look.tree,
            look.processes,
        );
    }
    out.push('\n');
    out
}

fn listed(numbers: &[u64]) -> String {
    let texts: Vec<String> = numbers.iter().map(u64::to_string).collect();
    texts.join(", ")
}
