// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The oldest supported kernel, and its verifier's answers for all programs.

use std::process::Command;

/// Programs that need a kernel newer than 6.1, besides qdiscs of BPF programs: arenas (6.9), marks
/// by such qdiscs, loops that the kernel counts (6.4).
const NEWER: [&str; 4] = ["circuits", "engine", "marks", "ingress_pie"];

/// Programs that need a kernel newer than 6.12.
const NEWER_THAN_6_12: [&str; 1] = ["engine"];

/// Instructions that a verifier may process for one program: a tenth of the kernel's limit. Each
/// takes a microsecond or two, so more would delay `apply`. A loop that is verified once for each
/// path into it would exceed the limit.
const VERIFIED_MOST: u64 = 100_000;

/// Returns the instructions that the verifier processed for a program, from a line of `aqm verify`.
fn verified(line: &str) -> u64 {
    let (before, _) = line.split_once(" verified").expect("a number");
    let number = before.rsplit(' ').next().expect("a number");
    number.parse().expect("a number")
}

/// Returns the answers of a kernel's verifier for every program.
fn asked(kernel: &[&str]) -> String {
    let mut command = Command::new(crate::LAB);
    let output = command.args(["aqm", "verify"]).args(kernel).output();
    let output = output.expect("the laboratory");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Checks a verifier's answers: it accepts all but `newer` and qdiscs, and quickly.
fn takes(text: &str, newer: &[&str]) {
    let (taken, refused): (Vec<&str>, Vec<&str>) = text
        .lines()
        .filter(|line| line.contains(" instructions, ") || line.contains("not taken: "))
        .partition(|line| line.contains(" instructions, "));
    assert!(taken.len() > 15, "{text}");
    for line in taken {
        assert!(verified(line) <= VERIFIED_MOST, "{line}");
    }
    for line in refused {
        let name = line.split_whitespace().next().unwrap_or_default();
        let is_newer = newer.contains(&name) || line.contains("qdiscs of BPF programs");
        assert!(is_newer, "{line}");
    }
}

/// Tests that only `make test-all` runs.
mod long {
    /// Its verifier walks through loops that later ones prune.
    #[test]
    fn debian_13_takes_what_is_for_it() {
        let prepared = std::process::Command::new(crate::LAB)
            .args(["lab", "prepare", "--kernel", "6.12"])
            .status();
        assert!(prepared.expect("the laboratory").success());
        super::takes(
            &super::asked(&["--kernel", "6.12"]),
            &super::NEWER_THAN_6_12,
        );
    }

    /// No program keeps the verifier busy for long.
    #[test]
    fn every_program_is_verified_soon() {
        let text = super::asked(&["--lab"]);
        let taken = text
            .lines()
            .filter(|line| line.contains(" verified at most"));
        let taken: Vec<&str> = taken.collect();
        assert!(taken.len() > 30, "{text}");
        for line in taken {
            assert!(super::verified(line) <= super::VERIFIED_MOST, "{line}");
        }
    }
}

/// A program that a kernel refuses makes all of its policies unavailable there.
#[test]
fn the_oldest_kernel_takes_what_is_for_it() {
    takes(&asked(&["--kernel", "6.1"]), &NEWER);
}
