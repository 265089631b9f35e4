// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Properties of every compiled state, and refusals.
//!
//! Over 500 lines: one test for each property of a state, and for each refusal.

mod former;
mod parts;

use proptest::prelude::*;
use std::collections::BTreeSet;
use std::fmt::Write;
use weirgate_compile::{CODES, compile};
use weirgate_document::{Problem, Severity};
use weirgate_linklayer::LinkLayer;
use weirgate_policy::template::Template;
use weirgate_policy::{Direction, Policy, parse};
use weirgate_state::{
    Capabilities, DeviceName, Effect, Field, Hook, Htb, IpVersion, Match, Qdisc, QdiscKind, State,
};
use weirgate_units::{Handle, Rate};

fn policy(source: &str) -> Policy {
    let (policy, problems) = parse(source);
    policy.unwrap_or_else(|| panic!("{problems:#?}\n{source}"))
}

fn htb(qdisc: &Qdisc) -> &Htb {
    match &qdisc.kind {
        QdiscKind::Htb(htb) => htb,
        other => panic!("not HTB: {other:?}"),
    }
}

/// Collects handles of qdiscs and ids of classes below a root.
fn walk(qdisc: &Qdisc, qdiscs: &mut Vec<Handle>, classes: &mut Vec<Handle>) {
    qdiscs.push(qdisc.handle);
    if let QdiscKind::Htb(htb) = &qdisc.kind {
        for class in &htb.classes {
            classes.push(class.id);
            if let Some(leaf) = &class.leaf {
                walk(leaf, qdiscs, classes);
            }
        }
    }
}

