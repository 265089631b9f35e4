// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate pods` on a kernel: the lab's boots, and runs one of the functions of
//! `inside`, which calls the command. It needs qemu, a fetched kernel and the guest's
//! binary.

mod inside;
mod node;

use weirgate_lab::{Limits, OwnTests};

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

#[test]
fn files_and_devices_are_followed() {
    println!("{}", own(512).run("inside::files_and_devices_are_followed"));
}

mod long {
    use super::own;

    /// Two minutes.
    #[test]
    fn a_thousand_pods_have_their_rates() {
        println!(
            "{}",
            own(3_072).run("inside::a_thousand_pods_have_their_rates")
        );
    }
}
