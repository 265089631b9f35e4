// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate links` at a router with two links or four, in a virtual machine. One link fails silently under
//! load and returns; connections are divided by weight. The tests need qemu, a fetched kernel and
//! the guest's binary.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests are tests too, and what was seen is shown"
)]

mod confirmed;
mod cuts;
mod four;
mod inside;
mod net;
mod signs;

use weirgate_lab::{Limits, OwnTests, Together};

fn own() -> OwnTests<'static> {
    OwnTests {
        programs: &[env!("CARGO_BIN_EXE_weirgate"), "ip", "tc", "nft"],
        kernel: None,
        variables: &[],
        seed: 1,
        limits: Limits::default(),
    }
}

static IN_THE_GUEST: Together = Together::new(
    own,
    &[
        "inside::a_link_dies_silently",
        "inside::balance",
        "four::die_in_turn",
        "confirmed::held_meanwhile",
        "confirmed::an_ifb_stays",
        "signs::told",
        "signs::renewed",
    ],
);

/// One run of the guest serves all these tests.
mod together {
    mod links {
        use crate::IN_THE_GUEST;

        #[test]
        fn a_link_that_dies_silently_is_left_within_seconds() {
            println!("{}", IN_THE_GUEST.run("inside::a_link_dies_silently"));
        }

        #[test]
        fn connections_are_divided_by_weight_and_by_rule() {
            println!("{}", IN_THE_GUEST.run("inside::balance"));
        }

        #[test]
        fn four_links_die_in_turn_and_their_connections_are_reset() {
            println!("{}", IN_THE_GUEST.run("four::die_in_turn"));
        }

        #[test]
        fn a_change_of_links_leaves_an_ifb_alone() {
            println!("{}", IN_THE_GUEST.run("confirmed::an_ifb_stays"));
        }

        #[test]
        fn who_holds_links_goes_on_with_those_that_are_applied() {
            println!("{}", IN_THE_GUEST.run("confirmed::held_meanwhile"));
        }

        #[test]
        fn a_device_that_is_not_operational_makes_its_link_suspected() {
            println!("{}", IN_THE_GUEST.run("signs::told"));
        }

        #[test]
        fn a_renewed_default_route_is_no_outage() {
            println!("{}", IN_THE_GUEST.run("signs::renewed"));
        }
    }
}

/// Tests that only `make test-all` runs.
mod long {
    use crate::cuts::CUTS;
    use crate::own;
    use std::time::Duration;
    use weirgate_lab::{Limits, OwnTests};

    #[test]
    fn a_next_hop_that_does_not_answer_makes_its_link_suspected() {
        println!("{}", own().run("signs::next_hop"));
    }

    #[test]
    fn a_link_that_fails_at_random_is_used_again_only_after_steady_answers() {
        let or = |name: &str, value: &str| {
            let set = std::env::var(name).unwrap_or_else(|_| value.to_owned());
            format!("{name}={set}")
        };
        let variables = [or(CUTS, "200"), or("WEIRGATE_SEED", "1")];
        let variables: Vec<&str> = variables.iter().map(String::as_str).collect();
        let cuts = OwnTests {
            programs: &[env!("CARGO_BIN_EXE_weirgate"), "env", "ip", "nft"],
            variables: &variables,
            limits: Limits {
                wall: Duration::from_mins(40),
                ..Limits::default()
            },
            ..own()
        };
        println!("{}", cuts.run("cuts::random"));
    }

    #[test]
    fn links_that_nobody_confirms_are_taken_back_exactly() {
        println!("{}", own().run("confirmed::taken_back"));
    }

    #[test]
    fn silence_under_load_is_detected_sooner_and_an_idle_link_is_not_suspected() {
        println!("{}", own().run("signs::detected"));
    }
}