/// Checks the properties that every state must have.
fn is_sound(policy: &Policy, state: &State) {
    for (name, device) in &state.devices {
        let Some(root) = &device.root else {
            continue;
        };
        let (mut qdiscs, mut classes) = (Vec::new(), Vec::new());
        walk(root, &mut qdiscs, &mut classes);
        let (all, distinct) = (qdiscs.len(), qdiscs.iter().collect::<BTreeSet<_>>().len());
        assert_eq!(
            all, distinct,
            "two qdiscs of {name} have one handle: {qdiscs:?}"
        );
        let (all, distinct) = (classes.len(), classes.iter().collect::<BTreeSet<_>>().len());
        assert_eq!(
            all, distinct,
            "two classes of {name} have one id: {classes:?}"
        );
        assert!(root.stab.is_some());

        let outer = htb(root);
        let gate = &outer.classes[0];
        assert_eq!((gate.rate, outer.default_minor), (gate.ceil, gate.id.minor));
        let inner = htb(gate.leaf.as_ref().expect("the scheduler"));
        let leaves: Vec<_> = inner
            .classes
            .iter()
            .filter(|class| class.leaf.is_some())
            .collect();
        let sum: u64 = leaves
            .iter()
            .map(|class| class.rate.as_bits_per_second())
            .sum();
        assert!(
            sum <= gate.rate.as_bits_per_second(),
            "{sum} of {}",
            gate.rate
        );
        assert!(
            leaves
                .iter()
                .any(|class| class.id.minor == inner.default_minor)
        );
        for class in &inner.classes {
            assert!(class.ceil >= class.rate && class.rate.as_bytes_per_second() > 0);
            assert!(
                class.buffer.as_nanos().is_multiple_of(64),
                "{}",
                class.buffer
            );
            // HTB ignores more than a minute.
            assert!(class.buffer.as_nanos() <= 60_000_000_000);
            assert!(class.prio < 8 && class.quantum > 0);
            assert!(class.origin.line > 0 && !class.origin.reason.is_empty());
        }
        for table in &state.tables {
            assert!(table.faults().is_empty(), "{:?}", table.faults());
            for chain in &table.chains {
                let place = match &chain.hook {
                    Hook::Postrouting { device } => device,
                    Hook::Ingress { redirect_to, .. } => redirect_to,
                    other => panic!("a hook that no policy asks for: {other:?}"),
                };
                if place != name {
                    continue;
                }
                for rule in &chain.rules {
                    let class = rule.class().expect("each rule sets a class");
                    assert!(classes.contains(&class), "{rule:?} leads nowhere");
                    assert!(rule.origin.line > 0, "{rule:?}");
                    let versions: BTreeSet<IpVersion> =
                        rule.matches.iter().filter_map(Match::version).collect();
                    assert!(versions.len() <= 1, "{rule:?} never matches");
                }
                // Packets that match nothing before end in a rule, for both IP versions.
                let last: Vec<_> = chain
                    .rules
                    .iter()
                    .rev()
                    .take(2)
                    .map(|r| &r.matches)
                    .collect();
                assert_eq!(
                    last,
                    [
                        &vec![Match::version_is(IpVersion::V6)],
                        &vec![Match::version_is(IpVersion::V4)]
                    ]
                );
            }
        }
    }
    for direction in Direction::BOTH {
        let shaped = policy.line_rate(direction).is_some();
        let chains = state.tables.iter().flat_map(|table| &table.chains);
        let chains = chains
            .filter(|chain| chain.name == direction.to_string())
            .count();
        assert_eq!(chains, usize::from(shaped), "{direction}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_state_is_sound(
        up in 64_u64..2_000_000,
        factor in 1_u64..30,
        layer in 0_usize..22,
        inbound in 0_usize..3,
        shares in proptest::collection::vec((1_u32..12, 0_u8..8, 0_usize..6, any::<bool>()), 1..8),
    ) {
        let queues = ["bfifo 28125", "pfifo 5", "sfq", "fq_codel", "cake", "fq_codel"];
        let inbound = ["ifb", "lan", "none"][inbound];
        let layer = LinkLayer::all().nth(layer).expect("22 names").name();
        let mut source = format!(
            "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"{up}kbit\"\n\
             down = \"{}kbit\"\nlayer = \"{layer}\"\ninbound = \"{inbound}\"\n",
            up * factor
        );
        for (at, (share, priority, queue, limited)) in shares.iter().enumerate() {
            let ceiling = if *limited { "50%" } else { "100%" };
            let _ = write!(
                source,
                "[[class]]\nname = \"c{at}\"\nshare = \"{share}%\"\npriority = {priority}\n\
                 queue = \"{}\"\nceiling = \"{ceiling}\"\ndefault = {}\n\
                 [[rule]]\nclass = \"c{at}\"\ndscp = {at}\nprotocol = [\"tcp\", \"icmpv6\"]\n\
                 remote-address = [\"192.0.2.{at}\", \"2001:db8::{at}\"]\n",
                queues[*queue],
                at == 0
            );
        }
        let policy = policy(&source);
        let (state, problems) = compile(&policy, &Capabilities::all());
        prop_assert!(problems.is_empty(), "{:?}", problems);
        let state = state.expect("no problems");
        is_sound(&policy, &state);
        let (again, _) = compile(&policy, &Capabilities::all());
        prop_assert_eq!(format!("{state:?}"), format!("{:?}", again.expect("as before")));
    }

    #[test]
    fn the_default_policy_compiles_for_every_link(
        up in 64_u64..2_000_000,
        factor in 1_u64..60,
        layer in 0_usize..22,
    ) {
        let name = |text: &str| DeviceName::new(text).expect("a name");
        let template = Template {
            device: name("wan"),
            lan: vec![name("lan")],
            up: Rate::kbit(up),
            down: Some(Rate::kbit(up * factor)),
            layer: LinkLayer::all().nth(layer).expect("22 names"),
        };
        let policy = policy(&template.text());
        let (state, problems) = compile(&policy, &Capabilities::all());
        prop_assert!(problems.is_empty(), "{:?}", problems);
        is_sound(&policy, &state.expect("no problems"));
        let report = weirgate_compile::check_report(&policy);
        prop_assert_eq!(report.directions.len(), 2);
        for class in report.directions.iter().flat_map(|direction| &direction.classes) {
            let lone = class.lone.as_ref().expect("a bound");
            let sum: u64 = lone.steps.iter().map(|step| step.time.as_nanos()).sum();
            prop_assert_eq!(sum, lone.wait.as_nanos());
        }
    }
}

const SITE: &str = "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"10mbit\"\n\
    down = \"50mbit\"\ninbound = \"ifb\"\nlayer = \"docsis\"\n[[class]]\nname = \"all\"\nshare = \"100%\"\n\
    queue = \"cake\"\ndefault = true\n";

fn refused(source: &str, kernel: &Capabilities) -> Vec<(&'static str, Severity)> {
    let (state, problems) = compile(&policy(source), kernel);
    let errors = problems
        .iter()
        .any(|problem| problem.severity == Severity::Error);
    assert_eq!(state.is_none(), errors);
    for Problem { hint, span, .. } in &problems {
        assert!(!hint.is_empty() && span.end <= source.len());
    }
    problems
        .iter()
        .map(|problem| (problem.code, problem.severity))
        .collect()
}

#[test]
fn a_kernel_without_anything_is_told_everything() {
    let found = refused(SITE, &Capabilities::default());
    let mut codes: Vec<&str> = found.iter().map(|found| found.0).collect();
    codes.sort_unstable();
    assert_eq!(codes, ["C201", "C201", "C202", "C203", "C204"]);
}

#[test]
fn each_lack_is_refused_by_itself() {
    let all = Capabilities::all;
    let mut no_cake = all();
    no_cake.qdiscs.remove("cake");
    no_cake.release = "6.1.0".to_owned();
    let (_, problems) = compile(&policy(SITE), &no_cake);
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].message, "Linux 6.1.0 has no cake qdisc");
    assert_eq!(problems[0].line_column(SITE).0, 12, "the line of the queue");
    let no_ifb = Capabilities {
        ifb: false,
        ..all()
    };
    assert_eq!(refused(SITE, &no_ifb), [("C202", Severity::Error)]);
    let on_lan = SITE.replace("\"ifb\"", "\"lan\"");
    assert_eq!(refused(&on_lan, &no_ifb), []);
}

