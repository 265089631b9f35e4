// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate probe` on lines of known kinds: each test boots the lab's kernel
//! and measures there, in virtual time, with the command at both ends. It needs
//! qemu, a fetched kernel and the guest's binary.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests are tests too, and what was measured is shown"
)]

mod inside;
mod words;

use std::env;
use std::time::Duration;
use weirgate_lab::{Limits, OwnTests};

/// The variable that says with which of the forty lines a guest begins, and how
/// many it has: a guest with all of them would run for an hour.
const PART: &str = "WEIRGATE_LINES_FROM";
const LINES_EACH: usize = 4;

fn run(name: &str, variables: &[&str]) -> String {
    let own = OwnTests {
        programs: &[env!("CARGO_BIN_EXE_weirgate"), "env", "ip", "tc", "sysctl"],
        variables,
        seed: 1,
        limits: Limits {
            wall: Duration::from_hours(1),
            ..Limits::default()
        },
    };
    own.run(&format!("inside::{name}"))
}

/// All forty in ten guests, or those of the guest that the variable names.
fn forty(name: &str) {
    let stated = env::var(PART).ok();
    let first: Vec<usize> = match stated {
        Some(first) => vec![first.parse().unwrap()],
        None => (0..40).step_by(LINES_EACH).collect(),
    };
    for first in first {
        println!("{}", run(name, &[&format!("{PART}={first}")]));
    }
}

#[test]
fn two_lines_are_measured() {
    println!("{}", run("two_lines", &[]));
}

/// All of them: `cargo xtask probe-lines` runs it and the next.
#[test]
#[ignore = "measures forty lines, for many minutes"]
fn forty_lines_are_measured() {
    forty("forty_lines");
}

#[test]
#[ignore = "measures forty lines, for many minutes"]
fn forty_lines_are_measured_by_echoes() {
    forty("forty_lines_by_echoes");
}
