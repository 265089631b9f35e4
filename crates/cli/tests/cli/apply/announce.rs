// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sessions that programs announce to the real service.

use crate::namespace::Namespace;
use crate::program::WEIRGATE;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStderr, Stdio};

struct Kept(Child);

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads the service's log until a line contains the wanted text.
#[track_caller]
fn until(log: &mut BufReader<ChildStderr>, wanted: &str) {
    let mut all = String::new();
    loop {
        let mut line = String::new();
        assert!(log.read_line(&mut line).unwrap() > 0, "{wanted}: {all}");
        if line.contains(wanted) {
            return;
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
    let mut command = namespace.command(WEIRGATE);
    command
        .args(["keep", "--announcers", "nogroup"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut kept = Kept(command.spawn().unwrap());
    let mut log = BufReader::new(kept.0.stderr.take().unwrap());
    let listening = || {
        !namespace
            .run("find /run/weirgate -name *.announce")
            .is_empty()
    };
    let begin = std::time::Instant::now();
    while !listening() && begin.elapsed().as_secs() < 50 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(namespace.weirgate("announce true").status, 0);
    until(&mut log, "1 sessions are announced");
    until(&mut log, "no session is announced now");
    assert_eq!(namespace.weirgate("announce false").status, 1);
    // Two sessions at once. A session also ends when its program is killed.
    let session = || {
        let mut command = namespace.command(WEIRGATE);
        Kept(
            command
                .arg("announce")
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        )
    };
    let first = session();
    until(&mut log, "1 sessions are announced");
    let second = session();
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
