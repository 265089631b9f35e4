// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate domain` on domains that are built in the lab's kernel: each test
//! boots it and makes a namespace for every router and every customer, in
//! virtual time. It needs qemu, a fetched kernel and the guest's binary.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests are tests too, and what was measured is shown"
)]

mod broken;
mod inside;
mod topology;

use std::collections::BTreeSet;
use std::env;
use std::time::Duration;
use weirgate_lab::{Lab, Limits, Options};

fn in_the_guest(function: &str) {
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
        "nft".to_owned(),
        "sysctl".to_owned(),
    ];
    let options = Options {
        programs: BTreeSet::from(programs),
        ..Options::default()
    };
    let lab = Lab::open(&options, &mut |_| ()).unwrap_or_else(|error| panic!("{error}"));
    let words = [&*file, "--exact", function, "--ignored", "--nocapture"];
    let limits = Limits {
        wall: Duration::from_mins(30),
        ..Limits::default()
    };
    let output = lab
        .execute(&words, 1, limits)
        .unwrap_or_else(|error| panic!("{error}"));
    let text = String::from_utf8_lossy(&output.result).into_owned();
    println!("{text}");
    assert!(
        text.starts_with("status: 0\n") && text.contains("1 passed"),
        "{text}"
    );
}

/// Eight routers, forty customers: applied, verified, broken, found. To be run
/// by name.
#[test]
#[ignore = "loads a hundred programs in the guest, for many minutes"]
fn eight_routers_and_forty_customers() {
    in_the_guest("inside::eight_routers");
}

/// Three routers, six customers: one fails and all return; applied and kept;
/// one is broken and named, asked or not; repaired.
#[test]
fn a_broken_router_is_named() {
    in_the_guest("broken::three_routers");
}

/// Expedited forwarding through five saturated ports.
#[test]
fn five_saturated_hops() {
    in_the_guest("inside::five_hops");
}