#[test]
fn doubts_are_warnings() {
    let no_lan = SITE.replace("lan = \"lan\"\n", "");
    assert_eq!(
        refused(&no_lan, &Capabilities::all()),
        [("C205", Severity::Warning)]
    );
    let inside = format!("{SITE}[[rule]]\nclass = \"all\"\nlocal-address = \"10.0.0.0/8\"\n");
    assert_eq!(
        refused(&inside, &Capabilities::all()),
        [("C206", Severity::Warning)]
    );
    // However many rules there are, the problem is reported once, with its place.
    let many =
        inside.clone() + &"[[rule]]\nclass = \"all\"\nlocal-address = \"10.1.0.0/16\"\n".repeat(12);
    let (_, problems) = compile(&policy(&many), &Capabilities::all());
    let [problem] = problems.as_slice() else {
        panic!("{problems:#?}");
    };
    assert!(
        problem.message.contains("also on lines ") && problem.message.ends_with(" and 4 more"),
        "{}",
        problem.message
    );
    let tracked = format!("{SITE}[[rule]]\nclass = \"all\"\nconnection = {{ state = \"new\" }}\n");
    assert_eq!(
        refused(&tracked, &Capabilities::all()),
        [("C208", Severity::Warning)]
    );
    let tracked = tracked + "direction = \"down\"\n";
    assert_eq!(
        refused(&tracked, &Capabilities::all()),
        [("C208", Severity::Error)]
    );
    // A service is named once, however many rules use it.
    let voice = "[[rule]]\nclass = \"all\"\nservice = [\"voice\", \"ftp\"]\n";
    let more = voice.replace("ftp\"]", "ssh\"]\nset-dscp = \"EF\"");
    let (_, problems) = compile(
        &policy(&format!("{SITE}{voice}{more}")),
        &Capabilities::all(),
    );
    let late = problems.iter().filter(|one| one.code == "C208");
    let [one] = late.collect::<Vec<_>>()[..] else {
        panic!("{problems:#?}");
    };
    let named = "which the services `ftp`, `voice` need";
    assert!(one.message.ends_with(named), "{}", one.message);
}

