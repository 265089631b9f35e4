// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A line whose rate is followed, by the real service: blind while nobody
//! answers, then not.

use crate::namespace::Namespace;
use crate::program::WEIRGATE;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

struct Kept(Child);

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until `weirgate track status` says this.
#[track_caller]
fn says(namespace: &Namespace, wanted: &str) {
    let begin = Instant::now();
    loop {
        let status = namespace.weirgate("track status").out;
        if status.contains(wanted) {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(55), "{status:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until the gate has this rate.
#[track_caller]
fn gate(namespace: &Namespace, wanted: &str) {
    let begin = Instant::now();
    loop {
        let classes = namespace.run("tc class show dev wan");
        if classes.contains(wanted) {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(55), "{classes}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_floor_is_held_while_nobody_answers() {
    let namespace = Namespace::new();
    namespace.run("ip link set lo up");
    namespace.run("ip address add 192.0.2.1/24 dev wan");
    assert_eq!(
        namespace.weirgate("track status").err,
        "no rate is followed\n"
    );
    assert_eq!(namespace.weirgate("apply track.toml").status, 0);
    gate(&namespace, "ceil 998Kbit");
    let root = namespace.run("tc qdisc show dev wan");
    let mut command = namespace.command(WEIRGATE);
    command
        .arg("keep")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let kept = Kept(command.spawn().unwrap());
    says(&namespace, "blind");
    says(&namespace, "up: 100kbit (blind; between 100kbit and 1mbit)");
    gate(&namespace, "ceil 99800bit");
    // It stays so although the applied policy says otherwise.
    namespace.run("ip link set lan down");
    namespace.run("ip link set lan up");
    std::thread::sleep(Duration::from_millis(500));
    gate(&namespace, "ceil 99800bit");
    namespace.run("ip address add 192.0.2.9/32 dev lo");
    says(&namespace, "up: 1mbit (sees; between 100kbit and 1mbit)");
    gate(&namespace, "ceil 998Kbit");
    // In place: the qdiscs are the ones that were there.
    assert_eq!(namespace.run("tc qdisc show dev wan"), root);
    drop(kept);
    let record = namespace.run("find /run/weirgate -name rate.record");
    let replayed = namespace.run(&format!("{WEIRGATE} track replay {}", record.trim()));
    assert_eq!(replayed, "");
    assert_eq!(namespace.weirgate("remove").status, 0);
}
