// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A systemd scope for a guard that has to outlive its session.
//!
//! With `KillUserProcesses=yes` (logind.conf(5)), systemd-logind kills all processes of a session
//! that is closed. It goes by the control group, so setsid(2) does not help. The guard is therefore
//! moved into a scope of the system manager, by `StartTransientUnit` of
//! org.freedesktop.systemd1(5).

use std::path::Path;
use std::process::{Command, Stdio};

/// This directory exists if systemd is the service manager (sd_booted(3)).
const BOOTED: &str = "/run/systemd/system";

/// Moves a process into a scope of its own if systemd runs. Returns whether it cannot end with the
/// session any more. If the move fails, the guard works all the same, and `weirgate keep` acts if
/// the guard was killed.
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
        // No auxiliary units.
        .arg("0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    called.is_ok_and(|status| status.success())
}