#[test]
fn a_kept_decision_reaches_an_ifb_by_the_packets_mark() {
    let kept = format!("{SITE}[[rule]]\nclass = \"all\"\nremote-port = 80\nkeep = true\n");
    let (state, problems) = compile(&policy(&kept), &Capabilities::all());
    assert_eq!(problems, []);
    let state = state.unwrap();
    let wan = DeviceName::new("wan").unwrap();
    assert_eq!(state.hooks[&wan].restore, Some(0x00ff_0000));
    let table = |netdev| {
        let mut tables = state.tables.iter();
        tables.find(|table| table.netdev == netdev).unwrap()
    };
    let asked = |netdev: bool, field| {
        let rules = || table(netdev).chains.iter().flat_map(|chain| &chain.rules);
        let of = |one: &Match| one.field() == Some(field);
        rules().filter(|rule| rule.matches.iter().any(of)).count()
    };
    let mask = 0x00ff_0000;
    // The stored decision, and the decision of a packet without one.
    assert_eq!(asked(true, Field::Mark { mask }), 2);
    assert_eq!(asked(true, Field::ConnectionMark { mask }), 0);
    assert_eq!(asked(false, Field::Mark { mask }), 0);
    let mut rules = table(true).chains.iter().flat_map(|chain| &chain.rules);
    assert!(rules.all(|rule| {
        let mut effects = rule.effects.iter();
        effects.all(|effect| !matches!(effect, Effect::ConnectionMark { .. }))
    }));

    let none = Capabilities {
        restore_marks: false,
        release: "6.1.0".to_owned(),
        ..Capabilities::all()
    };
    let (state, problems) = compile(&policy(&kept), &none);
    assert!(state.unwrap().hooks.is_empty());
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].code, "C214");
    assert!(
        problems[0]
            .message
            .starts_with("Linux 6.1.0 has no act_ctinfo")
    );
    // On the LAN device, packets have passed conntrack.
    let on_lan = kept.replace("\"ifb\"", "\"lan\"");
    let (state, problems) = compile(&policy(&on_lan), &none);
    assert!(state.unwrap().hooks.is_empty());
    assert_eq!(problems, []);
    // No upstream rule decides it.
    let down = kept + "direction = \"down\"\n";
    assert_eq!(
        refused(&down, &Capabilities::all()),
        [("C208", Severity::Error)]
    );
}

/// 100 ms at the far end of 50 Mbit/s are 5 Mbit: 166.7 kbit/s, 0.33 %, drain them in 30 s.
#[test]
fn a_margin_that_never_drains_the_far_end_is_doubted() {
    let with = |margin: &str| {
        let source = SITE.replace("layer", &format!("margin-down = \"{margin}\"\nlayer"));
        refused(&source, &Capabilities::all())
    };
    let slow = [("C209", Severity::Warning)];
    assert_eq!(with("1kbit"), slow);
    assert_eq!(with("0.3%"), slow);
    assert_eq!(with("0%"), slow);
    assert_eq!(with("0.4%"), []);
    let up_only = SITE.replace("\"ifb\"", "\"none\"\nmargin-down = \"1kbit\"");
    assert_eq!(refused(&up_only, &Capabilities::all()), []);
}

#[test]
fn guarantees_too_unequal_for_turns_are_refused() {
    let unequal = SITE.replace("share = \"100%\"", "rate = \"9mbit\"")
        + "[[class]]\nname = \"tiny\"\nrate = \"4kbit\"\n[[rule]]\nclass = \"tiny\"\ndscp = 1\n";
    let found = refused(&unequal, &Capabilities::all());
    assert_eq!(found[0], ("C207", Severity::Error));
}

