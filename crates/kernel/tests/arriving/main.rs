// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The treatment of arriving packets, on a kernel that has `act_ctinfo`.
//!
//! The test boots the lab's kernel and runs functions of `inside` and `faults` there: this very
//! file, packed as a program. It needs qemu, a fetched kernel and the guest's binary.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that is not as expected"
)]

mod acks;
mod faults;
mod inside;
mod listed;
mod simulated;
mod tunnels;

use weirgate_lab::{Limits, OwnTests, Together};

fn own() -> OwnTests<'static> {
    OwnTests {
        programs: &["ip", "tc", "nft"],
        kernel: None,
        variables: &[],
        seed: 1,
        limits: Limits::default(),
    }
}

/// Tests that share a guest, each in its own network namespace there.
mod together {
    mod arriving {
        use super::super::{Together, own};

        static GUEST: Together = Together::new(
            own,
            &[
                "inside::kept_behind_nat",
                "inside::parts_behind_nat",
                "inside::shared",
                "tunnels::marks_survive",
                "acks::in_the_tree",
                "acks::in_the_shaper",
                "acks::in_the_engine",
                "listed::made_again",
            ],
        );

        #[test]
        fn a_kept_decision_reaches_what_arrives_behind_nat() {
            let _ = GUEST.run("inside::kept_behind_nat");
        }

        #[test]
        fn shares_and_limits_hold_behind_nat_where_packets_arrive() {
            let _ = GUEST.run("inside::parts_behind_nat");
        }

        #[test]
        fn the_place_is_shared_and_left_as_it_was() {
            let _ = GUEST.run("inside::shared");
        }

        #[test]
        fn a_tree_of_others_is_made_again_as_it_was_listed() {
            let _ = GUEST.run("listed::made_again");
        }

        #[test]
        fn a_mark_of_the_inner_packet_is_on_the_outer() {
            let _ = GUEST.run("tunnels::marks_survive");
        }

        #[test]
        fn acknowledgements_that_say_nothing_of_their_own_are_dropped() {
            for test in [
                "acks::in_the_tree",
                "acks::in_the_shaper",
                "acks::in_the_engine",
            ] {
                let _ = GUEST.run(test);
            }
        }
    }
}

/// Tests that only `make test-all` runs.
mod long {
    #[test]
    fn a_fault_at_any_request_leaves_what_was_before() {
        let _ = super::own().run("faults::every_request");
    }
}
