// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An apply that is killed at any moment, under traffic: its guard leaves what was there,
//! and one that came to its end leaves what it made.

use crate::inside::{
    Busy, SITE, Site, bare, configured, done, gone, many, root, site, tables, unguarded, within,
};
use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use weirgate_state::Rows;

/// All that a policy makes of the kernel here.
#[derive(Debug, PartialEq)]
struct Made {
    rows: [Option<Rows>; 2],
    /// What the kinds of roots begin with.
    roots: [String; 2],
    /// Tables and sets are listed in the order of their making.
    tables: Vec<String>,
}

impl Made {
    fn now() -> Self {
        // A device that is not there has nothing.
        let there =
            |device: &&str| fs::exists(format!("/sys/class/net/{device}")).is_ok_and(|is| is);
        let devices = ["wan0", "ifb-wan0"].map(|device| Some(device).filter(there));
        let mut tables: Vec<String> = tables().lines().map(str::to_owned).collect();
        tables.sort_unstable();
        // The kind of a device that was made anew has another name.
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

/// Kills the apply of a policy after a time, and waits until its guard is done. Whether
/// it had come to its end.
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

/// How long the apply of a policy takes, and what it makes.
fn whole(path: &str) -> (Duration, Made) {
    let began = Instant::now();
    done(&format!("apply {path}"));
    (began.elapsed(), Made::now())
}

/// Kills so many changes from one policy to another, and as often back. How often
/// each moment found the change at its beginning, in it and at its end is printed.
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
        // Between the last store and the end both may be.
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

/// Two policies of some hundred rows, most of which differ.
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

/// Programs that were loaded and never came onto a device go as well.
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
    // A removal that is killed, too, is taken back or made whole.
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

/// The tree of HTB and the engine of rows, in turn.
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
