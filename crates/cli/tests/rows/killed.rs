// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An apply that is killed at any moment, under traffic. Its guard restores the former state; an
//! apply that had ended stays in force.

use crate::inside::{
    Busy, SITE, Site, bare, configured, done, gone, many, root, site, tables, unguarded, within,
};
use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use weirgate_state::Rows;

/// All kernel state that a policy creates here.
#[derive(Debug, PartialEq)]
struct Made {
    rows: [Option<Rows>; 2],
    /// The first letters of the kinds of the root qdiscs.
    roots: [String; 2],
    /// The lines are sorted, because the kernel lists tables and sets in order of creation.
    tables: Vec<String>,
}

impl Made {
    fn now() -> Self {
        // A missing device has no state.
        let there =
            |device: &&str| fs::exists(format!("/sys/class/net/{device}")).is_ok_and(|is| is);
        let devices = ["wan0", "ifb-wan0"].map(|device| Some(device).filter(there));
        let mut tables: Vec<String> = tables().lines().map(str::to_owned).collect();
        tables.sort_unstable();
        // The kind of a root qdisc that was created again has another name.
        let kind = |text: String| {
            let kind = text.split_whitespace().nth(1).unwrap_or_default();
            kind.get(..6).unwrap_or(kind).to_owned()
        };
        Self {
            rows: devices.map(|device| configured(device?)),
            roots: devices.map(|device| device.map(root).map(kind).unwrap_or_default()),
            tables,
        }
    }
}

/// Kills the apply of a policy after a time, and waits until its guard has ended. Returns whether
/// the apply had succeeded before.
fn killed(path: &str, after: Duration) -> bool {
    let mut child = Command::new("weirgate")
        .args(["apply", path])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("weirgate");
    thread::sleep(after);
    child.kill().expect("a process");
    let ended = child.wait().expect("a process").success();
    within(Duration::from_secs(15), "the end of the guard", unguarded);
    ended
}

/// Applies a policy; returns the time that it took, and the result.
fn whole(path: &str) -> (Duration, Made) {
    let began = Instant::now();
    done(&format!("apply {path}"));
    (began.elapsed(), Made::now())
}

/// Kills `each` changes from one policy to the other, and as many back. Prints how often the former
/// state was found, and how often the new one.
fn kills(paths: [&str; 2], each: u32) {
    whole(paths[1]);
    let (to_first, first) = whole(paths[0]);
    let (to_second, second) = whole(paths[1]);
    let (took, made) = ([to_first, to_second], [first, second]);
    assert_ne!(made[0], made[1]);
    let (mut now, mut seen) = (1, [0; 2]);
    for kill in 0..2 * each {
        let wanted = kill as usize % 2;
        if now == wanted {
            done(&format!("apply {}", paths[1 - wanted]));
        }
        let at = took[wanted] / 3 + took[wanted] * (kill / 2 + 1) / each * 7 / 10;
        let ended = killed(paths[wanted], at);
        now = if ended { wanted } else { 1 - wanted };
        let found = Made::now();
        // Between the last write and the exit, either state is right.
        if !ended && found == made[wanted] {
            now = wanted;
        }
        assert_eq!(found, made[now], "kill {kill} after {at:?}");
        seen[usize::from(now == wanted)] += 1;
    }
    println!(
        "changes of {} and {} ms killed: {} times as before, {} as wanted",
        took[0].as_millis(),
        took[1].as_millis(),
        seen[0],
        seen[1]
    );
    assert!(seen[0] > each / 2, "killed too late");
}

/// Kills changes between two policies of some hundred rows, most of which differ.
#[test]
#[ignore = "runs in the lab's kernel"]
fn a_killed_change_leaves_the_old_rows_or_the_new() {
    let far = site();
    let paths = ["/first.toml", "/second.toml"];
    fs::write(paths[0], many("rows", 2_000, 4, (20, 1_500))).expect("a file");
    fs::write(paths[1], many("rows", 2_000, 3, (200, 1_400))).expect("a file");
    done(&format!("apply {}", paths[0]));
    let gate = configured("wan0").expect("a tree").gate;
    let busy = Busy::begin();
    kills(paths, 8);
    busy.end(gate, 0.0);
    gone(far);
}

/// Programs that were loaded, but not attached to a device, must disappear as well.
#[test]
#[ignore = "runs in the lab's kernel"]
fn a_killed_first_apply_leaves_nothing() {
    const KILLS: u32 = 8;
    let far = site();
    let path = SITE.written("policy");
    let (took, _) = whole(&path);
    done("remove");
    bare();
    let mut left = 0;
    for kill in 0..KILLS {
        let at = took * (kill + 1) / KILLS;
        if killed(&path, at) {
            done("remove");
        } else {
            left += 1;
        }
        println!("killed after {} of {} ms", at.as_millis(), took.as_millis());
        bare();
    }
    assert!(left > KILLS / 2, "killed too late");
    // A killed removal is either taken back or complete.
    let (_, made) = whole(&path);
    for kill in 1..=3 {
        let mut child = Command::new("weirgate")
            .arg("remove")
            .spawn()
            .expect("weirgate");
        thread::sleep(took / 60 * kill);
        child.kill().expect("a process");
        let ended = child.wait().expect("a process").success();
        within(Duration::from_secs(15), "the end of the guard", unguarded);
        println!(
            "a removal killed after {} ms: {ended}",
            (took / 60 * kill).as_millis()
        );
        if ended {
            bare();
            assert_eq!(whole(&path).1, made);
        } else {
            assert_eq!(Made::now(), made);
        }
    }
    gone(far);
}

/// Kills changes between the tree of HTB and the engine of rows.
#[test]
#[ignore = "runs in the lab's kernel"]
fn a_killed_change_of_engine_leaves_one_of_them() {
    let far = site();
    let tree = Site {
        engine: "htb",
        ..SITE
    };
    let paths = [tree.written("tree"), SITE.written("rows")];
    kills([&paths[0], &paths[1]], 5);
    gone(far);
}
