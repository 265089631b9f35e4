// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The oldest kernel that weirgate is for, and what its verifier says of programs.

use std::process::Command;

/// What needs a newer one, beside qdiscs of BPF programs: arenas (6.9), marks that such
/// qdiscs make, loops that the kernel counts (6.4).
const NEWER: [&str; 4] = ["circuits", "engine", "marks", "ingress_pie"];

/// A program that it refuses leaves all of its policies out of force there.
#[test]
fn the_oldest_kernel_takes_what_is_for_it() {
    let mut command = Command::new(crate::LAB);
    let output = command.args(["aqm", "verify", "--kernel", "6.1"]).output();
    let output = output.expect("the laboratory");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (taken, refused): (Vec<&str>, Vec<&str>) = text
        .lines()
        .filter(|line| line.contains(" instructions, ") || line.contains("not taken: "))
        .partition(|line| line.contains(" instructions, "));
    assert!(taken.len() > 15, "{text}");
    for line in refused {
        let name = line.split_whitespace().next().unwrap_or_default();
        let is_newer = NEWER.contains(&name) || line.contains("qdiscs of BPF programs");
        assert!(is_newer, "{line}");
    }
}
