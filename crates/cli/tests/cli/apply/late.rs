// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes that are late, or missing, for a change that waits for confirmation: no confirmed
//! state is undone, and no unconfirmed one stays.

use crate::apply::safe::{Keeper, guards, unguarded, within};
use crate::apply::victim;
use crate::namespace::{Namespace, same};
use crate::program::{Ended, WEIRGATE, root};
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

fn signal(which: &str, processes: &[String]) {
    assert!(!processes.is_empty(), "no guard");
    let ended = Command::new("kill").arg(which).args(processes).status();
    assert!(ended.unwrap().success());
}

/// Returns the guard of the waiting change. One of an earlier change may linger until its parent
/// has gone.
fn only_guard(namespace: &Namespace) -> Vec<String> {
    within(3 * SECOND, "one guard", || guards(namespace).len() == 1);
    guards(namespace)
}

/// Starts `apply -`, whose standard input stays open until it is written.
fn apply_slowly(namespace: &Namespace) -> Child {
    let mut command = namespace.command(WEIRGATE);
    command
        .args(["apply", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[test]
fn a_guard_that_was_stopped_undoes_no_newer_state() {
    let namespace = Namespace::new();
    namespace.weirgate("apply both.toml").says(0, &["state 1"]);
    namespace
        .weirgate("apply --confirm 2s changed.toml")
        .says(0, &["state 2"]);
    let late = only_guard(&namespace);
    signal("-STOP", &late);
    sleep(3 * SECOND);
    namespace
        .weirgate("apply upstream.toml")
        .says(0, &["state 3"]);
    let settled = namespace.snapshot();
    signal("-CONT", &late);
    within(2 * SECOND, "end of the guard", || {
        guards(&namespace).is_empty()
    });
    same(&settled, &namespace.snapshot());
    let history = namespace.weirgate("history").out;
    for part in ["returned by itself", "in force"] {
        assert!(history.contains(part), "{part} in {history}");
    }
    namespace
        .weirgate("boot")
        .says(0, &["state 3 is in force: 0 steps"]);
}

#[test]
fn a_guard_that_was_stopped_holds_up_neither_confirm_nor_rollback() {
    let namespace = Namespace::new();
    namespace.weirgate("apply both.toml").says(0, &["state 1"]);
    let first = namespace.snapshot();
    namespace
        .weirgate("apply --confirm 600s changed.toml")
        .says(0, &["state 2"]);
    let late = only_guard(&namespace);
    signal("-STOP", &late);
    namespace
        .weirgate("rollback")
        .says(0, &["state 2 is taken back"]);
    same(&first, &namespace.snapshot());
    signal("-CONT", &late);
    within(2 * SECOND, "end of the guard", || {
        guards(&namespace).is_empty()
    });
    namespace
        .weirgate("apply --confirm 600s changed.toml")
        .says(0, &["state 3"]);
    let late = only_guard(&namespace);
    signal("-STOP", &late);
    namespace
        .weirgate("confirm")
        .says(0, &["state 3 is confirmed"]);
    let second = namespace.snapshot();
    signal("-CONT", &late);
    within(2 * SECOND, "end of the guard", || {
        guards(&namespace).is_empty()
    });
    same(&second, &namespace.snapshot());
    assert!(unguarded(&namespace));
}

/// A guard cannot read the result of its change if the head is lost; but it was notified while it
/// was stopped.
#[test]
fn a_confirmed_change_stays_where_the_head_was_lost() {
    let namespace = Namespace::new();
    namespace.weirgate("apply both.toml").says(0, &["state 1"]);
    namespace
        .weirgate("apply --confirm 3s changed.toml")
        .says(0, &["state 2"]);
    let late = only_guard(&namespace);
    signal("-STOP", &late);
    namespace
        .weirgate("confirm")
        .says(0, &["state 2 is confirmed"]);
    let confirmed = namespace.snapshot();
    namespace.run("find /run/kept -name head -delete");
    sleep(3 * SECOND);
    signal("-CONT", &late);
    within(2 * SECOND, "end of the guard", || {
        guards(&namespace).is_empty()
    });
    same(&confirmed, &namespace.snapshot());
}

#[test]
fn what_nobody_confirmed_returns_where_the_head_was_lost() {
    let namespace = Namespace::new();
    namespace.weirgate("apply both.toml").says(0, &["state 1"]);
    let before = namespace.snapshot();
    namespace
        .weirgate("apply --confirm 2s changed.toml")
        .says(0, &["state 2"]);
    namespace.run("find /run/kept -name head -delete");
    within(5 * SECOND, "end of the guard", || {
        guards(&namespace).is_empty()
    });
    same(&before, &namespace.snapshot());
}

#[test]
fn what_a_killed_guard_did_not_take_back_the_service_does() {
    let namespace = Namespace::new();
    namespace.weirgate("apply both.toml").says(0, &["state 1"]);
    let before = namespace.snapshot();
    let _keeper = Keeper::new(&namespace);
    sleep(SECOND / 2);
    let begin = Instant::now();
    namespace
        .weirgate("apply --confirm 2s changed.toml")
        .says(0, &["state 2"]);
    signal("-KILL", &only_guard(&namespace));
    assert_ne!(before, namespace.snapshot());
    let returned = || {
        let history = namespace.weirgate("history").out;
        history.contains("returned by itself")
    };
    assert!(!returned());
    sleep(Duration::from_millis(1_900).saturating_sub(begin.elapsed()));
    assert!(!returned(), "it returned too early");
    let took = within(2 * SECOND, "return", returned);
    println!("back after {took:?}");
    assert!(begin.elapsed() < 4 * SECOND, "{:?}", begin.elapsed());
    same(&before, &namespace.snapshot());
}

#[test]
fn without_guard_and_service_the_next_command_takes_it_back() {
    let namespace = Namespace::new();
    let bare = namespace.snapshot();
    namespace
        .weirgate("apply --confirm 1s changed.toml")
        .says(0, &["state 1"]);
    signal("-KILL", &only_guard(&namespace));
    sleep(SECOND + SECOND / 5);
    let shown = namespace.weirgate("show");
    let late = "state 1 is not confirmed: it is being undone now, because its time is over\n";
    assert!(shown.out.contains(late), "{shown:?}");
    namespace
        .weirgate("confirm")
        .says(1, &["nothing waits for confirmation"]);
    same(&bare, &namespace.snapshot());
    assert!(unguarded(&namespace));
}

#[test]
fn a_standard_input_that_stalls_holds_up_nobody() {
    let namespace = Namespace::new();
    let mut slow = apply_slowly(&namespace);
    sleep(SECOND / 2);
    namespace.weirgate("apply both.toml").says(0, &["state 1"]);
    let text = fs::read(root().join("tests/cli/upstream.toml")).unwrap();
    slow.stdin.take().unwrap().write_all(&text).unwrap();
    let ended = slow.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&ended.stderr);
    assert!(
        ended.status.success() && message.contains("state 2"),
        "{message}"
    );
    let history = namespace.weirgate("history").out;
    assert!(history.contains("standard input  in force"), "{history}");
}

/// A policy whose text arrives at about the deadline of the previous change.
#[test]
fn near_the_deadline_each_state_is_exact() {
    let namespace = Namespace::new();
    namespace.weirgate("apply upstream.toml").says(0, &[]);
    let third = namespace.snapshot();
    namespace.weirgate("apply both.toml").says(0, &[]);
    let first = namespace.snapshot();
    let text = fs::read(root().join("tests/cli/upstream.toml")).unwrap();
    let mut applied = 0;
    for number in 0..16 {
        let mut slow = apply_slowly(&namespace);
        namespace
            .weirgate("apply --confirm 1s changed.toml")
            .says(0, &[]);
        sleep(Duration::from_millis(920 + 10 * number));
        slow.stdin.take().unwrap().write_all(&text).unwrap();
        let ended = slow.wait_with_output().unwrap();
        let message = String::from_utf8_lossy(&ended.stderr);
        within(2 * SECOND, "end of the guard", || {
            guards(&namespace).is_empty()
        });
        if ended.status.success() {
            applied += 1;
            same(&third, &namespace.snapshot());
            namespace.weirgate("rollback").says(0, &[]);
        } else {
            assert!(message.contains("is not confirmed yet"), "{message}");
        }
        same(&first, &namespace.snapshot());
    }
    println!("{applied} of 16 came after the deadline");
}

/// A process that holds a lock until this is dropped.
struct Holder(Child);

impl Holder {
    fn new(namespace: &Namespace, lock: &str) -> Self {
        let mut holder = namespace.command("flock");
        let holder = holder.args([lock, "cat"]).stdin(Stdio::piped());
        let holder = Self(holder.spawn().unwrap());
        within(3 * SECOND, "the lock", || {
            let mut other = namespace.command("flock");
            let other = other.args(["-n", lock, "true"]).status();
            !other.unwrap().success()
        });
        holder
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // `cat` ends with its input.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// A command was stopped while it was changing circuits, so it never lets go of their lock.
#[test]
fn a_stopped_change_of_circuits_holds_up_no_repair() {
    let namespace = Namespace::new();
    namespace
        .weirgate("apply upstream.toml")
        .says(0, &["state 1"]);
    let folder = namespace.run("find /run/kept -name head -printf %h/circuits");
    namespace.run(&format!("mkdir {folder}"));
    namespace.run(&format!("touch {folder}/wan.list"));
    // The pins are in the namespace's own file system.
    namespace.run("mount -t bpf none /sys/fs/bpf");
    let lock = "/sys/fs/bpf/weirgate/circuits";
    namespace.run(&format!("mkdir -p {lock}"));
    let stopped = Holder::new(&namespace, lock);
    let _keeper = Keeper::new(&namespace);
    sleep(2 * SECOND);
    for _ in 0..2 {
        namespace.run("tc qdisc del dev wan root");
        within(5 * SECOND, "the repair", || {
            namespace.run("tc qdisc show dev wan").contains("htb")
        });
        // The service looks at circuits every ten seconds.
        sleep(10 * SECOND);
    }
    drop(stopped);
}

/// A process keeps the lock on pins while a change waits for confirmation. Programs at hooks need
/// that lock, if some were attached by tcx once.
#[test]
fn a_held_lock_on_pins_delays_the_return_alone() {
    let namespace = Namespace::new();
    namespace.run("mount -t bpf none /sys/fs/bpf");
    namespace.run("mkdir -p /sys/fs/bpf/weirgate/tcx");
    namespace.weirgate("apply both.toml").says(0, &["state 1"]);
    let before = namespace.snapshot();
    let _keeper = Keeper::new(&namespace);
    sleep(SECOND / 2);
    namespace
        .weirgate("apply --confirm 2s changed.toml")
        .says(0, &["state 2"]);
    let changed = namespace.snapshot();
    let holder = Holder::new(&namespace, "/sys/fs/bpf/weirgate");
    sleep(4 * SECOND);
    same(&changed, &namespace.snapshot());
    // Commands end, and name the process that has the lock.
    let begin = Instant::now();
    let shown = namespace.weirgate("show");
    assert!(shown.err.contains("is locked by process"), "{shown:?}");
    assert!(shown.err.contains("flock"), "{shown:?}");
    assert!(begin.elapsed() < 5 * SECOND, "{:?}", begin.elapsed());
    // The guard and the service let go of the lock on the namespace in between.
    within(15 * SECOND, "the lock on the namespace", || {
        let confirmed = namespace.weirgate("confirm");
        confirmed.err.contains("is locked by process")
    });
    assert_eq!(guards(&namespace).len(), 1);
    drop(holder);
    let took = within(6 * SECOND, "the return", || guards(&namespace).is_empty());
    println!("back after {took:?}");
    same(&before, &namespace.snapshot());
    let history = namespace.weirgate("history").out;
    assert!(history.contains("returned by itself"), "{history}");
    assert!(!history.contains("is lost"), "{history}");
}

/// Nobody reads the output of a command, as where a terminal is stopped. Others go on, and the
/// command ends once its output is read.
#[test]
fn an_output_that_nobody_reads_holds_up_nobody() {
    let namespace = Namespace::new();
    for (line, other) in [
        ("apply both.toml", "apply upstream.toml"),
        ("rollback", "apply both.toml"),
        ("remove", "apply upstream.toml"),
    ] {
        let (mut read, mut write) = std::io::pipe().unwrap();
        // Fill the pipe.
        let flags = rustix::fs::fcntl_getfl(&write).unwrap();
        rustix::fs::fcntl_setfl(&write, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
        while write.write(&[b' '; 4096]).is_ok() {}
        rustix::fs::fcntl_setfl(&write, flags).unwrap();
        let mut command = namespace.command(WEIRGATE);
        let mut words = line.split(' ');
        command.args(words.next());
        command.args(words.map(|word| root().join("tests/cli").join(word)));
        command.stderr(write.try_clone().unwrap()).stdout(write);
        let mut stalled = command.spawn().unwrap();
        drop(command);
        sleep(2 * SECOND);
        assert!(
            stalled.try_wait().unwrap().is_none(),
            "{line} is not stalled"
        );
        namespace.weirgate(other).says(0, &["done and read back"]);
        let mut said = String::new();
        read.read_to_string(&mut said).unwrap();
        assert!(stalled.wait().unwrap().success(), "{said}");
        assert!(said.contains("wan"), "{said}");
    }
}

/// Its guard starts slowly, and the file of the lock is deleted in the meantime. The memory of what
/// is applied stays that of the newer change, whether the guard then works or fails.
#[test]
fn a_change_that_lost_the_lock_is_given_up() {
    for (ends, says) in [
        (
            format!("exec {WEIRGATE} \"$@\""),
            "change 3 was begun meanwhile",
        ),
        ("exit 1".to_owned(), "the guard process"),
    ] {
        loses_the_lock(&ends, says);
    }
}

fn loses_the_lock(ends: &str, says: &str) {
    let namespace = Namespace::new();
    let run = format!("/proc/{}/root/run", namespace.holder());
    // The guard gets the memory: more than fits into its socket, so the change cannot go on before
    // the guard reads.
    let names = |number: u32| format!("\"198.18.{}.{}\"", number / 120, 1 + 2 * (number % 120));
    let all: Vec<String> = (0..12_000).map(names).collect();
    let base = fs::read_to_string(root().join("tests/cli/upstream.toml")).unwrap();
    let large = format!(
        "{base}\n[group.many]\naddresses = [{}]\n\
         [[rule]]\nclass = \"interactive\"\nremote-address = \"@many\"\n",
        all.join(", ")
    );
    fs::write(format!("{run}/large.toml"), large).unwrap();
    let mut command = namespace.command(WEIRGATE);
    let applied = command.args(["apply", "/run/large.toml"]).output().unwrap();
    assert!(applied.status.success(), "{applied:?}");
    let slow = format!("{run}/slow");
    fs::write(&slow, format!("#!/bin/sh\nsleep 6\n{ends}\n")).unwrap();
    fs::set_permissions(&slow, fs::Permissions::from_mode(0o755)).unwrap();
    let mut first = namespace.command(std::env::current_exe().unwrap().to_str().unwrap());
    first
        .args(["--exact", "apply::victim::victim", "--nocapture"])
        .env(victim::TASK, "outlast")
        .env(victim::POLICY, root().join("tests/cli/changed.toml"))
        .env(victim::PROGRAM, "/run/slow")
        .stdout(Stdio::piped());
    let first = first.spawn().unwrap();
    let written = || {
        !namespace
            .run("find /run/kept -name 000002.state")
            .is_empty()
    };
    within(5 * SECOND, "the change", written);
    sleep(SECOND / 5);
    namespace.run("find /run/weirgate -name *.lock -delete");
    namespace
        .weirgate("apply upstream.toml")
        .says(0, &["state 3"]);
    let settled = namespace.snapshot();
    let memory = || namespace.run("find /run/weirgate -name state.json -exec cat {} ;");
    let remembered = memory();
    let message = first.wait_with_output().unwrap().stdout;
    let message = String::from_utf8_lossy(&message);
    assert!(message.contains(says), "{message}");
    within(2 * SECOND, "end of the guard", || unguarded(&namespace));
    same(&settled, &namespace.snapshot());
    assert_eq!(memory(), remembered);
    namespace.weirgate("show").says(0, &[]);
}

/// Under systemd, the guard gets a separate unit; the request for it may fail.
#[test]
fn a_guard_that_lasts_gets_a_unit_of_its_own() {
    let namespace = Namespace::new();
    namespace.run("mkdir -p /run/systemd/system /run/bin");
    let run = format!("/proc/{}/root/run", namespace.holder());
    let fake = format!("{run}/bin/busctl");
    let path = format!("/run/bin:{}", std::env::var("PATH").unwrap());
    let apply = |policy: &str, more: &[&str]| {
        let file = root().join("tests/cli").join(policy);
        let mut command = namespace.command(WEIRGATE);
        let ended = command.env("PATH", &path).arg("apply").arg(file).args(more);
        let ended = Ended::of(&ended.output().unwrap());
        assert_eq!(ended.status, 0, "{policy}: {ended:?}");
        ended.err.contains("no unit of its own")
    };
    for status in ["0", "1"] {
        let script = format!("#!/bin/sh\necho \"$@\" > /run/asked\nexit {status}\n");
        fs::write(&fake, script).unwrap();
        fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).unwrap();
        let applied = apply("both.toml", &["--confirm", "600s"]);
        assert_eq!(applied, status == "1", "{status}");
        let guard = only_guard(&namespace).concat();
        let asked = fs::read_to_string(format!("{run}/asked")).unwrap();
        assert_eq!(
            asked.trim(),
            format!(
                "--timeout=2 call org.freedesktop.systemd1 /org/freedesktop/systemd1 \
                 org.freedesktop.systemd1.Manager StartTransientUnit ssa(sv)a(sa(sv)) \
                 weirgate-guard-{guard}.scope fail 3 Description s weirgate: guard of a change \
                 CollectMode s inactive-or-failed PIDs au 1 {guard} 0"
            )
        );
        namespace.weirgate("rollback").says(0, &["is taken back"]);
    }
    // A change without confirmation needs no unit.
    fs::remove_file(format!("{run}/asked")).unwrap();
    assert!(!apply("upstream.toml", &[]));
    assert!(!fs::exists(format!("{run}/asked")).unwrap());
}
