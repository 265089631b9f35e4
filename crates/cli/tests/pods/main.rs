// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate pods` in force: the lab's kernel boots and runs a function of `inside`, which calls
//! the command. The tests need qemu, a fetched kernel and the guest's binary.

mod inside;
mod node;

use weirgate_lab::{Limits, OwnTests};

/// Runs a function with this program in a machine with the given memory.
fn run(test: &str, weirgate: &str, memory_mib: u32) -> String {
    let own = OwnTests {
        programs: &[weirgate, "ip", "tc"],
        kernel: None,
        variables: &[],
        seed: 1,
        limits: Limits {
            memory_mib,
            ..Limits::default()
        },
    };
    own.run(test)
}

#[test]
fn files_and_devices_are_followed() {
    let weirgate = env!("CARGO_BIN_EXE_weirgate");
    println!(
        "{}",
        run("inside::files_and_devices_are_followed", weirgate, 512)
    );
}

mod long {
    use super::run;
    use std::path::Path;

    /// Runs with the optimised program of the packages, because its speed is measured. Takes four
    /// minutes.
    #[test]
    fn a_thousand_pods_have_their_rates() {
        let built = Path::new(env!("CARGO_BIN_EXE_weirgate")).ancestors().nth(2);
        let weirgate = built.expect("target").join("dist/weirgate");
        assert!(weirgate.exists(), "missing: run `cargo router`");
        let weirgate = weirgate.to_str().expect("a path of UTF-8");
        println!(
            "{}",
            run("inside::a_thousand_pods_have_their_rates", weirgate, 3_072)
        );
    }
}
