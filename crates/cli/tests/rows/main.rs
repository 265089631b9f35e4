// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A policy with `engine = "rows"` in force: applied, changed under traffic, taken back, killed,
//! repaired, and moved to another engine. The lab's kernel boots and runs the functions of the
//! other modules, which call the command. The tests need qemu, a fetched kernel and the guest's
//! binary.

#![allow(clippy::print_stdout, reason = "what was seen is shown")]

mod changes;
mod engines;
mod held;
mod inside;
mod kept;
mod killed;
#[path = "../../../bpf/tests/inside/net.rs"]
#[allow(dead_code, reason = "shared with the tests of crate bpf")]
mod net;
#[path = "../../../bpf/tests/inside/tap.rs"]
mod tap;

use weirgate_lab::{Limits, OwnTests};

fn own() -> OwnTests<'static> {
    OwnTests {
        programs: &[env!("CARGO_BIN_EXE_weirgate"), "ip", "tc", "nft"],
        kernel: None,
        variables: &[],
        seed: 1,
        limits: Limits::default(),
    }
}

#[test]
fn edits_under_traffic_store_what_differs() {
    let name = "changes::edits_under_traffic_store_what_differs";
    println!("{}", own().run(name));
}

/// Tests that only `make test-all` runs.
mod long {
    use super::own;

    #[test]
    fn an_unconfirmed_change_returns() {
        println!("{}", own().run("changes::an_unconfirmed_change_returns"));
    }

    #[test]
    fn a_held_lock_on_pins_delays_only_what_needs_them() {
        let name = "held::a_held_lock_on_pins_delays_only_what_needs_them";
        println!("{}", own().run(name));
    }

    #[test]
    fn a_killed_change_leaves_the_old_rows_or_the_new() {
        let name = "killed::a_killed_change_leaves_the_old_rows_or_the_new";
        println!("{}", own().run(name));
    }

    #[test]
    fn what_somebody_removed_comes_back() {
        println!("{}", own().run("kept::what_somebody_removed_comes_back"));
    }

    #[test]
    fn engines_take_turns() {
        println!("{}", own().run("engines::take_turns"));
    }

    #[test]
    fn a_killed_first_apply_leaves_nothing() {
        println!(
            "{}",
            own().run("killed::a_killed_first_apply_leaves_nothing")
        );
    }

    #[test]
    fn a_killed_change_of_engine_leaves_one_of_them() {
        let name = "killed::a_killed_change_of_engine_leaves_one_of_them";
        println!("{}", own().run(name));
    }
}

/// Measures the time of a change of one class. Part of the measurements.
#[test]
#[ignore = "a figure: docs/measurements/engine.md"]
fn one_change_among_many() {
    println!("{}", own().run("changes::one_change_among_many"));
}
