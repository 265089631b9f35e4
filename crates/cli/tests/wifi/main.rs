// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Wi-Fi: two radios of `mac80211_hwsim` in the lab's machine with Debian's generic kernel, and a
//! medium between them that takes time for each frame. The test measures what a gate before a radio
//! can promise, on both sides of the radio's own rate.
//!
//! It needs qemu, the kernel `generic` (`weirgate-lab lab prepare --kernel generic`), the
//! guest's binary, and a mirror of Debian for `iw` at the first run.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests are tests too, and what was seen is shown"
)]

mod inside;
mod medium;
mod netlink;

use std::time::Duration;
use weirgate_experiment::KernelName;
use weirgate_lab::{Cache, Limits, OwnTests, package};

/// Tests that only `make test-all` runs.
mod long {
    #[test]
    fn a_gate_holds_before_a_radio_that_is_faster() {
        super::in_the_guest("inside::a_gate_before_a_radio");
    }
}

fn in_the_guest(name: &str) {
    let tree = package("iw", &Cache::of_user(), &mut |_| ());
    let tree = tree.unwrap_or_else(|error| panic!("{error}"));
    // Newer releases of Debian have it below `usr`.
    let places = ["usr/sbin/iw", "sbin/iw"].map(|place| tree.join(place));
    let iw = places.iter().find(|path| path.exists()).unwrap();
    let iw = iw.to_string_lossy();
    let own = OwnTests {
        programs: &[env!("CARGO_BIN_EXE_weirgate"), "ip", "tc", &iw],
        kernel: Some(KernelName::Generic),
        variables: &[],
        seed: 1,
        limits: Limits {
            wall: Duration::from_mins(8),
            ..Limits::default()
        },
    };
    println!("{}", own.run(name));
}