#[test]
fn objectives_are_judged() {
    let objective = |queue: &str, class: u8| {
        let source = format!(
            "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"512kbit\"\n\
             layer = \"adsl:bridged-vc-fcs\"\n[[class]]\nname = \"all\"\nshare = \"50%\"\n\
             priority = 0\nqueue = \"{queue}\"\nobjective = {class}\ndefault = true\n\
             [[class]]\nname = \"rest\"\nshare = \"50%\"\npriority = 1\n\
             [[rule]]\nclass = \"rest\"\ndscp = 1\n"
        );
        let report = weirgate_compile::check_report(&policy(&source));
        let codes: Vec<&str> = report.problems.iter().map(|problem| problem.code).collect();
        let judged = report.directions[0].classes[0]
            .objective
            .clone()
            .expect("stated");
        assert_eq!(judged.met, codes.is_empty());
        codes
    };
    // 26.6 ms for another class's packet, as much for its own burst and for itself: 80 ms of delay,
    // 53 of variation.
    assert_eq!(objective("bfifo 28125", 2), [""; 0]);
    assert_eq!(
        objective("bfifo 28125", 0),
        ["C210"],
        "53 of 50 ms of variation"
    );
    // In any order it is twice as much, and what arrives at half the gate's rate during that time.
    assert_eq!(objective("fq_codel", 2), ["C210"]);
    assert_eq!(
        objective("fq_codel", 5),
        [""; 0],
        "class 5 asks for nothing"
    );
}

#[test]
fn payloads_need_a_kernel_and_a_place_where_packets_arrive() {
    let all = Capabilities::all();
    let without = Capabilities {
        payload: false,
        ..all.clone()
    };
    let wrong = [("C216", Severity::Error)];
    for asks in ["payload = \"edonkey\"", "service = \"p2p-payload\""] {
        let source = format!("{SITE}[[rule]]\nclass = \"all\"\nkeep = true\n{asks}\n");
        assert_eq!(refused(&source, &all), []);
        assert_eq!(refused(&source, &without), wrong);
        let nowhere = source.replace("lan = \"lan\"\n", "");
        assert!(refused(&nowhere, &all).contains(&wrong[0]));
    }
    assert_eq!(refused(SITE, &without), []);
}

#[test]
fn the_program_of_small_routers_does_not_blame_the_kernel() {
    let small = Capabilities {
        payload: false,
        kit: false,
        small: true,
        ..Capabilities::all()
    };
    let with = |field: &str| SITE.replace("[link]", &format!("[link]\n{field}"));
    for source in [
        format!("{SITE}[[rule]]\nclass = \"all\"\nkeep = true\npayload = \"edonkey\"\n"),
        SITE.replace("\"ifb\"", "\"filter\""),
        format!("{SITE}[ack]\n[receive]\nrate = \"50%\"\n"),
        with("moves = \"in-order\""),
        with("engine = \"kit\"").replace("queue = \"cake\"\n", ""),
    ] {
        let (state, problems) = compile(&policy(&source), &small);
        assert!(state.is_none(), "{source}");
        let own = |problem: &Problem| problem.message.starts_with("this program, which is that");
        assert!(problems.iter().any(own), "{problems:#?}");
    }
}

#[test]
fn what_holds_a_rate_needs_programs() {
    let all = Capabilities::all();
    let without = Capabilities {
        payload: false,
        ..all.clone()
    };
    for kind in ["filter", "police"] {
        let site = SITE.replace("\"ifb\"", &format!("\"{kind}\""));
        assert_eq!(refused(&site, &all), [], "{kind}");
        assert_eq!(refused(&site, &without), [("C218", Severity::Error)]);
        // As fast as the line: no queue builds up.
        let site = site.replace("[link]", "[link]\nmargin-down = \"0%\"");
        assert_eq!(refused(&site, &all), [("C209", Severity::Warning)]);
    }
}

