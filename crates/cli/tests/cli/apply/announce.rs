// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sessions that programs announce to the real service.

use crate::namespace::Namespace;
use crate::program::WEIRGATE;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

struct Kept(Child);

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Kept {
    /// Starts the service, and waits until it listens.
    fn start(namespace: &Namespace) -> (Self, BufReader<ChildStderr>) {
        let mut command = namespace.command(WEIRGATE);
        command
            .args(["keep", "--announcers", "nogroup"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut kept = Self(command.spawn().unwrap());
        let log = BufReader::new(kept.0.stderr.take().unwrap());
        let listening = || {
            let found = namespace
                .command("find")
                .args(["/run/weirgate", "-name", "*.announce"])
                .output();
            !found.unwrap().stdout.is_empty()
        };
        let begin = Instant::now();
        while !listening() && begin.elapsed().as_secs() < 50 {
            sleep(Duration::from_millis(50));
        }
        (kept, log)
    }

    /// Announces a session that lasts until the value is dropped.
    fn session(namespace: &Namespace) -> Self {
        let mut command = namespace.command(WEIRGATE);
        let session = command.arg("announce").stderr(Stdio::null());
        Self(session.spawn().unwrap())
    }
}

/// Reads the service's log until a line contains the wanted text. Returns the lines before it.
#[track_caller]
fn until(log: &mut BufReader<ChildStderr>, wanted: &str) -> String {
    let mut all = String::new();
    loop {
        let mut line = String::new();
        assert!(log.read_line(&mut line).unwrap() > 0, "{wanted}: {all}");
        if line.contains(wanted) {
            return all;
        }
        all.push_str(&line);
    }
}

#[test]
fn a_session_lasts_as_long_as_its_program() {
    let namespace = Namespace::new();
    let alone = namespace.weirgate("announce true");
    assert_eq!(alone.status, 1, "{}", alone.err);
    assert!(alone.err.contains("no `weirgate keep` listens there"));
    let applied = namespace.weirgate("apply announced.toml");
    assert_eq!(applied.status, 0, "{}", applied.err);
    let (kept, mut log) = Kept::start(&namespace);
    assert_eq!(namespace.weirgate("announce true").status, 0);
    until(&mut log, "1 sessions are announced");
    until(&mut log, "no session is announced now");
    assert_eq!(namespace.weirgate("announce false").status, 1);
    // Two sessions at once. A session also ends when its program is killed.
    let first = Kept::session(&namespace);
    until(&mut log, "1 sessions are announced");
    let second = Kept::session(&namespace);
    until(&mut log, "2 sessions are announced");
    drop(first);
    until(&mut log, "1 sessions are announced");
    drop(second);
    until(&mut log, "no session is announced now");
    // Users of the group of announcers may announce, others may not. The socket also works after
    // `remove` and another `apply`.
    assert_eq!(namespace.weirgate("remove").status, 0);
    assert_eq!(namespace.weirgate("apply announced.toml").status, 0);
    let as_user = |group: &str| {
        namespace
            .command("setpriv")
            .args(["--reuid=65534", "--clear-groups"])
            .arg(format!("--regid={group}"))
            .args([WEIRGATE, "announce", "true"])
            .output()
            .unwrap()
    };
    let group = as_user("nogroup");
    assert!(group.status.success(), "{group:?}");
    until(&mut log, "1 sessions are announced");
    until(&mut log, "no session is announced now");
    let other = as_user("games");
    assert!(!other.status.success());
    assert!(String::from_utf8_lossy(&other.stderr).contains("Permission denied"));
    // This policy has no `[receive.announced]`.
    assert_eq!(namespace.weirgate("apply track.toml").status, 0);
    let refused = namespace.weirgate("announce true");
    assert_eq!(refused.status, 3, "{}", refused.err);
    assert!(
        refused.err.contains("[receive.announced]"),
        "{}",
        refused.err
    );
    drop(kept);
    assert_eq!(namespace.weirgate("remove").status, 0);
}

/// Renewals fail while the policy is away, and while its device is.
#[test]
fn sessions_that_cannot_be_renewed_are_reported_once() {
    let namespace = Namespace::new();
    assert_eq!(namespace.weirgate("apply announced.toml").status, 0);
    let (kept, mut log) = Kept::start(&namespace);
    let session = Kept::session(&namespace);
    until(&mut log, "1 sessions are announced");
    assert_eq!(namespace.weirgate("remove").status, 0);
    until(&mut log, "no policy in force has a table");
    // Two more renewals fail.
    sleep(Duration::from_secs(5));
    assert_eq!(namespace.weirgate("apply announced.toml").status, 0);
    // The next renewal succeeds.
    sleep(Duration::from_secs(3));
    namespace.run("ip link delete wan");
    let between = until(&mut log, "sessions cannot be announced: K301: wan");
    assert!(!between.contains("sessions"), "{between}");
    // The last session ends while the device is away. Nothing is renewed any more.
    drop(session);
    until(&mut log, "no session is announced now");
    sleep(Duration::from_secs(5));
    let spent = fs::read_to_string(format!("/proc/{}/schedstat", kept.0.id())).unwrap();
    let spent: u64 = spent.split(' ').next().unwrap().parse().unwrap();
    drop(kept);
    let mut rest = String::new();
    log.read_to_string(&mut rest).unwrap();
    assert!(!rest.contains("sessions"), "{rest}");
    // It has slept most of these 13 s.
    assert!(spent < 2_000_000_000, "{spent} ns");
}

#[test]
fn a_second_service_leaves_the_socket_to_the_first() {
    let namespace = Namespace::new();
    assert_eq!(namespace.weirgate("apply announced.toml").status, 0);
    let (_first, _) = Kept::start(&namespace);
    let (mut second, mut log) = Kept::start(&namespace);
    // The second one waits at most a second for the first to end.
    sleep(Duration::from_secs(3));
    let ended = Command::new("kill").arg(second.0.id().to_string()).status();
    assert!(ended.unwrap().success());
    second.0.wait().unwrap();
    let announced = namespace.weirgate("announce true");
    assert_eq!(announced.status, 0, "{}", announced.err);
    until(&mut log, "another `weirgate keep` already runs");
}

/// Every start of a unit sets the mode of `/run/weirgate`, which `keep --announcers` has opened for
/// its group.
#[test]
fn no_unit_locks_the_announcers_out() {
    let packaging = crate::program::root().join("packaging");
    for file in [
        "systemd/weirgate.service",
        "systemd/weirgate-circuits.service",
        "systemd/weirgate-links.service",
        "nix/module.nix",
    ] {
        let text = fs::read_to_string(packaging.join(file)).unwrap();
        let mut lines = text.lines();
        let mode = lines.find(|line| line.contains("RuntimeDirectoryMode"));
        assert!(mode.unwrap().contains("0711"), "{file}: {mode:?}");
    }
}
