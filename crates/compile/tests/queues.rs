// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queues on a kernel without fq_codel or cake.

use weirgate_compile::compile;
use weirgate_policy::{Policy, parse};
use weirgate_state::{Capabilities, DeviceName, Htb, QdiscKind, State};

const LINK: &str = "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"10mbit\"\n\
    down = \"50mbit\"\ninbound = \"ifb\"\nlayer = \"docsis\"\n";
const ALL: &str = "[[class]]\nname = \"all\"\nshare = \"100%\"\ndefault = true\n";

fn policy(source: &str) -> Policy {
    let (policy, problems) = parse(source);
    policy.unwrap_or_else(|| panic!("{problems:#?}\n{source}"))
}

/// Returns the state of a policy on a kernel without these qdiscs, with codes of the report.
fn without(lacking: &[&str], source: &str) -> (Option<State>, Vec<&'static str>) {
    let mut kernel = Capabilities::all();
    for kind in lacking {
        kernel.qdiscs.remove(*kind);
    }
    let (state, problems) = compile(&policy(source), &kernel);
    (state, problems.iter().map(|problem| problem.code).collect())
}

fn root<'s>(state: &'s State, device: &str) -> &'s QdiscKind {
    let device = &state.devices[&DeviceName::new(device).expect("a name")];
    &device.root.as_ref().expect("shaped").kind
}

/// Returns the kind of the queue of a class in the tree.
fn queue(state: &State, device: &str, class: &str) -> String {
    let htb = |kind: &QdiscKind| -> Htb {
        match kind {
            QdiscKind::Htb(htb) => htb.clone(),
            other => panic!("{other:?}"),
        }
    };
    let gate = htb(root(state, device));
    let inner = gate.classes.iter().find_map(|class| class.leaf.as_ref());
    let inner = htb(&inner.expect("a scheduler").kind);
    let named = format!("class {class}:");
    let mut classes = inner.classes.iter();
    let own = classes.find(|one| one.origin.to_string().contains(&named));
    let leaf = own.and_then(|own| own.leaf.as_ref()).expect("a queue");
    leaf.kind.name().to_owned()
}

/// Only the tree needs the kernel's fq_codel.
#[test]
fn other_engines_need_no_fq_codel() {
    for engine in ["kit", "rows", "cake"] {
        let source = format!("{LINK}engine = \"{engine}\"\n{ALL}");
        let (state, codes) = without(&["fq_codel"], &source);
        assert!(state.is_some() && codes.is_empty(), "{engine}: {codes:?}");
    }
    let source = format!("{LINK}engine = \"htb\"\n{ALL}");
    assert_eq!(without(&["fq_codel"], &source).1, ["C223"]);
}

/// Acknowledgements that are held back have fq upstream; downstream they have the usual queue.
#[test]
fn acknowledgements_are_held_back_without_fq_codel() {
    let of = |ack: &str| {
        let all = format!("{ALL}queue = \"pfifo 100\"\n");
        format!("{LINK}{all}[ack]\n{ack}[receive]\nrate = \"50%\"\nmax-ack-delay = \"100ms\"\n")
    };
    let (state, codes) = without(&["fq_codel"], &of(""));
    let state = state.unwrap_or_else(|| panic!("{codes:?}"));
    assert_eq!(codes, ["C223"]);
    assert_eq!(queue(&state, "wan", "ack"), "fq");
    assert_eq!(queue(&state, "ifb-wan", "ack"), "cake");
    // Upstream alone, nothing has the usual queue.
    let up = of("direction = \"up\"\n");
    for lacking in [&["fq_codel"][..], &["fq_codel", "cake", "sfq"]] {
        let (state, codes) = without(lacking, &up);
        assert!(state.is_some() && codes.is_empty(), "{codes:?}");
    }
    let stated = of("queue = \"pfifo 50\"\n");
    assert_eq!(without(&["fq_codel"], &stated).1, ["C219"]);
}

/// Hosts with a limit always have fq_codel in the tree.
#[test]
fn hosts_with_a_limit_need_fq_codel() {
    let cap = "[group.few]\naddresses = [\"203.0.113.4\"]\n\
               [[cap]]\ngroup = \"few\"\nclass = \"all\"\nup = \"1mbit\"\n";
    let source = format!("{LINK}{ALL}{cap}");
    assert!(without(&[], &source).0.is_some());
    let (state, codes) = without(&["fq_codel"], &source);
    assert!(state.is_none() && codes.contains(&"C201"), "{codes:?}");
    let rows = source.replace("[[class]]", "engine = \"rows\"\n[[class]]");
    let (state, codes) = without(&["fq_codel"], &rows);
    assert!(state.is_some(), "{codes:?}");
}

/// Nothing is reported about cake where it would not be used.
#[test]
fn programs_and_held_acknowledgements_need_no_cake() {
    let ack = "[ack]\ndirection = \"up\"\n";
    let slow = LINK.replace("10mbit", "2mbit").replace("ifb", "auto");
    let of = |engine: &str, rest: &str| format!("{slow}{engine}\n{ALL}{ack}{rest}");
    let hold = "[receive]\nrate = \"50%\"\nmax-ack-delay = \"100ms\"\n";
    let over_all = "[group.few]\naddresses = [\"203.0.113.4\"]\n\
        [marks]\ninside = \"0x0000ff00\"\n[[cap]]\ngroup = \"few\"\ndown = \"1mbit\"\n";
    for (source, expected) in [
        (of("", ""), &["C227", "C215"][..]),
        (of("", hold), &["C227"]),
        (of("engine = \"kit\"", ""), &[]),
        (of("engine = \"rows\"", ""), &[]),
        (of("", over_all), &[]),
    ] {
        let (state, codes) = without(&["cake"], &source);
        assert!(state.is_some(), "{codes:?} {source}");
        assert_eq!(codes, expected, "{source}");
    }
}
