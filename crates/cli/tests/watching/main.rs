// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate watch` while the clock is set, without processor time, and with queues that other
//! kernels may lack. It runs in the lab's kernel, whose clock nothing else uses. The tests need
//! qemu, a fetched kernel and the guest's binary.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests are tests too, and what was seen is shown"
)]

mod circuits;
mod inside;
mod kit;
mod late;
#[path = "../circuits/lists.rs"]
mod lists;

use std::time::Duration;
use weirgate_lab::{Limits, OwnTests};

fn in_the_guest(name: &str) {
    in_one_of(name, env!("CARGO_BIN_EXE_weirgate"), Limits::default());
}

fn in_one_of(name: &str, program: &str, limits: Limits) {
    let own = OwnTests {
        programs: &[program, "ip", "tc"],
        kernel: None,
        variables: &[],
        seed: 1,
        limits,
    };
    println!("{}", own.run(name));
}

/// Measures a sample of many circuits. Part of the measurements. `WEIRGATE_PROGRAM` is the path of
/// another program to measure, such as the packaged one.
#[test]
#[ignore = "a figure: docs/watch.md"]
fn many_circuits_are_watched() {
    let limits = Limits {
        memory_mib: 3_072,
        wall: Duration::from_mins(30),
        ..Limits::default()
    };
    let named = std::env::var("WEIRGATE_PROGRAM");
    let program = named.as_deref().unwrap_or(env!("CARGO_BIN_EXE_weirgate"));
    in_one_of("circuits::many_circuits", program, limits);
}

#[test]
fn probes_are_timed_by_the_kernel() {
    in_the_guest("late::stopped");
}

/// Tests that only `make test-all` runs.
mod long {
    use super::{Limits, in_one_of};

    #[test]
    fn circuits_are_watched() {
        let limits = Limits {
            memory_mib: 768,
            ..Limits::default()
        };
        let program = env!("CARGO_BIN_EXE_weirgate");
        in_one_of("circuits::circuits_are_watched", program, limits);
    }

    #[test]
    fn classes_of_the_kit_and_tins_are_seen() {
        super::in_the_guest("kit::kit_and_tins");
    }

    #[test]
    fn a_cakes_rate_is_the_links() {
        super::in_the_guest("kit::cake_has_the_links_rate");
    }

    #[test]
    fn a_clock_that_is_set_makes_no_spikes() {
        super::in_the_guest("inside::clock_is_set");
    }
}
