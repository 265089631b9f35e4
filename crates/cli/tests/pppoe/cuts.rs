// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sessions that end under load and are dialled again.

use crate::CUTS;
use crate::daemons::{Daemon, KEEP_LOG};
use crate::endings::{ENDINGS, Ends};
use crate::inside::{apply, dialled, kernel, passed, upstream};
use crate::monitor::{What, Word, monitor};
use crate::session::{Load, SERVER, host_connects, run, say, set_up, until};
use crate::wire::capture;
use serde_json::Value;
use std::fmt;
use std::fs;
use std::thread;
use std::time::Duration;

/// Returns the policy of a home, changed to the session's device. Its rates are a twentieth, so
/// that 250 packets a second exceed them.
fn home_policy() -> String {
    let mut home = include_str!("../../../../policies/home.toml").to_owned();
    for (from, to) in [
        ("\"wan\"", "\"ppp0\"\ndevice-kind = \"pppoe\"\nmtu = 1492"),
        ("\"40mbit\"", "\"2mbit\""),
        ("\"100mbit\"", "\"5mbit\""),
    ] {
        assert!(home.contains(from), "{from} in {home}");
        home = home.replace(from, to);
    }
    home
}

/// Returns all qdiscs, classes and filters of the session's device and of the inner one, and all
/// tables, without counters. It leaves out the numbers of loaded programs, and the flows of queues,
/// which the kernel lists as classes.
fn everything(device: &str) -> String {
    let of = |device: &str| {
        let list = |what: &str| run(&format!("tc {what} show dev {device}"));
        let classes = list("class");
        let classes = classes.lines().filter(|line| line.starts_with("class htb"));
        let filters = ["ingress", "egress"].map(|place| list_filters(device, place));
        let classes = classes.collect::<Vec<_>>().join("\n");
        format!("{}{classes}\n{}", list("qdisc"), filters.join("\n"))
    };
    let tables = run("nft --stateless list ruleset");
    format!("{}\n{}\n{tables}", of(device), of("lan"))
}

fn list_filters(device: &str, place: &str) -> String {
    let listed = run(&format!("tc filter show dev {device} {place}"));
    let mut words = listed.split_whitespace();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        kept.push(word);
        if word == "id" {
            words.next();
        }
    }
    kept.join(" ")
}

/// The times from the report of a new device to the reports about its parts.
#[derive(Clone, Copy, Default)]
struct Times {
    /// Its root qdisc.
    root: Duration,
    /// All qdiscs and classes.
    whole: Duration,
    /// The programs for arriving packets, if there are any.
    programs: Duration,
    /// The device is up.
    up: Duration,
}

impl Times {
    fn of(words: &[Word], index: u32, device: &str) -> Self {
        let own = words.iter().filter(|word| word.1 == index);
        let first = |wanted: &dyn Fn(&What) -> bool| {
            let mut own = own.clone().filter(|word| wanted(&word.2));
            own.next().map(|word| word.0)
        };
        let named = |up: bool| move |what: &What| matches!(what, What::Device(name, is_up) if name == device && (*is_up || !up));
        let came = first(&named(false)).expect("a device");
        let up = first(&named(true)).expect("a device that is up");
        let root = first(&|what| *what == What::Root).expect("a root qdisc");
        let last = |wanted: &[What]| {
            let own = own.clone().filter(|word| wanted.contains(&word.2));
            own.map(|word| word.0).max().unwrap_or(came)
        };
        let (whole, programs) = (last(&[What::Root, What::Part]), last(&[What::Program]));
        Self {
            root: root.saturating_duration_since(came),
            whole: whole.saturating_duration_since(came),
            programs: programs.saturating_duration_since(came),
            up: up.saturating_duration_since(came),
        }
    }

    /// Returns the later one of each time.
    fn later(self, other: &Self) -> Self {
        Self {
            root: self.root.max(other.root),
            whole: self.whole.max(other.whole),
            programs: self.programs.max(other.programs),
            up: self.up.max(other.up),
        }
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [root, whole, programs, up] =
            [self.root, self.whole, self.programs, self.up].map(|one| one.as_secs_f64() * 1e3);
        write!(f, "{root:.2} | {whole:.2} | {programs:.2} | {up:.0}")
    }
}

/// The results of the sessions that ended in one way.
#[derive(Default)]
struct Row {
    cuts: u32,
    slowest: Times,
    left: u64,
    unshaped: u64,
}

