// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes of a policy in force: under traffic, unconfirmed, and their duration.

use crate::inside::{
    Busy, SITE, Site, asked, attach_point, configured, done, gone, many, programs, root, site,
    unguarded, within,
};
use crate::net;
use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};
use weirgate_bpf::RowTree;
use weirgate_state::{Rows, RowsNode, RowsRole};
use weirgate_units::Handle;

/// Returns the rate at which each leaf sent wire bytes during a time span.
fn had(span: Duration) -> BTreeMap<Handle, f64> {
    let counts = || -> BTreeMap<Handle, u64> {
        let tree = RowTree::at(attach_point("wan0"))
            .expect("pins")
            .expect("a tree");
        let (_, counts) = tree.counts().expect("maps").expect("a tree");
        let sent = counts
            .iter()
            .map(|one| (one.id, one.counts.sent_wire_bytes));
        sent.collect()
    };
    let (before, began) = (counts(), Instant::now());
    thread::sleep(span);
    let (after, took) = (counts(), began.elapsed().as_secs_f64());
    let rate = |(id, bytes): (Handle, u64)| {
        let more = bytes - before.get(&id).copied().unwrap_or(0);
        (id, more as f64 / took)
    };
    after.into_iter().map(rate).collect()
}

/// What an edit changes in the rows.
struct Differing {
    /// How many rows are written.
    written: usize,
    /// How many rows are gone.
    ended: usize,
    /// How many nodes the engine has to look at: those whose own row or whose cap's is written.
    looks: usize,
}

/// Returns what differs in the second tree.
fn differing(before: &Rows, after: &Rows) -> Differing {
    let of = |rows: &Rows| -> BTreeMap<Handle, String> {
        let nodes = rows.nodes.iter();
        nodes.map(|node| (node.id, format!("{node:?}"))).collect()
    };
    let (before, now) = (of(before), of(after));
    let written = |id: &Handle| before.get(id) != now.get(id);
    let nodes = after.nodes.iter();
    let looks = nodes.filter(|node| written(&node.id) || node.cap.is_some_and(|cap| written(&cap)));
    Differing {
        written: now.keys().filter(|id| written(id)).count(),
        ended: before.keys().filter(|id| !now.contains_key(id)).count(),
        looks: looks.count(),
    }
}

/// Under traffic, a class gets another rate, a class is added and removed, and a host's limit is
/// added, changed and removed. No packet passes early, a stream within its guarantee loses none,
/// and new rates apply at once. Nothing is loaded, and only rows that differ are written.
#[test]
#[ignore = "runs in the lab's kernel"]
fn edits_under_traffic_store_what_differs() {
    let far = site();
    SITE.applied();
    let first = configured("wan0").expect("a tree");
    let (loaded, kind) = (programs(), root("wan0"));
    assert!(kind.contains("qdisc weir_r"), "{kind}");
    let gate = first.gate;
    let busy = Busy::begin();
    let stream = thread::spawn(|| net::probe(0, 0, 300, Duration::from_millis(10)));
    let edits = [
        ("a rate", Site { stream: 30, ..SITE }),
        (
            "a class comes",
            Site {
                more: Some(10),
                ..SITE
            },
        ),
        (
            "a limit comes",
            Site {
                more: Some(10),
                cap: Some(1_200),
                ..SITE
            },
        ),
        (
            "a limit changes",
            Site {
                more: Some(10),
                cap: Some(1_000),
                ..SITE
            },
        ),
        (
            "a limit goes",
            Site {
                more: Some(10),
                ..SITE
            },
        ),
        ("a class goes", SITE),
    ];
    for (what, edit) in edits {
        let (before, looks) = (configured("wan0").expect("a tree"), asked("wan0"));
        let began = Instant::now();
        edit.applied();
        let took = began.elapsed();
        let after = configured("wan0").expect("a tree");
        let Differing {
            written,
            ended,
            looks: due,
        } = differing(&before, &after);
        let looks = asked("wan0").wrapping_sub(looks);
        println!(
            "{what}: {} ms with a plan; {written} rows written, {ended} ended, {looks} looks",
            took.as_millis()
        );
        assert_eq!(looks as usize, due, "{what}: rows that are looked at");
        assert!(written + ended > 0, "{what}: nothing differs");
        assert_eq!(programs(), loaded, "{what}: loaded anew");
        assert_eq!(root("wan0"), kind, "{what}: another qdisc");
        let rates = had(Duration::from_millis(1_500));
        // For the limited host, count its own leaves. Packets that waited before stay in the leaf
        // of all others.
        let counted = |node: &&RowsNode| match edit.cap {
            Some(_) => node.cap.is_some(),
            None => node.role == RowsRole::Leaf,
        };
        let all: f64 = after
            .nodes
            .iter()
            .filter(counted)
            .filter_map(|node| rates.get(&node.id))
            .sum();
        let due = edit.cap.map_or(gate.as_bytes_per_second() as f64, |kbit| {
            f64::from(kbit) * 125.0
        });
        println!("{what}: {:.4} of what is due", all / due);
        assert!((all / due - 1.0).abs() < 0.01, "{what}: {all} of {due}");
    }
    let trips = stream.join().expect("a stream");
    let longest = trips.iter().max().expect("answers");
    println!(
        "{} of 300 datagrams answered, after {longest:?} at most",
        trips.len()
    );
    assert_eq!(trips.len(), 300);
    // Another apply of the same policy changes nothing.
    let looks = asked("wan0");
    SITE.applied();
    assert_eq!(asked("wan0"), looks);
    assert_eq!(configured("wan0").expect("a tree"), first);
    busy.end(gate, 0.0);
    gone(far);
}