#[test]
fn what_holds_senders_needs_programs_and_what_holds_acknowledgements_fq() {
    let all = Capabilities::all();
    let mut without = Capabilities {
        payload: false,
        ..all.clone()
    };
    let of = |asks: &str| format!("{SITE}[ack]\n[receive]\n{asks}\n");
    for asks in ["rate = \"50%\"", "[receive.udp]\nrate = \"1mbit\""] {
        assert_eq!(refused(&of(asks), &all), []);
        assert_eq!(refused(&of(asks), &without), [("C218", Severity::Error)]);
    }
    assert_eq!(refused(&of("mss = 536"), &without), []);
    let wrong = [("C219", Severity::Error)];
    let hold = of("rate = \"50%\"\nmax-ack-delay = \"100ms\"");
    assert_eq!(refused(&hold, &all), []);
    assert_eq!(refused(&hold.replace("[ack]\n", ""), &all), wrong);
    let queued = hold.replace("[ack]\n", "[ack]\nqueue = \"bfifo 28125\"\n");
    assert_eq!(refused(&queued, &all), wrong);
    without.payload = true;
    without.qdiscs.remove("fq");
    assert_eq!(refused(&hold, &without), wrong);
    // More than the line's rate, without shaping.
    let none = SITE.replace("\"ifb\"", "\"none\"");
    let beyond = format!("{none}[receive]\nrate = \"100mbit\"\n");
    assert_eq!(refused(&beyond, &all), [("C219", Severity::Warning)]);
    let class = |one| format!("[[class]]\nname = \"c{one}\"\nshare = \"1%\"\n");
    let classes = (0..16).map(class).collect::<Vec<String>>().concat();
    let names: Vec<String> = (0..16).map(|one| format!("\"c{one}\"")).collect();
    let names = names.join(", ");
    let crowd = SITE.replace("share = \"100%\"", "share = \"80%\"");
    let crowd = format!("{crowd}{classes}[receive]\nrate = \"50%\"\nprotect = [{names}]\n");
    assert!(refused(&crowd, &all).contains(&wrong[0]));
}

#[test]
fn bridged_packets_have_no_connection() {
    let all = Capabilities::all();
    let site = SITE.replace("inbound = \"ifb\"", "bridge = true");
    assert_eq!(refused(&site, &all), []);
    let without = Capabilities {
        nft_egress: false,
        ..all.clone()
    };
    let wrong = [("C217", Severity::Error)];
    assert_eq!(refused(&site, &without), wrong);
    for asks in [
        "port = 80\nkeep = true",
        "connection = { packets-over = 3 }",
        "service = \"long-flow\"",
        "connections = { over = 3 }",
        "direction = \"up\"\nfrom = \"router\"",
        "mark = \"0x10\"",
    ] {
        let source = format!("{site}[[rule]]\nclass = \"all\"\n{asks}\n");
        assert_eq!(refused(&source, &all), wrong, "{asks}");
    }
    let kept = format!("{site}[[rule]]\nclass = \"all\"\nkeep = true\npayload = \"edonkey\"\n");
    assert_eq!(refused(&kept, &all), []);
    // Features that do not apply to packets in PPPoE.
    let doubtful = [("C217", Severity::Warning)];
    let rule = format!("{site}[[rule]]\nclass = \"all\"\nport = 22\nset-dscp = \"EF\"\n");
    assert_eq!(refused(&rule, &all), doubtful);
    let washed = format!("{site}[dscp]\nwash = \"both\"\n");
    assert_eq!(refused(&washed, &all), doubtful);
    let asked = format!("{site}[[rule]]\nclass = \"all\"\nport = 22\ndscp = \"EF\"\n");
    assert_eq!(refused(&asked, &all), []);
}

