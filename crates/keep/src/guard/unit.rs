// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A unit of its own for a guard that outlives its session.
//!
//! Where `KillUserProcesses=yes` is set (logind.conf(5)), systemd-logind ends
//! all processes of a session that is closed, also one that leads a session of
//! its own (setsid(2)): it goes by the control group. So the guard is moved
//! into a scope of the system manager, by `StartTransientUnit` of
//! org.freedesktop.systemd1(5).

use std::path::Path;
use std::process::{Command, Stdio};

/// What is there where systemd is the service manager (sd_booted(3)).
const BOOTED: &str = "/run/systemd/system";

/// Moves a process into a scope of its own, where systemd runs; whether it is out of the
/// session then. Where that fails, it stays where it is: it does the same, and `weirgate
/// keep` stands behind it.
pub(super) fn own(process: u32) -> bool {
    if !Path::new(BOOTED).is_dir() {
        return true;
    }
    let (name, process) = (
        format!("weirgate-guard-{process}.scope"),
        process.to_string(),
    );
    let call = [
        "--timeout=2",
        "call",
        "org.freedesktop.systemd1",
        "/org/freedesktop/systemd1",
        "org.freedesktop.systemd1.Manager",
        "StartTransientUnit",
        "ssa(sv)a(sa(sv))",
        &name,
        "fail",
    ];
    let properties = [
        &["3"][..],
        &["Description", "s", "weirgate: guard of a change"],
        &["CollectMode", "s", "inactive-or-failed"],
        &["PIDs", "au", "1", &process],
    ];
    let called = Command::new("busctl")
        .args(call)
        .args(properties.concat())
        // No further units.
        .arg("0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    called.is_ok_and(|status| status.success())
}
