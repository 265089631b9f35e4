// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A router between namespaces whose TCP sends merged packets through veth pairs, in a virtual
//! machine. The tests need qemu, a fetched kernel and the guest's binary.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests are tests too, and what was seen is shown"
)]

mod inside;
#[path = "../links/net.rs"]
#[allow(dead_code, reason = "shared with the tests of links")]
mod net;

use weirgate_lab::{Limits, OwnTests};

fn own() -> OwnTests<'static> {
    OwnTests {
        programs: &[env!("CARGO_BIN_EXE_weirgate"), "ethtool", "ip", "tc", "nft"],
        kernel: None,
        variables: &[],
        seed: 1,
        limits: Limits::default(),
    }
}

#[test]
fn what_cuts_comes_in_place_and_goes_without_a_trace() {
    println!("{}", own().run("inside::changes_and_repairs"));
}

/// Measures what the detour takes. Part of the measurements.
#[test]
#[ignore = "a figure: docs/decisions/0067-merged-packets-are-cut-where-they-arrive.md"]
fn the_cost_of_a_packet() {
    println!("{}", own().run("inside::cost"));
}
