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
fn says(place: &Namespace, wanted: &str) {
    let begin = Instant::now();
    loop {
        let said = place.weirgate("track status").out;
        if said.contains(wanted) {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(55), "{said:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until the gate has this rate.
#[track_caller]
fn gate(place: &Namespace, wanted: &str) {
    let begin = Instant::now();
    loop {
        let classes = place.run("tc class show dev wan");
        if classes.contains(wanted) {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(55), "{classes}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_floor_is_held_while_nobody_answers() {
    let place = Namespace::new();
    place.run("ip link set lo up");
    place.run("ip address add 192.0.2.1/24 dev wan");
    assert_eq!(place.weirgate("track status").err, "no rate is followed\n");
    assert_eq!(place.weirgate("apply track.toml").status, 0);
    gate(&place, "ceil 998Kbit");
    let root = place.run("tc qdisc show dev wan");
    let mut command = place.command(WEIRGATE);
    command
        .arg("keep")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let kept = Kept(command.spawn().unwrap());
    says(&place, "blind");
    says(&place, "up: 100kbit (blind; between 100kbit and 1mbit)");
    gate(&place, "ceil 99800bit");
    // It stays so although the applied policy says otherwise.
    place.run("ip link set lan down");
    place.run("ip link set lan up");
    std::thread::sleep(Duration::from_millis(500));
    gate(&place, "ceil 99800bit");
    place.run("ip address add 192.0.2.9/32 dev lo");
    says(&place, "up: 1mbit (sees; between 100kbit and 1mbit)");
    gate(&place, "ceil 998Kbit");
    // In place: the qdiscs are the ones that were there.
    assert_eq!(place.run("tc qdisc show dev wan"), root);
    drop(kept);
    let record = place.run("find /run/weirgate -name rate.record");
    let replayed = place.run(&format!("{WEIRGATE} track replay {}", record.trim()));
    assert_eq!(replayed, "");
    assert_eq!(place.weirgate("remove").status, 0);
}
