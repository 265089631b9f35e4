// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `inbound = "auto"`: the choice, by policy and kernel.

use weirgate_compile::{check_report, check_report_for, compile};
use weirgate_document::Severity;
use weirgate_policy::{Inbound, Policy, parse};
use weirgate_state::{Capabilities, DeviceName, State, Windows};
use weirgate_units::Rate;

const SITE: &str = "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"10mbit\"\n\
    down = \"50mbit\"\ninbound = \"auto\"\nlayer = \"docsis\"\n\
    [[class]]\nname = \"first\"\nshare = \"30%\"\npriority = 0\n\
    [[class]]\nname = \"rest\"\nshare = \"70%\"\npriority = 4\ndefault = true\n\
    [[rule]]\nclass = \"first\"\ndscp = \"EF\"\n";

fn policy(source: &str) -> Policy {
    let (policy, problems) = parse(source);
    policy.unwrap_or_else(|| panic!("{problems:#?}\n{source}"))
}

fn on(source: &str, kernel: &Capabilities) -> (State, Vec<(&'static str, Severity)>) {
    let (state, problems) = compile(&policy(source), kernel);
    let notes = problems
        .iter()
        .map(|problem| (problem.code, problem.severity))
        .collect();
    (state.unwrap_or_else(|| panic!("{problems:#?}")), notes)
}

fn windows(state: &State) -> Option<&Windows> {
    let wan = DeviceName::new("wan").expect("a name");
    state.hooks.get(&wan)?.windows.as_deref()
}

/// Returns the kinds of a device's qdiscs, from the root on.
fn kinds(state: &State, device: &str) -> Vec<String> {
    let device = &state.devices[&DeviceName::new(device).expect("a name")];
    let root = format!("{:?}", device.root.as_ref().map(|root| &root.kind));
    ["Cake(", "FqCodel("]
        .iter()
        .map(|kind| format!("{kind}{}", root.matches(kind).count()))
        .collect()
}

/// Windows below the gate, each class may use the whole rate, and hosts share it. Downstream queues
/// also charge dropped packets.
#[test]
fn windows_are_over_a_queue_that_charges() {
    let (state, notes) = on(SITE, &Capabilities::all());
    assert_eq!(notes, []);
    let held = windows(&state).expect("windows");
    assert!(held.by_hosts);
    let classes: Vec<Rate> = held.classes.iter().map(|(_, rate)| *rate).collect();
    assert_eq!(classes, [held.rate; 2]);
    let gate = policy(SITE).gate(weirgate_policy::Direction::Down).unwrap();
    let most = policy(SITE).payload_of(gate);
    assert!(
        held.rate < most && held.rate.as_bits_per_second() > most.as_bits_per_second() * 98 / 100,
        "{held:?}"
    );
    assert_eq!(kinds(&state, "ifb-wan"), ["Cake(2", "FqCodel(0"]);
    assert_eq!(kinds(&state, "wan"), ["Cake(0", "FqCodel(2"]);
}

/// A stated value is kept.
#[test]
fn what_is_stated_stays() {
    let all = Capabilities::all();
    let flows = SITE.replace("layer", "fair = \"flows\"\nlayer");
    assert!(!windows(&on(&flows, &all).0).unwrap().by_hosts);
    let rate = format!("{SITE}[receive]\nrate = \"10mbit\"\n");
    let (state, _) = on(&rate, &all);
    let held = windows(&state).unwrap();
    assert_eq!(held.rate, Rate::kbit(10_000));
    assert!(held.classes.is_empty() && !held.by_hosts);
    let first = format!("{SITE}[receive]\ninitial-window = \"7300B\"\n");
    let (state, _) = on(&first, &all);
    assert!(windows(&state).unwrap().rate > Rate::kbit(40_000));
    let queue = SITE.replace("priority = 4", "priority = 4\nqueue = \"fq_codel\"");
    assert_eq!(
        kinds(&on(&queue, &all).0, "ifb-wan"),
        ["Cake(1", "FqCodel(1"]
    );
}

/// Only the queue if the kernel lacks cls_bpf, which is reported; likewise without cake.
#[test]
fn what_the_kernel_lacks_is_reported() {
    let without = Capabilities {
        payload: false,
        ..Capabilities::all()
    };
    let (state, notes) = on(SITE, &without);
    assert_eq!(notes, [("C227", Severity::Note)]);
    assert_eq!(windows(&state), None);
    assert_eq!(kinds(&state, "ifb-wan"), ["Cake(2", "FqCodel(0"]);
    let mut without = Capabilities::all();
    without.qdiscs.retain(|kind| kind != "cake");
    let (state, notes) = on(SITE, &without);
    assert_eq!(notes, [("C227", Severity::Note)]);
    assert!(windows(&state).is_some());
    assert_eq!(kinds(&state, "ifb-wan"), ["Cake(0", "FqCodel(2"]);
}

/// The report says whether the kernel or the program for small routers lacks BPF programs.
#[test]
fn the_report_says_who_lacks_programs() {
    let without = Capabilities {
        payload: false,
        ..Capabilities::all()
    };
    for (kernel, reason) in [
        (without, "the kernel has no cls_bpf"),
        (
            Capabilities::small(),
            "this build, the one for small routers",
        ),
    ] {
        let notes = check_report_for(&policy(SITE), &kernel).policed.unwrap();
        let words = format!("windows: none, because {reason}");
        assert!(notes.contains(&words), "{notes}");
    }
}

/// The downstream is shaped on the LAN device if inside addresses are needed.
#[test]
fn the_place_follows_the_policy() {
    let place = |source: &str| policy(source).link.inbound.value;
    assert_eq!(place(SITE), Inbound::Ifb);
    let parts = "[group.a]\naddresses = [\"10.0.0.0/24\"]\n[[share]]\ngroup = \"a\"\nshare = \"30%\"\nclasses = [\"rest\"]\n";
    let divided = format!("{SITE}{parts}");
    assert_eq!(place(&divided), Inbound::Lan);
    let marked = format!("{divided}[marks]\ninside = \"0x0000ff00\"\n");
    assert_eq!(place(&marked), Inbound::Ifb);
    let several = divided.replace("lan = \"lan\"", "lan = [\"lan\", \"wlan\"]");
    assert_eq!(place(&several), Inbound::Ifb);
    let bridge = SITE.replace("layer", "bridge = true\nlayer");
    assert_eq!(place(&bridge), Inbound::Lan);
    for source in [SITE, &divided, &bridge] {
        let held = check_report(&policy(source)).policed.unwrap();
        assert!(
            held.contains("`inbound = \"auto\"`:\n  queue: on"),
            "{held}"
        );
    }
}

/// This is the default of a policy, and stated values are kept.
#[test]
fn it_is_the_default() {
    let all = Capabilities::all();
    let silent = SITE.replace("inbound = \"auto\"\n", "");
    assert_eq!(on(&silent, &all).0.devices, on(SITE, &all).0.devices);
    assert!(windows(&on(&silent, &all).0).is_some());
    let held = check_report(&policy(&silent)).policed.unwrap();
    assert!(
        held.contains("`inbound = \"auto\"`, the default:"),
        "{held}"
    );
    for stated in ["ifb", "lan"] {
        let stated = SITE.replace("\"auto\"", &format!("\"{stated}\""));
        assert_eq!(windows(&on(&stated, &all).0), None);
        assert_eq!(check_report(&policy(&stated)).policed, None);
    }
    let up = silent.replace("down = \"50mbit\"\n", "");
    assert_eq!(policy(&up).link.automatic, None);
}

/// The choice provides rules with inside addresses or connections if they need them. It requires a
/// single LAN device, and an engine that can tell there what comes from the link.
#[test]
fn rules_choose_the_place() {
    let place = |rule: &str, fields: &str| {
        let source = SITE.replace("layer", &format!("{fields}layer"));
        let found = policy(&format!("{source}[[rule]]\nclass = \"first\"\n{rule}"));
        found.link.inbound.value
    };
    let inside = "local-address = \"10.0.0.7\"\n";
    assert_eq!(place(inside, ""), Inbound::Lan);
    assert_eq!(place("local-address = \"192.0.2.7\"\n", ""), Inbound::Ifb);
    assert_eq!(place("service = \"voice\"\n", ""), Inbound::Lan);
    let kept = "protocol = \"udp\"\nkeep = true\n";
    assert_eq!(place(kept, ""), Inbound::Ifb);
    let up = format!("{inside}direction = \"up\"\n");
    assert_eq!(place(&up, ""), Inbound::Ifb);
    assert_eq!(place(inside, "engine = \"kit\"\n"), Inbound::Ifb);
}

/// The default takes nothing from classes that `[receive]` protects. It omits windows if one
/// segment per round trip exceeds the line's rate.
#[test]
fn what_windows_must_not_or_cannot_hold_is_left_alone() {
    let all = Capabilities::all();
    let protected = format!("{SITE}[receive]\nprotect = [\"first\"]\n");
    let (state, notes) = on(&protected, &all);
    assert_eq!(notes, []);
    let held = windows(&state).expect("windows");
    let classes: Vec<Rate> = held.classes.iter().map(|(_, rate)| *rate).collect();
    assert_eq!(classes, [Rate::default(), held.rate]);
    let slow = SITE.replace("50mbit", "100kbit");
    let (state, notes) = on(&slow, &all);
    assert_eq!(notes, []);
    assert_eq!(windows(&state), None);
    let held = check_report(&policy(&slow)).policed.unwrap();
    assert!(held.contains("windows: none, because one"), "{held}");
}

/// With more classes than the programs distinguish, only the queue is used, with a note.
#[test]
fn many_classes_have_the_queue_alone() {
    let mut source = SITE.replace("70%", "10%");
    let class = |number| format!("[[class]]\nname = \"c{number}\"\nshare = \"4%\"\n");
    source.extend((0..14).map(class));
    let (state, notes) = on(&source, &Capabilities::all());
    assert!(notes.contains(&("C227", Severity::Note)), "{notes:?}");
    assert!(
        notes.iter().all(|one| one.1 != Severity::Error),
        "{notes:?}"
    );
    assert_eq!(windows(&state), None);
    let held = check_report(&policy(&source)).policed.unwrap();
    assert!(
        held.contains("windows: none, because the policy has more"),
        "{held}"
    );
}
