// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate probe` on lines of known kinds. Each test boots the lab's kernel and measures there,
//! in virtual time, with the command at both ends. The tests need qemu, a fetched kernel and the
//! guest's binary.

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

/// The variable with the numbers of the lines that a guest measures, and the default number of
/// lines for each guest. One guest with all forty would run for an hour.
const LINES: &str = "WEIRGATE_LINES";
const LINES_EACH: usize = 4;

fn run(name: &str, variables: &[&str]) -> String {
    let own = OwnTests {
        programs: &[env!("CARGO_BIN_EXE_weirgate"), "env", "ip", "tc", "sysctl"],
        kernel: None,
        variables,
        seed: 1,
        limits: Limits {
            wall: Duration::from_hours(1),
            ..Limits::default()
        },
    };
    own.run(&format!("inside::{name}"))
}

/// Measures all forty lines in ten guests, or those of the variable in one.
fn forty(name: &str) {
    let all: Vec<String> = (0..40).map(|number: usize| number.to_string()).collect();
    let groups = match env::var(LINES) {
        Ok(stated) => vec![stated],
        Err(_) => all.chunks(LINES_EACH).map(|some| some.join("+")).collect(),
    };
    for group in groups {
        println!("{}", run(name, &[&format!("{LINES}={group}")]));
    }
}

/// Measures all of them; `cargo xtask probe-lines` runs this test and the next.
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

/// Tests that only `make test-all` runs.
mod long {
    use super::*;

    #[test]
    fn two_lines_are_measured() {
        println!("{}", run("two_lines", &[]));
    }

    /// One line of each layer, with very different overheads and rates.
    #[test]
    fn three_of_the_forty_lines_are_measured() {
        println!("{}", run("forty_lines", &[&format!("{LINES}=1+10+15")]));
    }

    #[test]
    fn three_more_of_the_forty_lines_are_measured() {
        println!("{}", run("forty_lines", &[&format!("{LINES}=5+11+36")]));
    }
}
