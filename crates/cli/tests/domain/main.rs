// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate domain` on domains that are built in the lab's kernel. Each test boots it and creates
//! a namespace for every router and every customer, in virtual time. The tests need qemu, a fetched
//! kernel and the guest's binary.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests are tests too, and what was measured is shown"
)]

mod broken;
mod failing;
mod inside;
mod levels;
mod lists;
mod scope;
mod topology;
mod tunnels;

use std::process::Command;
use std::time::Duration;
use weirgate_lab::{Limits, OwnTests};

fn in_the_guest(function: &str) {
    let own = OwnTests {
        programs: &[
            env!("CARGO_BIN_EXE_weirgate"),
            concat!(env!("CARGO_BIN_EXE_weirgate"), "-lab"),
            "ip",
            "tc",
            "nft",
            "sysctl",
            "sh",
            "sleep",
        ],
        kernel: None,
        variables: &[],
        seed: 1,
        limits: Limits {
            wall: Duration::from_mins(30),
            ..Limits::default()
        },
    };
    println!("{}", own.run(function));
}

/// Applies eight routers with forty customers, verifies them, and finds a broken one. To be run by
/// name.
#[test]
#[ignore = "loads a hundred programs in the guest, for many minutes"]
fn eight_routers_and_forty_customers() {
    in_the_guest("inside::eight_routers");
}

/// Runs `domain try FILE`; returns its status and its report.
fn tried(file: &str, more: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_weirgate"))
        .args(["domain", "try", file].iter().chain(more))
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    let noted = String::from_utf8_lossy(&output.stderr);
    println!("{report}{noted}");
    (output.status.code(), report)
}

/// Tests that only `make test-all` runs.
mod long {
    use super::*;

    /// A small domain with links that have a delay, and customers of both IP versions.
    #[test]
    fn a_domain_is_tried_before_it_is_built() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/domain/small.toml");
        let (status, report) = tried(file, &["--time", "2s", "--beside", "3mbit"]);
        assert_eq!(status, Some(0), "{report}");
        assert!(
            report.contains("Everything that was promised is kept."),
            "{report}"
        );
        assert!(
            report.contains("Circuits came into force here and were read back."),
            "{report}"
        );
        // The path takes 15 ms, and the rest is at most the wait beside the load.
        let kept = report.lines().filter(|line| line.contains(" kept since "));
        let delays = kept.map(|line| {
            let cells: Vec<&str> = line.split("  ").filter(|cell| !cell.is_empty()).collect();
            // The last cells are rate, delay, jitter, loss and state.
            let delay = cells[cells.len() - 4].trim();
            delay.split(' ').next().unwrap().parse::<f64>().unwrap()
        });
        let delays: Vec<f64> = delays.collect();
        assert_eq!(delays.len(), 2, "{report}");
        assert!(
            delays.iter().all(|ms| (15.0..30.0).contains(ms)),
            "{delays:?}"
        );
    }

    /// Measures the time of eight routers with forty customers, in the lab's clock.
    #[test]
    fn eight_routers_in_time() {
        in_the_guest("inside::eight_timed");
    }

    /// Two boxes share one list: applied, refused by one, killed, lost and repaired.
    #[test]
    fn two_boxes_have_their_circuits() {
        in_the_guest("lists::two_boxes");
    }

    /// Three routers with six customers: one refuses and all return. After a successful apply, a
    /// broken router is named, with or without queries to it, and repaired.
    #[test]
    fn a_broken_router_is_named() {
        in_the_guest("broken::three_routers");
    }

    /// A router does not answer or is cut off, a confirmation is lost, or the applying command
    /// dies. All routers return to their former state.
    #[test]
    fn whatever_fails_all_return() {
        in_the_guest("failing::one_of_several");
    }

    /// Assured forwarding and DRT under the kit, beside a customer who sends four times his
    /// contract.
    #[test]
    fn contracts_hold_beside_one_who_exceeds_his() {
        in_the_guest("levels::beyond_contracts");
    }

    /// Expedited forwarding through five saturated ports.
    #[test]
    fn five_saturated_hops() {
        in_the_guest("inside::five_hops");
    }

    /// The example of eight routers and forty customers; its report fits one page.
    #[test]
    fn the_university_is_tried() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../domains/university.toml");
        let (status, report) = tried(file, &["--time", "2s", "--beside", "1mbit"]);
        assert_eq!(status, Some(0), "{report}");
        assert!(report.contains("Of 120 promises 120 are kept."), "{report}");
        assert_eq!(report.matches(" kept since ").count(), 60, "{report}");
        let page = report
            .lines()
            .skip_while(|line| !line.starts_with("Measured"));
        let end = "Everything that was promised is kept.";
        let lines = page.take_while(|line| *line != end).count() + 1;
        assert!(lines <= 66, "no page has {lines} lines: {report}");
    }

    /// Tunnels of both IP versions, classified by inner and outer code points.
    #[test]
    fn tunnels_by_inner_and_outer_code_point() {
        in_the_guest("tunnels::inner_and_outer");
    }

    /// Promises to one receiver do not hold for another. Packets are classified by their ports,
    /// with both IP versions.
    #[test]
    fn promises_hold_for_their_receiver_and_by_ports() {
        in_the_guest("scope::receivers_and_ports");
    }
}
