// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate init` at four topologies, from nothing to a shaped line that is read back. It runs in
//! a virtual machine with the lab's kernel, which has VLAN, cake and fq_codel. The fifth, a PPP
//! session, is in `tests/cli/init.rs`, because that kernel has no PPP. The tests need qemu, a
//! fetched kernel and the guest's binary.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests are tests too, and what was seen is shown"
)]

mod inside;

use weirgate_lab::{Limits, OwnTests};

fn in_the_guest(name: &str) {
    let own = OwnTests {
        programs: &[
            env!("CARGO_BIN_EXE_weirgate"),
            "ip",
            "tc",
            "nft",
            "sysctl",
            "bridge",
        ],
        kernel: None,
        variables: &[],
        seed: 1,
        limits: Limits::default(),
    };
    println!("{}", own.run(&format!("inside::{name}")));
}

#[test]
fn a_bridge_is_shaped_by_one_command() {
    in_the_guest("one_topology");
}

/// Tests that only `make test-all` runs.
mod long {
    #[test]
    fn four_topologies_are_shaped_by_one_command_each() {
        super::in_the_guest("topologies");
    }

    #[test]
    fn the_delay_is_measured_before_and_after() {
        super::in_the_guest("measured");
    }

    #[test]
    fn a_fast_line_is_measured() {
        super::in_the_guest("measured_fast");
    }
}
