// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `l4s` of the link: the resulting engine and queues, and refusals.

use weirgate_compile::{check_report, compile};
use weirgate_document::{Problem, Severity};
use weirgate_policy::{Policy, parse};
use weirgate_state::{
    CakeAckFilter, Capabilities, DeviceName, FqCodel, KitClass, Qdisc, QdiscKind, State, Table,
};
use weirgate_units::Span;

/// Returns a link whose full packets take 1,538 bytes, and a class besides the default one.
fn source(link: &str, default: &str) -> String {
    format!(
        "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"20mbit\"\n\
         layer = \"ethernet\"\nl4s = true\n{link}\n\
         [[class]]\nname = \"calls\"\nshare = \"10%\"\n\
         [[class]]\nname = \"normal\"\nshare = \"50%\"\ndefault = true\n{default}\n\
         [[rule]]\nclass = \"calls\"\ndscp = \"EF\"\n"
    )
}

fn policy(link: &str, default: &str) -> Policy {
    let text = source(link, default);
    let (policy, problems) = parse(&text);
    policy.unwrap_or_else(|| panic!("{problems:#?}\n{text}"))
}

fn without_kit() -> Capabilities {
    Capabilities {
        kit: false,
        ..Capabilities::all()
    }
}

fn made(policy: &Policy, kernel: &Capabilities) -> (State, Vec<Problem>) {
    let (state, problems) = compile(policy, kernel);
    let state = state.unwrap_or_else(|| panic!("{problems:#?}"));
    (state, problems)
}

fn root<'s>(state: &'s State, device: &str) -> &'s Qdisc {
    let name = DeviceName::new(device).expect("a name");
    state.devices[&name].root.as_ref().expect("shaped")
}

fn classes(state: &State) -> Vec<KitClass> {
    match &root(state, "wan").kind {
        QdiscKind::Kit(kit) => kit.classes.clone(),
        other => panic!("not the kit's: {other:?}"),
    }
}

/// Returns every `fq_codel` in a tree.
fn queues(qdisc: &Qdisc) -> Vec<FqCodel> {
    match &qdisc.kind {
        QdiscKind::FqCodel(own) => vec![own.clone()],
        QdiscKind::Htb(htb) => {
            let leaves = htb.classes.iter().filter_map(|class| class.leaf.as_ref());
            leaves.flat_map(|leaf| queues(leaf)).collect()
        }
        _ => Vec::new(),
    }
}

fn value(class: &KitClass, name: &str) -> Option<u64> {
    let setting = class.settings.iter().find(|one| one.name == name);
    setting.map(|one| one.value)
}

/// Of 20 Mbit/s less the margin, 50 % of the rest is guaranteed: a full packet takes 1,538 * 8 /
/// 9.98 us there, and two of them are the step.
#[test]
fn the_default_class_has_two_queues() {
    let (state, problems) = made(&policy("", ""), &Capabilities::all());
    assert!(
        !problems.iter().any(|one| one.code == "C228"),
        "{problems:?}"
    );
    let classes = classes(&state);
    let named = |name: &str| {
        let found = classes.iter().find(|class| class.discipline == name);
        found.unwrap_or_else(|| panic!("{classes:?}"))
    };
    let dual = named("dualpi2");
    let step = value(dual, "step_ns").expect("a step");
    let packet = 1_538.0 * 8.0 / dual.guarantee.as_bits_per_second() as f64 * 1e9;
    assert!((step as f64 - 2.0 * packet).abs() < 2.0, "{step}, {packet}");
    assert_eq!(value(dual, "target_ns"), Some(15_000_000));
    // A quarter of a second at the gate's rate.
    assert_eq!(value(dual, "limit_packets"), Some(405));
    let apart = named("fq_codel");
    assert_eq!(value(apart, "ce_threshold_for"), Some(1));
    assert!(value(apart, "ce_threshold_ns") >= Some(1_000_000));
}

/// A class can state values for its own two queues.
#[test]
fn what_is_stated_holds() {
    let stated = policy(
        "engine = \"kit\"",
        "queue = { kind = \"dualpi2\", step_ns = \"3ms\", limit_packets = 77 }",
    );
    let (state, _) = made(&stated, &Capabilities::all());
    let classes = classes(&state);
    let dual = classes.iter().find(|class| class.discipline == "dualpi2");
    let dual = dual.expect("the default class");
    assert_eq!(value(dual, "step_ns"), Some(3_000_000));
    assert_eq!(value(dual, "limit_packets"), Some(77));
    let apart = policy("engine = \"kit\"", "queue = \"fq_codel\"");
    let (state, _) = made(&apart, &Capabilities::all());
    for class in self::classes(&state) {
        assert_eq!(class.discipline, "fq_codel");
        assert_eq!(value(&class, "ce_threshold_for"), Some(1));
    }
}

/// The kit's shaper also filters acknowledgements.
#[test]
fn the_kit_filters_acknowledgements() {
    let filtered = policy("down = \"100mbit\"\nack-filter = \"on\"\n[ack]", "");
    let (state, _) = made(&filtered, &Capabilities::all());
    assert!(matches!(&root(&state, "wan").kind, QdiscKind::Kit(kit)
            if kit.acks == CakeAckFilter::Filter));
}

