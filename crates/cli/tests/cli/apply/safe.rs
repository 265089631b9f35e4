// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes that cannot cut a site off: confirmed, taken back, interrupted, made under load, and
//! kept while devices appear and disappear.

use crate::apply::victim;
use crate::namespace::{Namespace, same};
use crate::program::{Ended, WEIRGATE, root};
use crate::stream::{Far, Fate};
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// The ten policies of `tests/cli/safe`.
pub fn policies() -> Vec<String> {
    (1..=10)
        .map(|number| format!("safe/{number:02}.toml"))
        .collect()
}

/// Asserts that something becomes true within a time.
#[track_caller]
pub fn within(limit: Duration, what: &str, mut test: impl FnMut() -> bool) -> Duration {
    let begin = Instant::now();
    loop {
        // Taken before the check, so that a slow check does not count.
        let now = begin.elapsed();
        if test() {
            return now;
        }
        assert!(now < limit, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns whether no guard is left in the namespace.
pub fn unguarded(namespace: &Namespace) -> bool {
    let run = format!("/proc/{}/root/run/weirgate", namespace.holder());
    let mut entries = fs::read_dir(run).into_iter().flatten().flatten();
    !entries.any(|entry| entry.file_name().to_string_lossy().contains(".guard"))
}

pub fn task(namespace: &Namespace, task: &str, policy: &str) -> Ended {
    let program = std::env::current_exe().unwrap();
    let mut command = namespace.command(program.to_str().unwrap());
    command
        .args(["--exact", "apply::victim::victim", "--nocapture"])
        .env(victim::TASK, task)
        .env(victim::POLICY, root().join("tests/cli").join(policy))
        .env(victim::PROGRAM, WEIRGATE);
    Ended::of(&command.output().unwrap())
}

pub fn requests(ended: &Ended) -> usize {
    assert_eq!(ended.status, 0, "{ended:?}");
    let line = ended
        .out
        .lines()
        .find_map(|line| line.split_once("requests "));
    line.unwrap().1.trim().parse().unwrap()
}

#[test]
fn an_unconfirmed_change_returns_in_time_with_everything_else_killed() {
    let namespace = Namespace::new();
    namespace.weirgate("apply both.toml").says(0, &["state 1"]);
    let before = namespace.snapshot();
    let keeper = Keeper::new(&namespace);
    let begin = Instant::now();
    namespace
        .weirgate("apply --confirm 5s changed.toml")
        .says(0, &["state 2", "in 5 s"]);
    let end = SystemTime::now();
    drop(keeper);
    namespace
        .weirgate("apply upstream.toml")
        .says(1, &["change 2 is not confirmed yet"]);
    // The rate of both.toml, which changed.toml lacks.
    let back = || {
        namespace
            .run("tc class show dev wan classid 2:4a6b")
            .contains("83192bit")
    };
    assert!(!back());
    std::thread::sleep(Duration::from_millis(4_900).saturating_sub(begin.elapsed()));
    assert!(!back(), "it returned too early");
    within(Duration::from_secs(2), "return", back);
    within(Duration::from_secs(1), "end of the guard", || {
        unguarded(&namespace)
    });
    // The guard writes the result of the change when all is restored.
    let root = format!("/proc/{}/root", namespace.holder());
    let head = namespace.run("find /run/kept -name head");
    let written = fs::metadata(format!("{root}{}", head.trim())).unwrap();
    let late = written.modified().unwrap().duration_since(end).unwrap();
    let late = late.saturating_sub(Duration::from_secs(5));
    println!("all was back at most {late:?} after its time");
    assert!(late < Duration::from_millis(200), "{late:?} late");
    same(&before, &namespace.snapshot());
    let history = namespace.weirgate("history").out;
    assert!(history.contains("returned by itself"), "{history}");
    namespace
        .weirgate("confirm")
        .says(1, &["nothing waits for confirmation"]);
}

#[test]
fn a_removal_is_in_the_history_and_a_rollback_goes_back_to_it() {
    let namespace = Namespace::new();
    let bare = namespace.snapshot();
    namespace.weirgate("apply both.toml").says(0, &["state 1"]);
    let shaped = namespace.snapshot();
    namespace.weirgate("remove").says(0, &[]);
    same(&bare, &namespace.snapshot());
    namespace.weirgate("apply both.toml").says(0, &["state 3"]);
    let history = namespace.weirgate("history").out;
    assert!(history.contains("everything was removed"), "{history}");
    namespace
        .weirgate("rollback --confirm 60s")
        .says(1, &["state 2 is a removal"]);
    namespace.weirgate("rollback").says(0, &[]);
    same(&bare, &namespace.snapshot());
    // Nothing is in force, and nothing is restored at the next start.
    namespace
        .weirgate("boot")
        .says(0, &["no policy is applied"]);
    namespace.weirgate("rollback").says(0, &["state 5"]);
    same(&shaped, &namespace.snapshot());
}

#[test]
fn a_confirmed_change_stays_and_earlier_ones_can_be_had_again() {
    let namespace = Namespace::new();
    namespace
        .weirgate("rollback")
        .says(1, &["there is no earlier state"]);
    namespace
        .weirgate("apply --confirm 1s both.toml")
        .says(0, &[]);
    namespace
        .weirgate("confirm")
        .says(0, &["state 1 is confirmed"]);
    std::thread::sleep(Duration::from_millis(1_200));
    let first = namespace.snapshot();
    assert!(first.contains("htb 1:"));
    namespace
        .weirgate("apply upstream.toml")
        .says(0, &["state 2"]);
    let second = namespace.snapshot();
    namespace
        .weirgate("apply --confirm 60s changed.toml")
        .says(0, &[]);
    namespace
        .weirgate("rollback")
        .says(0, &["state 3 is taken back"]);
    same(&second, &namespace.snapshot());
    namespace.weirgate("rollback").says(0, &["state 4"]);
    same(&first, &namespace.snapshot());
    namespace.weirgate("rollback 2").says(0, &["state 5"]);
    same(&second, &namespace.snapshot());
    namespace
        .weirgate("rollback 9")
        .says(1, &["there is no state 9"]);
    let history = namespace.weirgate("history").out;
    for part in ["taken back", "(state 1 again)", "(state 2 again)  in force"] {
        assert!(history.contains(part), "{part} in {history}");
    }
    assert!(unguarded(&namespace));
}

#[test]
fn what_the_kernel_offers_is_asked_once_in_its_run() {
    let namespace = Namespace::new();
    namespace.weirgate("apply both.toml").says(0, &["state 1"]);
    let answers = || {
        namespace
            .run("find /run -name asked.json")
            .trim()
            .to_owned()
    };
    let file = answers();
    let kept = namespace.run(&format!("cat {file}"));
    assert!(kept.contains("\"htb\""), "{kept}");
    // A broken answer file is replaced by asking the kernel again; a sound one is used.
    namespace.run(&format!("truncate -s 20 {file}"));
    namespace
        .weirgate("apply changed.toml")
        .says(0, &["state 2"]);
    assert_eq!(namespace.run(&format!("cat {file}")), kept);
    namespace.weirgate("apply both.toml").says(0, &["state 3"]);
    namespace.weirgate("remove").says(0, &[]);
    assert_eq!(answers(), "");
}

#[test]
fn damaged_states_are_named_and_the_others_serve() {
    let namespace = Namespace::new();
    for policy in ["both.toml", "changed.toml", "upstream.toml"] {
        namespace.weirgate(&format!("apply {policy}")).says(0, &[]);
    }
    let folder = namespace.run("find /run/kept -name head");
    let folder = folder.trim().trim_end_matches("head");
    namespace.run(&format!("truncate -s 500 {folder}000002.state"));
    let listed = namespace.weirgate("history");
    listed.says(1, &["000002.state is damaged"]);
    assert!(listed.out.contains("   1  ") && listed.out.contains("   3  "));
    namespace
        .weirgate("rollback 2")
        .says(1, &["000002.state is damaged"]);
    namespace.weirgate("rollback 1").says(0, &["state 4"]);
    let settled = namespace.snapshot();
    namespace.run(&format!("truncate -s 50 {folder}head"));
    namespace
        .weirgate("boot")
        .says(0, &["its copy was used", "state 4 is in force: 0 steps"]);
    same(&settled, &namespace.snapshot());
    // With the copy damaged too, nothing tells which state is confirmed.
    for file in ["head", "head.copy"] {
        namespace.run(&format!("truncate -s 50 {folder}{file}"));
    }
    for command in ["rollback 1", "boot", "apply both.toml", "history"] {
        namespace
            .weirgate(command)
            .says(1, &["head is damaged (", "delete it"]);
    }
    same(&settled, &namespace.snapshot());
}

#[test]
fn boot_brings_the_confirmed_state_back() {
    let namespace = Namespace::named();
    let bare = namespace.snapshot();
    namespace
        .weirgate("boot")
        .says(0, &["no policy is applied"]);
    namespace.weirgate("apply both.toml").says(0, &[]);
    let confirmed = namespace.snapshot();
    namespace
        .weirgate("apply --confirm 600s upstream.toml")
        .says(0, &[]);
    for guard in guards(&namespace) {
        Command::new("kill").args(["-9", &guard]).status().unwrap();
    }
    namespace.restart();
    same(&bare, &namespace.snapshot());
    namespace.weirgate("boot").says(0, &["state 1 is in force"]);
    same(&confirmed, &namespace.snapshot());
    namespace
        .weirgate("boot")
        .says(0, &["state 1 is in force: 0 steps"]);
    namespace.weirgate("remove").says(0, &[]);
    same(&bare, &namespace.snapshot());
    namespace
        .weirgate("boot")
        .says(0, &["no policy is applied"]);
    same(&bare, &namespace.snapshot());
}

/// Returns the process numbers of the guards in the namespace.
pub fn guards(namespace: &Namespace) -> Vec<String> {
    let own = fs::read_link(format!("/proc/{}/ns/net", namespace.holder())).unwrap();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let path = entry.path();
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        let here = fs::read_link(path.join("ns/net")).is_ok_and(|net| net == own);
        if here && line == b"weirgate\0guard\0" {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    found
}

#[test]
fn an_unchanged_policy_makes_no_request() {
    let namespace = Namespace::new();
    for policy in policies() {
        assert_ne!(requests(&task(&namespace, "plain", &policy)), 0);
        assert_eq!(requests(&task(&namespace, "plain", &policy)), 0);
    }
}

#[test]
fn class_edits_under_load_lose_no_packet() {
    let namespace = Namespace::new();
    let far = Far::of(&namespace);
    namespace.weirgate("apply safe/01.toml").says(0, &[]);
    let stream = far.stream(1_000);
    let mut steps = 0;
    for round in 0..25 {
        for policy in [
            "safe/02.toml",
            "safe/05.toml",
            "safe/04.toml",
            "safe/01.toml",
        ] {
            // These changes add and remove classes, too.
            let ended = namespace.weirgate(&format!("apply {policy}"));
            assert_eq!(ended.status, 0, "{round} {ended:?}");
            for line in ended.out.lines().filter(|line| line.starts_with("wan")) {
                assert!(!line.contains("htb"), "a tree is exchanged: {line}");
            }
            steps += ended.out.lines().count();
        }
    }
    let fate = stream.end();
    // With two processors, packets may overtake one another, but none may be lost.
    let Fate {
        sent, late, gap, ..
    } = fate;
    println!("{steps} steps, {sent} sent, {late} late, {gap:?} at most");
    if !fate.lost.is_empty() {
        println!("{}", namespace.run("tc -s class show dev wan"));
    }
    assert!(fate.lost.is_empty() && fate.failed.is_none(), "{fate:?}");
    assert!(fate.sent > 500);
}

/// Returns whether `wan` has its qdisc tree and the table of arriving packets, which is created
/// last.
pub fn shaped(namespace: &Namespace) -> bool {
    namespace
        .run("tc qdisc show dev wan")
        .contains("htb 1: root")
        && namespace
            .run("nft list ruleset")
            .contains("table netdev weirgate")
}

/// The service `keep`, which is killed when the test ends.
pub struct Keeper(Child);

impl Keeper {
    pub fn new(namespace: &Namespace) -> Self {
        let mut command = namespace.command(WEIRGATE);
        Self(
            command
                .arg("keep")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        )
    }

    /// Sends a signal, such as `-STOP`.
    pub fn signal(&self, which: &str) {
        let number = self.0.id().to_string();
        let ended = Command::new("kill").args([which, &number]).status();
        assert!(ended.unwrap().success());
    }

    fn switches(&self) -> String {
        // `nsenter` executes the program in its own process, so the process number is the
        // service's.
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = |line: &&str| line.contains("ctxt_switches");
        status.lines().filter(line).collect::<Vec<_>>().join(" ")
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn devices_come_and_go_and_get_their_state() {
    let namespace = Namespace::new();
    namespace.weirgate("apply safe/01.toml").says(0, &[]);
    let keeper = Keeper::new(&namespace);
    let second = Duration::from_secs(1);
    // A busy machine makes some rounds slower, so the quickest one counts.
    let (mut cleared, mut returned) = (Duration::MAX, Duration::MAX);
    for round in 0..3 {
        namespace.run("ip link del wan");
        let gone = || {
            let devices = namespace.run("ip link show");
            !devices.contains("ifb") && namespace.run("nft list ruleset").is_empty()
        };
        let took = within(10 * second, "clearing", gone);
        namespace.run("ip link add wan type veth peer name far");
        namespace.run("ip link set wan up");
        let back = within(10 * second, "return", || shaped(&namespace));
        println!("{round}: cleared after {took:?}, back after {back:?}");
        (cleared, returned) = (cleared.min(took), returned.min(back));
        // A pause like the one between real changes.
        std::thread::sleep(Duration::from_millis(300));
    }
    assert!(cleared < second && returned < second);
    // With nothing to do, it sleeps. Addresses that the kernel adds some time after a device
    // appears still wake it.
    let idle = || {
        let before = keeper.switches();
        std::thread::sleep(second);
        before == keeper.switches()
    };
    within(10 * second, "sleep", idle);
}

#[test]
fn a_renamed_device_is_freed_and_shaped_again_by_its_name() {
    let namespace = Namespace::new();
    namespace.weirgate("apply safe/01.toml").says(0, &[]);
    let settled = namespace.snapshot();
    let _keeper = Keeper::new(&namespace);
    std::thread::sleep(Duration::from_millis(300));
    let rename = |from: &str, to: &str| {
        namespace.run(&format!("ip link set {from} down"));
        namespace.run(&format!("ip link set {from} name {to}"));
        namespace.run(&format!("ip link set {to} up"));
    };
    rename("wan", "uplink");
    // This test checks only that the repair happens. `devices_come_and_go_and_get_their_state`
    // checks how fast.
    let patience = Duration::from_secs(5);
    within(patience, "freeing", || {
        !namespace.run("tc qdisc show dev uplink").contains("htb")
            && !namespace.run("nft list ruleset").contains("wan")
    });
    rename("uplink", "wan");
    within(patience, "return", || shaped(&namespace));
    same(&settled, &namespace.snapshot());
}

#[test]
fn a_device_that_returns_does_not_wait_for_a_swarm_to_end() {
    let namespace = Namespace::new();
    namespace.weirgate("apply safe/07.toml").says(0, &[]);
    let _keeper = Keeper::new(&namespace);
    let pause = Duration::from_millis(300);
    std::thread::sleep(pause);
    // The pause for a swarm is 50 ms. A busy machine makes some repairs slower, so the quickest of
    // several counts.
    let rounds = (0..20).map(|_| {
        namespace.run("ip link del wan");
        std::thread::sleep(pause);
        let begin = Instant::now();
        namespace.run("ip link add wan type veth peer name far");
        within(Duration::from_secs(5), "return", || {
            namespace
                .run("tc qdisc show dev wan")
                .contains("htb 1: root")
        });
        // This includes the last check's own duration.
        begin.elapsed()
    });
    let mut slow = Vec::new();
    for took in rounds {
        if took < Duration::from_millis(50) {
            return;
        }
        slow.push(took);
    }
    panic!("{slow:?}");
}

#[test]
fn someone_who_undoes_it_again_and_again_causes_no_storm() {
    let namespace = Namespace::new();
    namespace.weirgate("apply safe/07.toml").says(0, &[]);
    let _keeper = Keeper::new(&namespace);
    std::thread::sleep(Duration::from_millis(300));
    let shaped = || {
        namespace
            .run("tc qdisc show dev wan")
            .contains("htb 1: root")
    };
    let (begin, mut repairs) = (Instant::now(), 0);
    while begin.elapsed() < Duration::from_secs(5) {
        if shaped() {
            repairs += 1;
            namespace.run("tc qdisc del dev wan root");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    println!("{repairs} repairs in 5 s");
    // The pauses double: 50, 100, 200 ms and so on.
    assert!((3..=9).contains(&repairs), "{repairs}");
}
