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

use std::time::Duration;
use weirgate_lab::{Limits, OwnTests};

fn in_the_guest(name: &str, limits: Limits) -> String {
    let own = OwnTests {
        programs: &[env!("CARGO_BIN_EXE_weirgate"), "ip", "tc"],
        variables: &[],
        seed: 1,
        limits,
    };
    own.run(&format!("inside::{name}"))
}

#[test]
fn two_lines_are_measured() {
    println!("{}", in_the_guest("two_lines", Limits::default()));
}

/// All of them: `cargo xtask probe-lines` runs it.
#[test]
#[ignore = "measures forty lines, for many minutes"]
fn forty_lines_are_measured() {
    let limits = Limits {
        wall: Duration::from_hours(3),
        ..Limits::default()
    };
    println!("{}", in_the_guest("forty_lines", limits));
}