#[test]
fn conditioners_need_their_program_and_let_a_full_packet_conform() {
    let all = Capabilities::all();
    let of = |burst: &str| {
        format!(
            "{SITE}[[conditioner]]\nname = \"limit\"\nat = \"enter\"\nmeter = \"bucket\"\n\
             rate = \"1mbit\"\nburst = \"{burst}\"\n"
        )
    };
    assert_eq!(refused(&of("3kB"), &all), []);
    assert_eq!(refused(&of("1kB"), &all), [("C221", Severity::Warning)]);
    // A packet conforms to one of two rates if it is not red.
    for (burst, peak, warned) in [("3kB", "1kB", true), ("1kB", "3kB", false)] {
        let rates =
            format!("meter = \"trtcm\"\npeak = \"2mbit\"\npeak-burst = \"{peak}\"\nred = \"drop\"");
        let two = of(burst).replace("meter = \"bucket\"", &rates);
        assert_eq!(refused(&two, &all).len(), usize::from(warned), "{two}");
    }
    let without = Capabilities {
        payload: false,
        ..all
    };
    assert_eq!(refused(&of("3kB"), &without), [("C221", Severity::Error)]);
}

/// The decision of a connection is stored at its first packet; later SYNs and SYN-ACKs announce a
/// segment size, too.
#[test]
fn segments_are_lowered_after_a_decision_was_stored() {
    let source = format!(
        "{SITE}[[rule]]\nclass = \"all\"\nprotocol = \"tcp\"\nremote-port = 443\nkeep = true\nmss = 600\n"
    );
    let (state, problems) = compile(&policy(&source), &Capabilities::all());
    let state = state.unwrap_or_else(|| panic!("{problems:#?}"));
    let chains = state.tables.iter().flat_map(|table| &table.chains);
    let mut lowered = 0;
    for rule in chains.flat_map(|chain| &chain.rules) {
        let sizes = rule.effects.iter();
        let sizes = sizes.filter(|effect| matches!(effect, Effect::MaxSegment(_)));
        let kept = rule
            .matches
            .iter()
            .filter_map(Match::field)
            .any(|field| matches!(field, Field::ConnectionMark { .. } | Field::Mark { .. }));
        lowered += usize::from(kept && sizes.count() > 0);
    }
    // Before the rule and after its decision, in two directions and IP versions.
    assert_eq!(lowered, 8);
}

#[test]
fn control_groups_need_a_kernel_that_tells_them() {
    let all = Capabilities::all();
    let without = Capabilities {
        fields: BTreeSet::new(),
        ..all.clone()
    };
    let source = format!("{SITE}[[rule]]\nclass = \"all\"\ncgroup = \"a/b\"\n");
    assert_eq!(refused(&source, &all), []);
    assert_eq!(refused(&source, &without), [("C222", Severity::Error)]);
    assert_eq!(refused(SITE, &without), []);
}

/// Every code has a test here.
#[test]
fn codes_are_those_tested() {
    let codes: Vec<&str> = CODES.iter().map(|code| code.code).collect();
    assert_eq!(
        codes,
        [
            "C201", "C202", "C203", "C204", "C205", "C206", "C207", "C208", "C209", "C210", "C212",
            "C213", "C214", "C215", "C216", "C217", "C218", "C219", "C221", "C222", "C223", "C224",
            "C225", "C226", "C227", "C228", "C229"
        ]
    );
}

/// The first class gets the packets that rules do not see, unless it has a ceiling.
#[test]
fn what_rules_do_not_see_is_never_held_to_a_ceiling() {
    let source = |ceiling: &str| {
        format!(
            "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"1mbit\"\nlayer = \"raw\"\n\
             [[class]]\nname = \"rest\"\nshare = \"80%\"\npriority = 5\ndefault = true\n\
             [[class]]\nname = \"first\"\nshare = \"20%\"\npriority = 0\nceiling = \"{ceiling}\"\n\
             [[rule]]\nclass = \"first\"\ndscp = \"EF\"\n"
        )
    };
    for (ceiling, minor) in [("100%", 0x69a1), ("20%", 0x18f7)] {
        let (state, _) = compile(&policy(&source(ceiling)), &Capabilities::all());
        let state = state.expect("compiles");
        let root = state
            .devices
            .values()
            .find_map(|device| device.root.as_ref())
            .expect("one");
        let inner = htb(htb(root).classes[0].leaf.as_ref().expect("the scheduler"));
        assert_eq!(inner.default_minor, minor);
    }
}
