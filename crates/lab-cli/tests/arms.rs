// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs one arm of each experiment that holds a promise of the README, and one of each thesis, with
//! one seed. `make experiments` runs the whole ledger.

use std::path::Path;
use std::process::Command;

/// Runs an arm, and checks that everything that is expected of it alone is kept.
#[track_caller]
fn keeps(experiment: &str, arm: &str) {
    let root = Path::new("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weirgate-lab"));
    command.args(["lab", "run", &format!("experiments/{experiment}.toml")]);
    command.args(["--arm", arm, "--seed", "1", "--jobs", "1"]);
    let output = command.current_dir(root).output().expect("the lab runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let problems = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{problems}");
    assert!(text.contains("kept"), "{text}");
}

/// Every packet passes one gate, and guarantees hold exactly; Brouer's thesis.
#[test]
fn counting_cells_keeps_control_of_the_queue() {
    keeps("adsl/6.2", "weirgate");
}

/// Receive windows hold what arrives, with both directions full.
#[test]
fn what_arrives_is_held() {
    keeps("adsl/8.5", "weirgate-receive");
}

/// The waits that `check` states are never exceeded, and not much shorter can be measured.
#[test]
fn bounds_are_kept_and_tight() {
    keeps("bounds/bounds", "weirgate");
}

/// Hosts share the link fairly.
#[test]
fn hosts_share_fairly() {
    keeps("fairness", "hosts");
}

/// Hosts share what arrives fairly, by receive windows.
#[test]
fn hosts_share_what_arrives() {
    keeps("inbound/hosts", "hosts");
}

/// A receive window holds a stream; Shah's thesis.
#[test]
fn a_window_holds_a_stream() {
    keeps("rate/6.2", "ours");
}

/// Classes have their weights; Mylonas's thesis.
#[test]
fn classes_have_their_weights() {
    keeps("ds/1.1", "half");
}

/// The edge of the controlled queue is where the theory has it; Braithwaite's thesis.
#[test]
fn the_edge_is_where_theory_has_it() {
    keeps("aqm/6.4", "edge");
}
