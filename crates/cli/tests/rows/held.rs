// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process keeps the lock on pins, as a stopped command does, while a change with an engine of BPF
//! waits for confirmation: the guard takes it back once it can, and the service goes on.

use crate::inside::{
    SITE, Site, bare, configured, done, gone, root, site, unguarded, weirgate, within,
};
use crate::net;
use std::fs::File;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

/// Checks a lock that policies do not need, and then the one that they need.
#[test]
#[ignore = "runs in the lab's kernel"]
fn a_held_lock_on_pins_delays_only_what_needs_them() {
    let far = site();
    SITE.applied();
    let now = || ["wan0", "ifb-wan0"].map(configured);
    let first = now();
    let other = Site {
        stream: 30,
        cap: Some(1_000),
        ..SITE
    };
    let path = other.written("policy");
    // A command that changes circuits does not let go of its lock.
    std::fs::create_dir_all("/sys/fs/bpf/weirgate/circuits").expect("a folder");
    let circuits = File::open("/sys/fs/bpf/weirgate/circuits").expect("a folder");
    circuits.lock().expect("the lock on circuits");
    done(&format!("apply --confirm 1s {path}"));
    assert_ne!(now(), first);
    within(4 * SECOND, "the return", || unguarded() && now() == first);
    // The service runs, and another process keeps the lock on all pins.
    let mut command = Command::new("weirgate");
    let keep = command.arg("keep").stderr(Stdio::inherit()).spawn();
    let mut keep = keep.expect("weirgate");
    thread::sleep(SECOND);
    done(&format!("apply --confirm 2s {path}"));
    let second = now();
    assert_ne!(second, first);
    let pins = File::open("/sys/fs/bpf/weirgate").expect("a folder");
    pins.lock().expect("the lock on pins");
    let begin = Instant::now();
    // Commands fail, and say who has the lock.
    thread::sleep(4 * SECOND);
    for line in ["show", "rollback"] {
        let asked = Instant::now();
        let (text, status) = weirgate(line);
        println!("{line} after {:?}: {text}", asked.elapsed());
        let holder = format!("is locked by process {}", std::process::id());
        assert!(
            status != Some(0) && text.contains(&holder),
            "{line}: {text}"
        );
        assert!(asked.elapsed() < 20 * SECOND, "{line}");
    }
    // The kernel still has the change, and everybody waits.
    assert!(root("wan0").contains("weir_r"), "{}", root("wan0"));
    assert!(!unguarded());
    assert!(keep.try_wait().expect("a process").is_none(), "keep ended");
    drop(pins);
    let held = begin.elapsed();
    let took = within(6 * SECOND, "the return", || now() == first && unguarded());
    println!(
        "held for {held:?}, taken back {} ms later",
        took.as_millis()
    );
    let (text, _) = weirgate("history");
    assert!(!text.contains("is lost"), "{text}");
    // The service repairs as before.
    net::run("tc qdisc del dev wan0 root");
    within(6 * SECOND, "a root", || root("wan0").contains("weir_r"));
    within(3 * SECOND, "its rows", || now() == first);
    keep.kill().expect("a process");
    keep.wait().expect("a process");
    drop(circuits);
    gone(far);
    bare();
}
