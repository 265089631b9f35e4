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

use std::collections::BTreeSet;
use std::env;
use std::time::Duration;
use weirgate_lab::{Lab, Limits, Options};

fn in_the_guest(name: &str, limits: Limits) -> String {
    let own = env::current_exe().expect("own path");
    let file = own
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let programs = [
        own.to_string_lossy().into_owned(),
        env!("CARGO_BIN_EXE_weirgate").to_owned(),
        "ip".to_owned(),
        "tc".to_owned(),
    ];
    let options = Options {
        programs: BTreeSet::from(programs),
        ..Options::default()
    };
    let lab = Lab::open(&options, &mut |_| ()).unwrap_or_else(|error| panic!("{error}"));
    let function = format!("inside::{name}");
    let words = [&*file, "--exact", &function, "--ignored", "--nocapture"];
    let output = lab
        .execute(&words, 1, limits)
        .unwrap_or_else(|error| panic!("{error}"));
    let text = String::from_utf8_lossy(&output.result).into_owned();
    assert!(
        text.starts_with("status: 0\n") && text.contains("1 passed"),
        "{text}"
    );
    text
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
