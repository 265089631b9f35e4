// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs one arm of each experiment that holds a promise of the README, and one of each thesis, with
//! one seed. `make experiments` runs the whole ledger.

use std::path::Path;
use std::process::Command;

/// Runs an arm, and checks that every expectation that it can meet alone is kept, but those for
/// `misses`, whose reasons are in the experiment's file.
#[track_caller]
fn keeps(experiment: &str, arm: &str, misses: &[&str]) {
    let root = Path::new("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weirgate-lab"));
    command.args(["lab", "run", &format!("experiments/{experiment}.toml")]);
    command.args(["--arm", arm, "--seed", "1", "--jobs", "1"]);
    let output = command.current_dir(root).output().expect("the lab runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let problems = String::from_utf8_lossy(&output.stderr);
    let of = |verdict: &str| -> Vec<String> {
        let metric = |line: &str| {
            let rest = line.trim_start().strip_prefix(verdict)?;
            let rest = rest.trim_start().strip_prefix(arm)?;
            Some(rest.trim().to_owned())
        };
        text.lines().filter_map(metric).collect()
    };
    assert_eq!(of("broken"), misses, "{text}{problems}");
    assert!(!of("kept").is_empty(), "{text}{problems}");
    // Only a figure of an arm that was not run may be missing.
    let words: Vec<&str> = text.split_whitespace().collect();
    let elsewhere = words.join(" ").matches("` was not measured.").count();
    assert_eq!(of("no data").len(), elsewhere, "{text}");
    let complete = misses.is_empty() && elsewhere == 0;
    assert_eq!(
        output.status.code(),
        Some(i32::from(!complete)),
        "{problems}"
    );
}

/// Every packet passes one gate, and guarantees hold exactly; Brouer's thesis.
#[test]
fn counting_cells_keeps_control_of_the_queue() {
    keeps("adsl/6.2", "weirgate", &[]);
}

/// A queue and receive windows hold what arrives, with both directions full. Its delay is a known
/// miss.
#[test]
fn what_arrives_is_held() {
    let misses = [
        "full.rtt.interactive.mean_ms",
        "full.rtt.interactive.max_ms",
    ];
    keeps("adsl/8.5", "weirgate", &misses);
}

/// The waits that `check` states are never exceeded, and not much shorter can be measured.
#[test]
fn bounds_are_kept_and_tight() {
    keeps("bounds/bounds", "weirgate", &[]);
}

/// Hosts share the link fairly.
#[test]
fn hosts_share_fairly() {
    keeps("fairness", "hosts", &[]);
}

/// Hosts share what arrives fairly, by receive windows.
#[test]
fn hosts_share_what_arrives() {
    keeps("inbound/hosts", "hosts", &[]);
}

/// A receive window holds a stream; Shah's thesis.
#[test]
fn a_window_holds_a_stream() {
    keeps("rate/6.2", "ours", &[]);
}

/// Classes have their weights; Mylonas's thesis.
#[test]
fn classes_have_their_weights() {
    keeps("ds/1.1", "half", &[]);
}

/// The edge of the controlled queue is where the theory has it; Braithwaite's thesis.
#[test]
fn the_edge_is_where_theory_has_it() {
    keeps("aqm/6.4", "edge", &[]);
}
