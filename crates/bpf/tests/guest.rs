// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Disciplines in a real kernel, under real TCP.
//!
//! Each test boots the lab's kernel and runs one of the functions of `inside`
//! there: this very file, packed as a program. It needs qemu, a fetched kernel
//! and the guest's binary.

mod inside;

use std::collections::BTreeSet;
use std::env;
use std::time::Duration;
use weirgate_lab::{Lab, Limits, Options};

/// Set in the guest: which function to run.
fn in_the_guest(name: &str) -> String {
    within(name, Limits::default())
}

/// The same with bounds of its own.
fn within(name: &str, limits: Limits) -> String {
    let own = env::current_exe().expect("own path");
    let file = own
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let own = own.to_string_lossy().into_owned();
    let options = Options {
        programs: BTreeSet::from([own, "ip".into(), "tc".into()]),
        ..Options::default()
    };
    let lab = Lab::open(&options, &mut |_| ()).unwrap_or_else(|error| panic!("{error}"));
    let function = format!("inside::{name}");
    let words = [
        file.as_str(),
        "--exact",
        &function,
        "--ignored",
        "--nocapture",
    ];
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
fn every_discipline_is_taken_by_the_kernel() {
    in_the_guest("loads");
}

#[test]
fn payload_finds_signatures() {
    in_the_guest("payload::signatures");
}

#[test]
fn two_devices_keep_two_states() {
    println!("{}", in_the_guest("two_devices"));
}

#[test]
fn shaper_is_taken_by_the_kernel() {
    in_the_guest("shaper_loads");
}

#[test]
fn shaper_holds_the_line() {
    println!("{}", in_the_guest("shaper_holds_the_line"));
}

#[test]
fn shaper_shares_the_wire() {
    println!("{}", in_the_guest("shaper_shares_the_wire"));
}

#[test]
fn kernel_and_native_host_agree() {
    println!("{}", in_the_guest("parity::quick"));
}

/// Must show 4 of the kit: `cargo xtask aqm-parity` runs it.
#[test]
#[ignore = "takes an hour on a busy machine"]
fn kernel_and_native_host_agree_on_a_million_packets() {
    let limits = Limits {
        wall: Duration::from_hours(2),
        ..Limits::default()
    };
    println!("{}", within("parity::million", limits));
}