/// A step below a millisecond would mark packets on any fast link.
#[test]
fn a_step_is_a_millisecond_at_least() {
    let text = source("", "").replace("20mbit", "500mbit");
    let (policy, problems) = parse(&text);
    let policy = policy.unwrap_or_else(|| panic!("{problems:#?}"));
    let (state, _) = made(&policy, &Capabilities::all());
    let classes = classes(&state);
    let dual = classes.iter().find(|class| class.discipline == "dualpi2");
    assert_eq!(value(dual.expect("a class"), "step_ns"), Some(1_000_000));
}

/// Without the kit, flows of L4S get separate queues and are marked early, in both directions; a
/// note says why.
#[test]
fn the_tree_marks_early() {
    let both = policy("down = \"100mbit\"", "");
    let (state, problems) = made(&both, &without_kit());
    let note = note(&problems);
    assert!(note.contains("no qdiscs made of BPF programs"), "{note}");
    for device in ["wan", "ifb-wan"] {
        marks_early(root(&state, device));
    }
    let stated = policy(
        "engine = \"htb\"",
        "queue = { kind = \"fq_codel\", ce-threshold = \"2ms\" }",
    );
    let (state, problems) = made(&stated, &Capabilities::all());
    assert!(
        !problems.iter().any(|one| one.code == "C228"),
        "{problems:?}"
    );
    let found = queues(root(&state, "wan"));
    assert!(
        found
            .iter()
            .any(|queue| queue.ce_threshold == Some(Span::from_millis(2)))
    );
    let mut plain = stated.clone();
    plain.link.l4s = None;
    let (state, _) = made(&plain, &Capabilities::all());
    let without = queues(root(&state, "wan"));
    assert_eq!(
        without
            .iter()
            .filter(|one| one.ce_threshold.is_none())
            .count(),
        1
    );
}

/// Returns the message of the note on engines.
fn note(problems: &[Problem]) -> &str {
    let note = problems.iter().find(|one| one.code == "C228");
    let note = note.expect("a note");
    assert_eq!(note.severity, Severity::Note);
    &note.message
}

/// Checks that every queue of a tree marks ECT(1) early.
fn marks_early(tree: &Qdisc) {
    let found = queues(tree);
    assert!(!found.is_empty());
    for queue in found {
        let threshold = queue.ce_threshold.expect("a threshold");
        assert!(threshold >= Span::from_millis(1), "{threshold}");
        assert!(threshold <= Span::from_millis(6), "{threshold}");
    }
}

/// On the LAN device only the tree can shape. The kit's shaper shapes upstream all the same.
#[test]
fn directions_may_have_different_engines() {
    let rule = "[[rule]]\nclass = \"calls\"\nservice = \"voice\"";
    let cap = "[[cap]]\ngroup = \"guests\"\nclass = \"normal\"\ndown = \"5mbit\"\n\
               [group.guests]\naddresses = [\"192.168.7.10\"]\n";
    for default in [rule, cap] {
        let inside = policy("down = \"100mbit\"", default);
        let (state, problems) = made(&inside, &Capabilities::all());
        let note = note(&problems);
        assert!(note.contains("upstream only"), "{note}");
        assert!(note.contains("shapes on the LAN device"), "{note}");
        let dual = |class: &&KitClass| class.discipline == "dualpi2";
        assert_eq!(classes(&state).iter().filter(dual).count(), 1);
        let lan = root(&state, "lan");
        assert!(matches!(lan.kind, QdiscKind::Htb(_)), "{lan:?}");
        assert!(!queues(lan).is_empty());

        let report = check_report(&inside);
        assert!(report.engine.contains("`engine = \"kit\"`), upstream"));
        assert!(report.engine.contains("Downstream, shaped by a tree"));
        let queue = |at: usize| {
            let classes = &report.directions[at].classes;
            let default = classes.iter().find(|class| class.default);
            default.expect("one").queue.clone()
        };
        assert!(queue(0).contains("dualpi2"), "{}", queue(0));
        assert!(!queue(1).contains("dualpi2"), "{}", queue(1));
        for direction in &report.directions {
            assert!(direction.classes.iter().all(|one| one.within.is_some()));
        }

        // What the kernel lacks for the downstream prevents it.
        let mut kernel = Capabilities::all();
        kernel.kit = false;
        let (state, _) = made(&inside, &kernel);
        assert!(matches!(root(&state, "wan").kind, QdiscKind::Htb(_)));
    }
    // A limit upstream needs the tree there.
    let limited = cap.replace("down =", "up = \"2mbit\"\ndown =");
    let (state, problems) = made(
        &policy("down = \"100mbit\"", &limited),
        &Capabilities::all(),
    );
    assert!(note(&problems).contains("tree of HTB classes with fq_codel"));
    assert!(matches!(root(&state, "wan").kind, QdiscKind::Htb(_)));
    // Acknowledgements are held back by the tree alone.
    let held = policy(
        "down = \"100mbit\"",
        "[ack]\n[receive]\nrate = \"95%\"\nmax-ack-delay = \"20ms\"",
    );
    let (state, problems) = made(&held, &Capabilities::all());
    assert!(note(&problems).contains("max-ack-delay"), "{problems:?}");
    assert!(matches!(root(&state, "wan").kind, QdiscKind::Htb(_)));
}

