// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PPPoE with Debian's daemons: `pppd` with its plugin dials a `pppoe-server`, in the lab's machine
//! with Debian's generic kernel. Sessions end under load, and `keep` follows the device. The
//! charges of packets are compared with the wire below, and with an emulated line that replaces the
//! modem's bridge.
//!
//! It needs qemu, the kernel `generic` (`weirgate lab prepare --kernel generic`), the
//! guest's binary, and a mirror of Debian for the daemons at the first run.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests are tests too, and what was seen is shown"
)]

mod bound;
mod charges;
mod cuts;
mod daemons;
mod endings;
mod inside;
mod ipv6;
mod line;
mod monitor;
mod session;
mod wire;

use std::path::{Path, PathBuf};
use std::time::Duration;
use weirgate_experiment::KernelName;
use weirgate_lab::{Cache, Limits, OwnTests, package};

/// The variable with the folder in which pppd looks for its plugins.
const PLUGINS: &str = "WEIRGATE_PLUGINS";

/// The variable with the step between the packet sizes that are compared with the wire.
const SIZES: &str = "WEIRGATE_SIZES";

/// The variable with the number of sessions to end.
const CUTS: &str = "WEIRGATE_CUTS";

/// Debian's packages in the guest.
const PACKAGES: [&str; 5] = [
    "ppp",
    "pppoe",
    "radvd",
    "wide-dhcpv6-server",
    "wide-dhcpv6-client",
];

/// The folders in which releases of Debian have pppd's plugins, each in a subfolder named by a
/// version.
const FOLDERS: [&str; 2] = ["usr/lib/pppd", "usr/lib/x86_64-linux-gnu/pppd"];

/// Returns the folder of the plugins, relative to the root of an unpacked package.
fn plugins(tree: &Path) -> PathBuf {
    let folders = FOLDERS
        .iter()
        .filter_map(|at| tree.join(at).read_dir().ok());
    let mut inner = folders.flatten().map(|entry| entry.unwrap().path());
    let found = inner.find(|folder| folder.join("pppoe.so").is_file());
    let found = found.expect("a plugin for PPPoE");
    found.strip_prefix(tree).unwrap().to_owned()
}

fn in_the_guest(name: &str, variables: &[String], minutes: u64) {
    let [ppp, pppoe, radvd, server, client] = PACKAGES.map(|name| {
        package(name, &Cache::of_user(), &mut |_| ()).unwrap_or_else(|error| panic!("{error}"))
    });
    let folder = plugins(&ppp);
    let brought = [
        ppp.join(&folder).join("pppoe.so"),
        ppp.join("usr/sbin/pppd"),
        pppoe.join("usr/sbin/pppoe-server"),
        // The server runs this program for each session, by `sh`.
        pppoe.join("usr/sbin/pppoe"),
        radvd.join("usr/sbin/radvd"),
        server.join("usr/sbin/dhcp6s"),
        client.join("usr/sbin/dhcp6c"),
    ];
    let brought = brought.map(|path| path.to_string_lossy().into_owned());
    let weirgate = env!("CARGO_BIN_EXE_weirgate");
    let mut programs = vec![weirgate, "env", "ip", "nft", "sh", "sysctl", "tc"];
    programs.extend(brought.iter().map(String::as_str));
    let folder = format!("{PLUGINS}=/{}", folder.display());
    let mut set: Vec<&str> = variables.iter().map(String::as_str).collect();
    set.push(&folder);
    let own = OwnTests {
        programs: &programs,
        kernel: Some(KernelName::Generic),
        variables: &set,
        seed: 1,
        limits: Limits {
            wall: Duration::from_mins(minutes),
            ..Limits::default()
        },
    };
    println!("{}", own.run(name));
}

fn cuts(of: &str, count: u32, minutes: u64) {
    in_the_guest(
        &format!("cuts::{of}"),
        &[format!("{CUTS}={count}")],
        minutes,
    );
}

#[test]
fn a_session_that_ends_under_load_is_shaped_when_it_returns() {
    cuts("home", 2, 8);
}

/// Tests that only `make test-all` runs.
mod long {
    #[test]
    fn packets_are_charged_what_the_line_takes() {
        super::in_the_guest("charges::charges", &[format!("{}=37", super::SIZES)], 8);
    }

    #[test]
    fn a_device_that_pppd_renames_is_shaped_when_it_returns() {
        super::cuts("one_class", 2, 4);
    }

    /// Ends 50 sessions, unless the variable has another number.
    #[test]
    fn many_sessions_end_under_load() {
        let cuts = std::env::var(super::CUTS).ok();
        let count = cuts.map_or(50, |cuts| cuts.parse().unwrap());
        super::cuts("home", count, 30);
    }

    #[test]
    fn ipv6_comes_back_with_the_session() {
        super::in_the_guest("ipv6::prefix", &[], 5);
    }

    #[test]
    fn the_bound_of_adsl_6_2_holds_on_a_session() {
        super::in_the_guest("bound::bound", &[], 8);
    }

    #[test]
    fn packets_of_every_size_are_charged_what_the_line_takes() {
        super::in_the_guest("charges::charges", &[format!("{}=1", super::SIZES)], 40);
    }
}