/// An unconfirmed change is taken back, row by row.
#[test]
#[ignore = "runs in the lab's kernel"]
fn an_unconfirmed_change_returns() {
    let far = site();
    SITE.applied();
    let first = ["wan0", "ifb-wan0"].map(configured);
    let gate = first[0].as_ref().expect("a tree").gate;
    let loaded = programs();
    let busy = Busy::begin();
    let other = Site {
        stream: 30,
        more: Some(10),
        cap: Some(1_000),
        ..SITE
    };
    let path = other.written("policy");
    done(&format!("apply --confirm 1s {path}"));
    assert_ne!(["wan0", "ifb-wan0"].map(configured), first);
    let took = within(Duration::from_secs(3), "the return", || {
        unguarded() && ["wan0", "ifb-wan0"].map(configured) == first
    });
    println!("taken back {} ms later", took.as_millis());
    assert_eq!(programs(), loaded);
    assert!(done("history").contains("returned by itself"));
    // A manual rollback does the same.
    done(&format!("apply --confirm 60s {path}"));
    done("rollback");
    assert_eq!(["wan0", "ifb-wan0"].map(configured), first);
    done(&format!("apply {path}"));
    done("rollback");
    assert_eq!(["wan0", "ifb-wan0"].map(configured), first);
    assert_eq!(programs(), loaded);
    // The other policy's limit leaves slack in the gate.
    thread::sleep(Duration::from_secs(2));
    busy.end(gate, 0.0);
    gone(far);
}

/// Measures the time of an apply: the first, the same again, one that changes a class or a limit;
/// and the same with the tree of HTB.
#[test]
#[ignore = "runs in the lab's kernel"]
fn one_change_among_many() {
    for (engine, hosts) in [("htb", 0), ("rows", 0), ("rows", 16)] {
        let far = site();
        // Without packets, the program checks no changed row, and at most 64 changes can wait.
        let looks = || (engine == "rows" && hosts == 0).then(|| asked("wan0"));
        let time = |what: &str, rates: (u32, u32)| {
            fs::write("/many.toml", many(engine, 100_000, hosts, rates)).expect("a file");
            let before = if what == "first" { None } else { looks() };
            let began = Instant::now();
            done("apply /many.toml");
            let took = began.elapsed().as_secs_f64() * 1e3;
            let rows = before
                .zip(looks())
                .map(|(before, after)| after.wrapping_sub(before));
            println!("{engine}, {hosts} hosts: {what}: {took:.1} ms, rows up: {rows:?}");
        };
        time("first", (20, 1_500));
        if let Some(tree) = configured("wan0") {
            println!("{engine}, {hosts} hosts: {} nodes up", tree.nodes.len());
        }
        time("again", (20, 1_500));
        time("one class", (30, 1_500));
        if hosts > 0 {
            time("one limit", (30, 1_400));
        }
        gone(far);
    }
}
