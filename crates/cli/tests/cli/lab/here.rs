// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `lab run --here` on this machine's kernel, which needs root, `/dev/net/tun` and veth; and its
//! messages if one of them is missing.

use crate::program::{Ended, Traces, WEIRGATE, root, weirgate};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Writes `tests/cli/tiny.toml` with 3 s instead of 10 s, and additional lines for its arm.
fn short(folder: &Path, more: &str) -> PathBuf {
    lasting(folder, "3s", more)
}

/// Does the same with another length.
fn lasting(folder: &Path, length: &str, more: &str) -> PathBuf {
    let tiny = fs::read_to_string(root().join("tests/cli/tiny.toml")).unwrap();
    let file = folder.join("short.toml");
    fs::write(
        &file,
        tiny.replace("\"10s\"", &format!("\"{length}\"")) + more,
    )
    .unwrap();
    file
}

fn here(file: &Path) -> Ended {
    let name = file.to_str().unwrap();
    weirgate(&root(), &["lab", "run", "--here", "--json", name])
}

/// Returns what a run could leave behind: devices of this network namespace, and mounts, which hold
/// namespaces.
fn network() -> (String, String) {
    let devices = fs::read_to_string("/proc/self/net/dev").unwrap();
    let names = devices.lines().filter_map(|line| line.split_once(':'));
    let names: Vec<&str> = names.map(|(name, _)| name.trim()).collect();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    (names.join(" "), mounts)
}

#[test]
fn a_run_in_real_time() {
    let folder = TempDir::new().unwrap();
    let before = network();
    let ended = here(&short(folder.path(), ""));
    assert_eq!(ended.status, 0, "{ended:?}");
    assert_eq!(network(), before);
    let outcome: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let kernel = outcome["kernel"].as_str().unwrap();
    assert!(kernel.starts_with(release.trim_end()), "{kernel}");
    assert_eq!(outcome["virtual_seconds"], 3.0);
    let metrics = &outcome["arms"]["modem-only"]["metrics"];
    // 84 bytes are 3 cells each way, and the delay is 2 ms each way: 7.1 ms at least.
    let fastest = metrics["rtt.interactive.min_ms"].as_f64().unwrap();
    assert!((7.1..12.0).contains(&fastest), "{fastest}");
    assert!(metrics["goodput.short.mean_kbit"].as_f64().unwrap() > 10.0);
}

#[test]
fn what_goes_wrong_in_the_arm_is_reported() {
    let folder = TempDir::new().unwrap();
    let before = network();
    let more = "commands = [\"gateway: tc qdisc add dev wan root handle 1: htb nonsense\"]\n\
                programs = [\"tc\"]\n";
    let ended = here(&short(folder.path(), more));
    ended.says(
        1,
        &[
            "gateway: tc qdisc add dev wan root handle 1: htb nonsense",
            "What is \"nonsense\"?",
            "arm `modem-only` could not be run on this kernel",
        ],
    );
    assert_eq!(ended.out, "");
    assert_eq!(network(), before);
}

#[test]
fn what_is_missing_is_reported() {
    let folder = TempDir::new().unwrap();
    let file = short(folder.path(), "");
    let without = |capabilities: &str| {
        let output = Command::new("setpriv")
            .arg(format!("--bounding-set={capabilities}"))
            .arg(format!("--inh-caps={capabilities}"))
            .args([WEIRGATE, "lab", "run", "--here"])
            .arg(&file)
            .output();
        Ended::of(&output.unwrap())
    };
    let before = network();
    for (capabilities, missing) in [
        ("-sys_admin", &["CAP_SYS_ADMIN"][..]),
        ("-net_admin", &["CAP_NET_ADMIN"]),
        ("-net_admin,-sys_admin", &["CAP_SYS_ADMIN", "CAP_NET_ADMIN"]),
    ] {
        let ended = without(capabilities);
        ended.says(1, &["could not be run on this kernel"]);
        for name in ["CAP_SYS_ADMIN", "CAP_NET_ADMIN"] {
            let reported = ended.err.contains(&format!("needs {name}"));
            assert_eq!(reported, missing.contains(&name), "{ended:?}");
        }
        assert_eq!(ended.out, "");
    }
    // A mount namespace that hides the device.
    let hidden = "mount -t tmpfs none /dev/net && exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", hidden, "sh"])
        .args([WEIRGATE, "lab", "run", "--here"])
        .arg(&file)
        .output();
    Ended::of(&output.unwrap()).says(1, &["needs /dev/net/tun", "No such file", "module `tun`"]);
    assert_eq!(network(), before);
}

#[test]
fn what_is_stopped_leaves_nothing() {
    let folder = TempDir::new().unwrap();
    // Long enough not to end by itself on a busy machine.
    let file = lasting(folder.path(), "30s", "");
    let name = file.to_str().unwrap();
    let before = network();
    for signal in ["TERM", "INT", "KILL"] {
        let traces = Traces::new();
        let weirgate = traces.command(&root(), &["lab", "run", "--here", name]);
        // The process that runs the tests may ignore SIGINT, like a shell's background jobs, and
        // its children inherit that.
        let mut command = Command::new("env");
        command
            .arg("--default-signal=INT")
            .arg(weirgate.get_program())
            .args(weirgate.get_args())
            .current_dir(root());
        for (name, value) in weirgate.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        // Its message about traffic shows that the agent works.
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("traffic")));
        assert!(traces.processes().len() > 1, "{:?}", traces.processes());
        let kill = Command::new("kill")
            .args(["-s", signal, &child.id().to_string()])
            .status();
        assert!(kill.unwrap().success());
        assert!(!child.wait().unwrap().success());
        // The kernel kills the agent after its parent has ended, which takes a moment.
        let deadline = Instant::now() + Duration::from_secs(10);
        while !traces.processes().is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        traces.none();
        assert_eq!(network(), before);
    }
}
