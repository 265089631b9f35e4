// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `inbound = "auto"`: what it comes to by the policy and the kernel.

use weirgate_compile::{check_report, compile};
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
    let said = problems
        .iter()
        .map(|problem| (problem.code, problem.severity))
        .collect();
    (state.unwrap_or_else(|| panic!("{problems:#?}")), said)
}

fn windows(state: &State) -> Option<&Windows> {
    let wan = DeviceName::new("wan").expect("a name");
    state.hooks.get(&wan)?.windows.as_deref()
}

/// The kinds of qdisc of a device, from the root on.
fn kinds(state: &State, device: &str) -> Vec<String> {
    let device = &state.devices[&DeviceName::new(device).expect("a name")];
    let root = format!("{:?}", device.root.as_ref().map(|root| &root.kind));
    ["Cake(", "FqCodel("]
        .iter()
        .map(|kind| format!("{kind}{}", root.matches(kind).count()))
        .collect()
}

/// Windows below the gate, the whole for each class, shared by hosts; queues that charge
/// what they drop, downstream alone.
#[test]
fn windows_are_over_a_queue_that_charges() {
    let (state, said) = on(SITE, &Capabilities::all());
    assert_eq!(said, []);
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

/// What a policy states stays.
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

/// The queue alone where there is no cls_bpf, which is said, and so without cake.
#[test]
fn what_the_kernel_lacks_is_said() {
    let without = Capabilities {
        payload: false,
        ..Capabilities::all()
    };
    let (state, said) = on(SITE, &without);
    assert_eq!(said, [("C227", Severity::Warning)]);
    assert_eq!(windows(&state), None);
    assert_eq!(kinds(&state, "ifb-wan"), ["Cake(2", "FqCodel(0"]);
    let mut without = Capabilities::all();
    without.qdiscs.retain(|kind| kind != "cake");
    let (state, said) = on(SITE, &without);
    assert_eq!(said, [("C227", Severity::Warning)]);
    assert!(windows(&state).is_some());
    assert_eq!(kinds(&state, "ifb-wan"), ["Cake(0", "FqCodel(2"]);
}

/// On the LAN device where inside addresses are needed.
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
        let held = check_report(&policy(source)).held.unwrap();
        assert!(held.contains("`inbound = \"auto\"`: queued on"), "{held}");
    }
}