/// Returns the lines that differ.
fn difference(wanted: &str, found: &str) -> String {
    let mut different = String::new();
    for (sign, of, other) in [('-', wanted, found), ('+', found, wanted)] {
        let only = |line: &&str| !other.lines().any(|one| one == *line);
        for line in of.lines().filter(only) {
            different.extend([sign, ' ']);
            different.push_str(line);
            different.push('\n');
        }
    }
    different
}

/// Ends sessions while a host sends more than the line carries. Each new device must be shaped
/// before a packet leaves by it.
fn cuts(device: &str, policy: &str) {
    let cuts: usize = std::env::var(CUTS).unwrap().parse().unwrap();
    set_up(device, 1);
    let (runtime, kernel) = kernel();
    let (words, seen) = (monitor(), capture("wire"));
    let mut ends = Ends::new();
    let mut number = dialled(device, 0);
    say("a session is there");
    apply(policy);
    let wanted = everything(device);
    // Another apply must give the same, whatever was loaded before the first one.
    run("weirgate remove");
    apply(policy);
    let again = everything(device);
    assert_eq!(difference(&wanted, &again), "", "applied once more");
    let _keep = Daemon::keep();
    thread::sleep(Duration::from_secs(1));
    let load = Load::new("192.168.1.2:0", SERVER);
    host_connects(SERVER);
    let segments = seen.lock().unwrap().segments;
    assert_eq!(
        segments,
        [Some(1_452), None],
        "the segment size on a link of 1492 bytes"
    );
    let mut rows: [Row; ENDINGS.len()] = Default::default();
    let mut wrong = Vec::new();
    load.set(true);
    for cut in 0..cuts {
        thread::sleep(Duration::from_millis(200));
        let before = seen.lock().unwrap().clone();
        words.lock().unwrap().clear();
        let ending = cut % ENDINGS.len();
        ends.session(ending, device, before.last);
        number = dialled(device, number);
        until("traffic", || {
            let next = seen.lock().unwrap().next(&before);
            next.filter(|(_, count)| *count > 50)
        });
        load.set(false);
        thread::sleep(Duration::from_millis(400));
        let (session, left) = seen.lock().unwrap().next(&before).unwrap();
        let (_, shaped) = passed(&runtime, &kernel, device).unwrap();
        let times = Times::of(&words.lock().unwrap(), number, device);
        say(&format!(
            "cut {cut}: {}: session {session}: {times} ms; {left} packets left, {shaped} by \
             the tree",
            ENDINGS[ending],
        ));
        let shown: Value = serde_json::from_str(&run("weirgate show --json")).unwrap();
        let differs = difference(&wanted, &everything(device));
        if shown["differences"] != Value::Array(Vec::new()) || !differs.is_empty() {
            wrong.push((cut, shown["differences"].clone(), differs));
        }
        let row = &mut rows[ending];
        row.cuts += 1;
        row.slowest = row.slowest.later(&times);
        row.left += left;
        row.unshaped += left.abs_diff(shaped);
        load.set(true);
    }
    say(&fs::read_to_string(KEEP_LOG).unwrap());
    say(
        "how | cuts | root qdisc, ms | whole tree, ms | programs, ms | up, ms | packets | beside the tree",
    );
    for (ending, row) in ENDINGS.iter().zip(&rows).filter(|(_, row)| row.cuts > 0) {
        let Row {
            cuts,
            slowest,
            left,
            unshaped,
        } = row;
        say(&format!(
            "{ending} | {cuts} | {slowest} | {left} | {unshaped}"
        ));
    }
    let wrong = wrong
        .iter()
        .map(|one| format!("{one:#?}"))
        .collect::<Vec<_>>();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (ending, row) in ENDINGS.iter().zip(&rows) {
        assert_eq!(row.unshaped, 0, "packets beside the tree: {ending}");
        let Times {
            root,
            whole,
            programs,
            ..
        } = row.slowest;
        assert!(root < Duration::from_millis(10), "{ending}: {root:?}");
        assert!(whole < Duration::from_millis(50), "{ending}: {whole:?}");
        assert!(
            programs < Duration::from_millis(50),
            "{ending}: {programs:?}"
        );
    }
}

#[test]
#[ignore = "runs in the guest"]
fn home() {
    cuts("ppp0", &home_policy());
}

/// pppd creates the device under another name first.
#[test]
#[ignore = "runs in the guest"]
fn one_class() {
    cuts("dsl0", &upstream("dsl0", "vdsl2:pppoe", "2mbit"));
}
