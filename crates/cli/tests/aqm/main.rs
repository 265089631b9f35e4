// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate aqm` on a kernel: each test boots the lab's kernel and runs one of the functions of
//! `inside` there, which calls the command. Those of `together` share a machine. They need qemu, a
//! fetched kernel and the guest's binary.

mod classes;
mod cycles;
mod device;
mod howto;
mod ingress;
mod inside;
mod leaves;
mod marks;
mod older;
mod work;

use std::path::Path;
use std::time::Duration;
use weirgate_lab::{Limits, OwnTests, Together};

/// The program of the lab, to which `weirgate` delegates.
const LAB: &str = concat!(env!("CARGO_BIN_EXE_weirgate"), "-lab");

fn in_the_guest(name: &str) -> String {
    bringing(name, Limits::default(), &[])
}

/// Runs a test with files beside the programs.
fn with(name: &str, files: &[String]) -> String {
    bringing(name, Limits::default(), files)
}

fn bringing(name: &str, limits: Limits, files: &[String]) -> String {
    run(&format!("inside::{name}"), limits, files)
}

/// Runs the test of this path.
fn run(path: &str, limits: Limits, files: &[String]) -> String {
    let mut programs = vec![env!("CARGO_BIN_EXE_weirgate"), LAB, "ip", "tc"];
    programs.extend(files.iter().map(String::as_str));
    let own = OwnTests {
        programs: &programs,
        kernel: None,
        variables: &[],
        seed: 1,
        limits,
    };
    own.run(path)
}

/// Tests that share a guest.
mod together {
    mod commands {
        use super::super::{LAB, Limits, OwnTests, Together};

        static GUEST: Together = Together::new(
            || OwnTests {
                programs: &[env!("CARGO_BIN_EXE_weirgate"), LAB, "ip", "tc"],
                kernel: None,
                variables: &[],
                seed: 1,
                limits: Limits::default(),
            },
            &[
                "inside::load_show_change_unload",
                "inside::classes_behind_the_gate",
                "inside::trace_record_replay",
                "ingress::load_show_change_unload",
            ],
        );

        #[test]
        fn load_show_change_unload() {
            println!("{}", GUEST.run("inside::load_show_change_unload"));
        }

        #[test]
        fn classes_behind_the_gate() {
            println!("{}", GUEST.run("inside::classes_behind_the_gate"));
        }

        #[test]
        fn trace_record_replay() {
            println!("{}", GUEST.run("inside::trace_record_replay"));
        }

        #[test]
        fn at_ingress_nothing_waits() {
            println!("{}", GUEST.run("ingress::load_show_change_unload"));
        }
    }
}

/// Must show 7 of the kit: `cargo xtask aqm-cycles` runs it. Each kind of qdisc has a separate
/// machine, so that a run can select kinds and counts: `WEIRGATE_KINDS=0,1,5 WEIRGATE_EACH=340`.
#[test]
#[ignore = "takes some two hours"]
fn nothing_stays_behind_a_thousand_cycles() {
    let chosen =
        std::env::var("WEIRGATE_KINDS").unwrap_or_else(|_| "0,1,2,3,4,5,6,7,8,9,10,11".into());
    let each = std::env::var("WEIRGATE_EACH").unwrap_or_else(|_| "85".into());
    for kind in chosen.split(',') {
        let variables = [
            format!("WEIRGATE_KIND={kind}"),
            format!("WEIRGATE_CYCLES={each}"),
        ];
        let own = OwnTests {
            programs: &[env!("CARGO_BIN_EXE_weirgate"), "ip", "tc", "env"],
            kernel: None,
            variables: &[&variables[0], &variables[1]],
            seed: 1,
            limits: Limits {
                wall: Duration::from_hours(1),
                ..Limits::default()
            },
        };
        println!("kind {kind}\n{}", own.run("cycles::of_one_kind"));
    }
}

/// Builds a discipline of the user's own, and a version of it with another default.
fn two_versions(folder: &Path) -> [String; 2] {
    let other = |folder: &Path| {
        work::change(folder, "AQM_PACKETS, 0, 0,", "AQM_PACKETS, 7, 0,");
    };
    [
        work::built(folder, "mean.so", |_| ()),
        work::built(folder, "changed.so", other),
    ]
}

#[test]
fn a_discipline_of_ones_own() {
    let folder = tempfile::tempdir().expect("a folder");
    println!("{}", with("of_ones_own", &two_versions(folder.path())));
}

/// Tests that only `make test-all` runs.
mod long {
    use super::*;

    #[test]
    fn a_discipline_of_ones_own_in_a_class() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = two_versions(folder.path());
        println!("{}", run("leaves::of_ones_own", Limits::default(), &files));
    }

    #[test]
    fn a_loop_that_is_too_long_is_refused() {
        work::a_long_loop_is_refused();
    }

    #[test]
    fn a_hidden_loop_that_begins_again_is_refused() {
        work::a_hidden_loop_that_begins_again_is_refused();
    }

    #[test]
    fn queues_of_a_policy() {
        println!("{}", in_the_guest("queues_of_a_policy"));
    }

    #[test]
    fn what_is_not_asked_for_decides_nothing() {
        work::what_is_not_asked_for_decides_nothing();
    }

    #[test]
    fn marks_of_a_policy_are_read_back() {
        run("marks::of_a_policy", Limits::default(), &[]);
    }

    #[test]
    fn two_devices_and_unloading_under_traffic() {
        println!("{}", in_the_guest("two_devices"));
    }

    #[test]
    fn unloading_loses_what_is_queued() {
        let limits = Limits::default();
        println!(
            "{}",
            run("device::unloading_loses_what_is_queued", limits, &[])
        );
    }

    #[test]
    fn nothing_joins_packets_for_a_gate() {
        let limits = Limits::default();
        println!(
            "{}",
            run("device::nothing_joins_packets_for_a_gate", limits, &[])
        );
    }

    #[test]
    fn nothing_stays_behind() {
        println!("{}", run("cycles::of_every_kind", Limits::default(), &[]));
    }

    /// The share of a class changes while packets wait in it.
    #[test]
    fn a_class_changes_and_keeps_its_queue() {
        let limits = Limits::default();
        println!("{}", run("classes::change_in_place", limits, &[]));
    }

    #[test]
    fn what_is_left_of_a_device_is_removed() {
        let limits = Limits::default();
        run("ingress::what_is_left_of_a_device_is_removed", limits, &[]);
    }

    #[test]
    fn ones_own_decides_at_ingress() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = [work::built(folder.path(), "mean.so", |_| ())];
        run("ingress::of_ones_own", Limits::default(), &files);
    }
}
