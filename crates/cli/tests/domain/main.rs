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
mod tunnels;

use std::time::Duration;
use weirgate_lab::{Limits, OwnTests};

fn in_the_guest(function: &str) {
    let own = OwnTests {
        programs: &[env!("CARGO_BIN_EXE_weirgate"), "ip", "tc", "nft", "sysctl"],
        variables: &[],
        seed: 1,
        limits: Limits {
            wall: Duration::from_mins(30),
            ..Limits::default()
        },
    };
    println!("{}", own.run(function));
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

/// Tunnels of both IP versions, classified by what is inside and outside.
#[test]
fn tunnels_by_inner_and_outer_code_point() {
    in_the_guest("tunnels::inner_and_outer");
}
