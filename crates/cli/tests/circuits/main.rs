// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate circuits` on a kernel: each test boots the lab's kernel and runs one of the functions
//! of `inside`, which calls the command. They need qemu, a fetched kernel and the guest's binary.

mod costs;
mod frames;
mod inside;
mod kept;
mod lists;
mod places;
mod plans;
mod queues;
mod room;
mod sent;
mod served;
mod sound;
mod status;
mod wire;

use weirgate_lab::{Limits, OwnTests, Together};

fn own(memory_mib: u32) -> OwnTests<'static> {
    OwnTests {
        programs: &[env!("CARGO_BIN_EXE_weirgate"), "ip", "tc"],
        kernel: None,
        variables: &[],
        seed: 1,
        limits: Limits {
            memory_mib,
            ..Limits::default()
        },
    }
}

/// Tests that share a guest.
mod together {
    mod lists {
        use super::super::*;

        static GUEST: Together = Together::new(
            || own(768),
            &[
                "inside::a_thousand_circuits_have_their_rates",
                "inside::what_is_wrong_changes_nothing",
                "inside::a_killed_change_leaves_one_of_the_lists",
                "kept::one_circuit_comes_changes_and_goes",
                "frames::a_tunnel_has_addresses_alone",
                "room::a_refused_list_takes_no_room",
                "status::a_device_that_fails_holds_up_no_other",
                "sound::one_wrong_bit_loses_no_list",
            ],
        );

        #[test]
        fn a_thousand_circuits_have_their_rates() {
            println!(
                "{}",
                GUEST.run("inside::a_thousand_circuits_have_their_rates")
            );
        }

        #[test]
        fn what_is_wrong_changes_nothing() {
            println!("{}", GUEST.run("inside::what_is_wrong_changes_nothing"));
        }

        #[test]
        fn a_killed_change_leaves_one_of_the_lists() {
            println!(
                "{}",
                GUEST.run("inside::a_killed_change_leaves_one_of_the_lists")
            );
        }

        #[test]
        fn one_circuit_comes_changes_and_goes() {
            println!("{}", GUEST.run("kept::one_circuit_comes_changes_and_goes"));
        }

        #[test]
        fn a_tunnel_has_addresses_alone() {
            println!("{}", GUEST.run("frames::a_tunnel_has_addresses_alone"));
        }

        #[test]
        fn a_refused_list_takes_no_room() {
            println!("{}", GUEST.run("room::a_refused_list_takes_no_room"));
        }

        #[test]
        fn one_wrong_bit_loses_no_list() {
            println!("{}", GUEST.run("sound::one_wrong_bit_loses_no_list"));
        }

        #[test]
        fn a_device_that_fails_holds_up_no_other() {
            println!(
                "{}",
                GUEST.run("status::a_device_that_fails_holds_up_no_other")
            );
        }
    }
}

/// Tests that only `make test-all` runs.
mod long {
    use super::own;

    #[test]
    fn status_says_what_is_in_force() {
        println!("{}", own(768).run("status::status_says_what_is_in_force"));
    }

    #[test]
    fn circuits_come_by_a_socket() {
        println!("{}", own(768).run("served::circuits_come_by_a_socket"));
    }

    #[test]
    fn plans_give_bursts_hours_and_quotas() {
        println!(
            "{}",
            own(768).run("plans::plans_give_bursts_hours_and_quotas")
        );
    }

    #[test]
    fn frames_reach_their_circuits() {
        println!("{}", own(768).run("frames::frames_reach_their_circuits"));
    }

    #[test]
    fn a_list_outlives_its_device() {
        println!("{}", own(768).run("kept::a_list_outlives_its_device"));
    }

    #[test]
    fn a_killed_change_of_one_is_mended() {
        println!("{}", own(768).run("kept::a_killed_change_of_one_is_mended"));
    }

    #[test]
    fn a_killed_service_is_mended() {
        println!("{}", own(768).run("served::a_killed_service_is_mended"));
    }

    #[test]
    fn a_socket_heeds_what_others_change() {
        println!(
            "{}",
            own(768).run("served::a_socket_heeds_what_others_change")
        );
    }

    #[test]
    fn a_list_goes_until_that_is_confirmed() {
        println!(
            "{}",
            own(768).run("status::a_list_goes_until_that_is_confirmed")
        );
    }

    #[test]
    fn keys_come_change_and_go() {
        println!("{}", own(768).run("frames::keys_come_change_and_go"));
    }

    #[test]
    fn sites_change_places() {
        println!("{}", own(768).run("places::sites_change_places"));
    }

    /// In a separate guest with four processors.
    #[test]
    fn sixteen_queues_share_a_rate() {
        let mut tests = own(1_024);
        tests.limits.processors = 4;
        println!("{}", tests.run("queues::sixteen_queues_share_a_rate"));
    }
}

/// Measures the time for 10^5 circuits. Part of the measurements. `WEIRGATE_PROGRAM` is the path of
/// another program to measure, for example the packaged one.
#[test]
#[ignore = "a figure: docs/measurements/circuits.md"]
fn many_circuits() {
    let named = std::env::var("WEIRGATE_PROGRAM");
    let program = named.as_deref().unwrap_or(env!("CARGO_BIN_EXE_weirgate"));
    let tests = OwnTests {
        programs: &[program, "ip", "tc"],
        ..own(1_536)
    };
    println!("{}", tests.run("inside::many_circuits"));
}

/// Measures the time for single circuits at a socket.
#[test]
#[ignore = "a figure: docs/measurements/circuits.md"]
fn many_served() {
    println!("{}", own(1_536).run("served::many_served"));
}

/// Measures the instructions of the look-up, by kind of key. Part of the measurements.
#[test]
#[ignore = "a figure: docs/measurements/circuits.md"]
fn look_up_costs() {
    println!("{}", own(1_536).run("costs::look_up_costs"));
}