/// A queue that does not support L4S is refused, with a remedy.
#[test]
fn queues_without_l4s_are_refused() {
    for (link, default, message, hint) in [
        ("engine = \"cake\"", "", "cake marks ECT(1)", "`engine`"),
        ("", "queue = \"bfifo 20kB\"", "`bfifo`", "fq_codel"),
        ("engine = \"kit\"", "queue = \"pie\"", "`pie`", "fq_codel"),
        ("engine = \"htb\"", "queue = \"cake\"", "`cake`", "fq_codel"),
        ("fair = \"hosts\"", "", "between hosts", "fair = \"flows\""),
        ("", "fair = \"hosts\"", "between hosts", "fair = \"flows\""),
    ] {
        let (state, problems) = compile(&policy(link, default), &Capabilities::all());
        assert!(state.is_none(), "{link} {default}");
        let own = problems
            .iter()
            .find(|one| one.code == "C228" && one.severity == Severity::Error)
            .unwrap_or_else(|| panic!("{link} {default}: {problems:#?}"));
        assert!(own.message.contains(message), "{own:?}");
        assert!(own.hint.contains(hint), "{own:?}");
    }
}

/// NQB's code point is kept even if code points are cleared, and `check` reports that.
#[test]
fn nqb_is_not_washed() {
    let washed = |l4s: &str| {
        let treated = "[dscp]\nwash = \"up\"\ndistrust = \"up\"\nexcept = \"EF\"\n";
        let text = source("", treated).replace("l4s = true", l4s);
        let (policy, problems) = parse(&text);
        let policy = policy.unwrap_or_else(|| panic!("{problems:#?}"));
        let (state, _) = made(&policy, &Capabilities::all());
        let text: String = state.tables.iter().map(Table::nft_text).collect();
        let cleared: Vec<bool> = text
            .lines()
            .filter(|line| line.contains("dscp set 0x00"))
            .map(|line| line.contains("0x2d"))
            .collect();
        assert_eq!(cleared.len(), 4, "{text}");
        cleared
    };
    assert_eq!(washed("l4s = true"), [true; 4]);
    assert_eq!(washed("l4s = false"), [false; 4]);
}

#[test]
fn check_says_what_it_does() {
    let compiled = |link: &str, default: &str| {
        let report = check_report(&policy(link, default));
        (report.engine, report.directions[0].l4s.clone())
    };
    let (engine, dual) = compiled("", "");
    assert!(engine.contains("because `l4s`"), "{engine}");
    let dual = dual.expect("a note");
    assert!(dual.contains("class normal has two queues"), "{dual}");
    let (engine, apart) = compiled("engine = \"htb\"", "");
    assert!(engine.contains("because the link asks"), "{engine}");
    assert!(apart.expect("a note").contains("keeps flows apart"));
    let mut off = policy("", "");
    off.link.l4s = off.link.l4s.map(|l4s| l4s.map(|_| false));
    assert_eq!(check_report(&off).directions[0].l4s, None);
}

/// A virtual queue marks ECT(1) by its own ramp with `l4s`, and only then. A virtual queue that may
/// not mark anything is refused.
#[test]
fn a_virtual_queue_marks_l4s() {
    let filter = "down = \"50mbit\"\ninbound = \"filter\"";
    let marks = |l4s: &str, link: &str| {
        let text = source(link, "").replace("l4s = true", l4s);
        let (policy, problems) = parse(&text);
        let policy = policy.unwrap_or_else(|| panic!("{problems:#?}"));
        let (state, problems) = compile(&policy, &Capabilities::all());
        let Some(state) = state else {
            return Err(problems);
        };
        let place = &state.hooks[&DeviceName::new("wan").expect("a name")];
        let filter = place.virtual_queue.clone().expect("a filter");
        let found = filter
            .settings
            .into_iter()
            .find(|one| one.name == "l4s_marks");
        Ok(found.map(|one| one.value))
    };
    assert_eq!(marks("l4s = true", filter).expect("a state"), Some(14));
    assert_eq!(marks("l4s = false", filter).expect("a state"), None);
    let unmarked = format!("{filter}\n[inbound]\necn = false");
    assert_eq!(marks("l4s = false", &unmarked).expect("a state"), None);
    let problems = marks("l4s = true", &unmarked).expect_err("refused");
    let found = problems.iter().find(|one| one.code == "C228");
    let found = found.unwrap_or_else(|| panic!("{problems:#?}"));
    assert!(found.message.contains("`ecn = false`"), "{found:?}");
    assert!(found.hint.contains("leave `ecn` out"), "{found:?}");
}
