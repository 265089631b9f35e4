// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The choice of the engine, and its consequences: cake, its ACK filter, smaller segments.

use weirgate_compile::compile;
use weirgate_policy::{Direction, Policy, parse};
use weirgate_state::{Capabilities, DeviceName, Htb, Qdisc, QdiscKind};

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

const SLOW_LINK: &str = "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"512kbit\"\n\
    down = \"2mbit\"\nlayer = \"adsl:pppoa-vc\"\n";
const ONE_CLASS: &str = "[[class]]\nname = \"all\"\nshare = \"100%\"\ndefault = true\n";

/// cake is chosen if it is requested and suitable, or if there is no HTB; if it is unsuitable, the
/// reason is reported.
#[test]
fn the_engine_is_chosen_or_refused() {
    let with = |engine: &str, classes: &str| {
        policy(&format!(
            "{SLOW_LINK}inbound = \"ifb\"\n{engine}\n{classes}"
        ))
    };
    let root = |policy: &Policy, kernel: &Capabilities| {
        let (state, problems) = compile(policy, kernel);
        let found = state.map(|state| {
            let wan = &state.devices[&DeviceName::new("wan").expect("a name")];
            wan.root.clone().expect("shaped").kind
        });
        found.ok_or(problems)
    };
    let all = Capabilities::all();
    let mut without = Capabilities::all();
    without.qdiscs.remove("htb");
    assert!(matches!(
        root(&with("", ONE_CLASS), &all),
        Ok(QdiscKind::Htb(_))
    ));
    let asked = with("engine = \"cake\"\nfair = \"hosts\"", ONE_CLASS);
    let Ok(QdiscKind::Cake(cake)) = root(&asked, &all) else {
        panic!("no cake");
    };
    let wire = cake.wire.expect("counted on the wire");
    assert_eq!(
        (wire.overhead, wire.framing),
        (10, weirgate_state::CakeFraming::Atm)
    );
    assert_eq!(cake.bandwidth, asked.gate(Direction::Up));
    assert!(cake.nat && cake.flow_mode == weirgate_state::CakeFlowMode::DualSrcHost);
    assert!(matches!(
        root(&with("", ONE_CLASS), &without),
        Ok(QdiscKind::Cake(_))
    ));
    let two = "[[class]]\nname = \"all\"\nshare = \"50%\"\ndefault = true\n\
               [[class]]\nname = \"voice\"\nshare = \"50%\"\npriority = 0\n\
               [[rule]]\nclass = \"voice\"\ndscp = \"EF\"\n";
    for (engine, kernel, code) in [
        ("engine = \"cake\"", &all, "C213"),
        ("engine = \"auto\"", &without, "C201"),
        ("engine = \"htb\"", &without, "C201"),
    ] {
        let problems = root(&with(engine, two), kernel).expect_err("refused");
        assert!(
            problems.iter().any(|problem| problem.code == code),
            "{engine}: {problems:#?}"
        );
    }
    let mut no_cake = Capabilities::all();
    no_cake.qdiscs.remove("cake");
    let problems = root(&with("engine = \"cake\"", ONE_CLASS), &no_cake).expect_err("refused");
    assert_eq!(problems[0].code, "C213");
}

const TWO_CLASSES: &str = "[[class]]\nname = \"all\"\nshare = \"60%\"\ndefault = true\n\
    queue = { kind = \"red\", limit = \"60kB\", min = \"15kB\", max = \"45kB\", adaptive = true }\n\
    [[class]]\nname = \"voice\"\nshare = \"40%\"\npriority = 0\nceiling = \"50%\"\n\
    queue = \"bfifo 20000\"\n[[rule]]\nclass = \"voice\"\ndscp = \"EF\"\n";

/// The kit's shaper has the same classes and figures as the tree.
#[test]
fn the_kit_has_the_classes_of_the_tree() {
    let with = |engine: &str| {
        let policy = policy(&format!("{SLOW_LINK}engine = \"{engine}\"\n{TWO_CLASSES}"));
        let (state, problems) = compile(&policy, &Capabilities::all());
        let state = state.unwrap_or_else(|| panic!("{problems:#?}"));
        let wan = &state.devices[&DeviceName::new("wan").expect("a name")];
        (wan.root.clone().expect("shaped"), state.tables)
    };
    let (tree, tables) = with("htb");
    let (root, same) = with("kit");
    assert_eq!(tables, same, "rules are the same");
    let QdiscKind::Kit(kit) = &root.kind else {
        panic!("{root:?}");
    };
    let gate = &htb(&tree).classes[0];
    let inner = htb(gate.leaf.as_ref().expect("the scheduler"));
    assert_eq!((kit.gate, root.stab.is_none()), (gate.rate, true));
    assert_eq!(kit.other.minor, inner.default_minor);
    assert_eq!((kit.wire.overhead, kit.mtu), (-4, 1514));
    let leaves = inner.classes.iter().filter(|class| class.leaf.is_some());
    let mut leaves: Vec<_> = leaves.collect();
    leaves.sort_by_key(|class| class.id);
    assert_eq!(leaves.len(), kit.classes.len());
    for (leaf, class) in leaves.iter().zip(&kit.classes) {
        assert_eq!((leaf.id, leaf.rate), (class.id, class.guarantee));
        assert_eq!((leaf.prio, leaf.quantum), (class.prio, class.weight));
        assert_eq!(leaf.buffer, class.credit);
        assert_eq!(class.ceiling.map(|_| leaf.ceil), class.ceiling);
        let value = |name: &str| {
            let setting = class.settings.iter().find(|one| one.name == name);
            setting.map(|one| one.value)
        };
        let queue = &leaf.leaf.as_ref().expect("a queue").kind;
        let named = |first, second| (class.discipline.as_str(), value(first), value(second));
        if let QdiscKind::Bfifo(_) = queue {
            let found = named("limit_bytes", "measure");
            assert_eq!(found, ("droptail", Some(20_000), Some(1)));
            assert!(class.ceiling.is_some());
        } else {
            let found = named("min_bytes", "measure");
            assert_eq!(found, ("ared", Some(15_000), Some(2)));
        }
    }
}

/// Features that the kit's shaper lacks are refused with a reason.
#[test]
fn the_kit_is_refused_what_it_cannot_do() {
    let problems = |fields: &str, classes: &str, kernel: &Capabilities| {
        let policy = policy(&format!("{SLOW_LINK}engine = \"kit\"\n{fields}\n{classes}"));
        let (state, problems) = compile(&policy, kernel);
        assert!(state.is_none());
        let own = problems.into_iter().find(|problem| problem.code == "C213");
        own.expect("about the engine").message
    };
    let all = Capabilities::all();
    let sfq = format!("{ONE_CLASS}queue = \"sfq\"\n");
    assert!(problems("", &sfq, &all).contains("no queue `sfq`"));
    for queue in ["sfq", "cake"] {
        let ack = format!("{ONE_CLASS}[ack]\nqueue = \"{queue}\"\n");
        let named = format!("no queue `{queue}`, which `ack` names");
        assert!(problems("", &ack, &all).contains(&named));
    }
    for fair in ["hosts", "hosts-only"] {
        let fair = format!("fair = \"{fair}\"");
        assert!(problems(&fair, ONE_CLASS, &all).contains("between hosts"));
    }
    assert!(problems("inbound = \"lan\"", ONE_CLASS, &all).contains("LAN device"));
    let mut nine = String::from("[[class]]\nname = \"all\"\nshare = \"50%\"\ndefault = true\n");
    for number in 0..8 {
        let class = [
            "[[class]]\nname = \"c",
            &number.to_string(),
            "\"\nshare = \"1%\"\n",
        ];
        nine.push_str(&class.concat());
    }
    assert!(problems("", &nine, &all).contains("9 are"));
    // Eight in each direction; the class of acknowledgements counts only where it is.
    let eight = nine.replacen("[[class]]\nname = \"c6\"\nshare = \"1%\"\n", "", 1);
    let eight = format!(
        "{SLOW_LINK}inbound = \"ifb\"\nengine = \"kit\"\n{eight}direction = \"up\"\n\
         [ack]\ndirection = \"down\"\n"
    );
    let (state, report) = compile(&policy(&eight), &all);
    assert!(state.is_some(), "{report:#?}");
    let mut old = Capabilities::all();
    old.kit = false;
    assert!(problems("", ONE_CLASS, &old).contains("BPF programs"));
}

/// The ACK filter is cake's, only upstream, at the root or in a class.
#[test]
fn acknowledgements_are_filtered_where_a_cake_is() {
    use weirgate_state::CakeAckFilter::{Aggressive, Filter, No};
    let with = |fields: &str| policy(&format!("{SLOW_LINK}{fields}\n{ONE_CLASS}"));
    let filters = |policy: &Policy| {
        let (state, problems) = compile(policy, &Capabilities::all());
        let state = state.unwrap_or_else(|| panic!("{problems:#?}"));
        let of = |device: &str| {
            let device = &state.devices[&DeviceName::new(device).expect("a name")];
            let root = device.root.as_ref().expect("shaped");
            let leaf = if let QdiscKind::Cake(_) = root.kind {
                root.clone()
            } else {
                let inner = htb(htb(root).classes[0].leaf.as_ref().expect("the scheduler"));
                let leaf = inner.classes.iter().find_map(|class| class.leaf.clone());
                *leaf.expect("a queue")
            };
            match leaf.kind {
                QdiscKind::Cake(cake) => cake.ack_filter,
                other => panic!("{other:?}"),
            }
        };
        (of("wan"), of("ifb-wan"))
    };
    let filter = |engine: &str, word: &str| {
        let fields = format!("fair = \"hosts\"\nengine = \"{engine}\"\nack-filter = \"{word}\"");
        filters(&with(&fields))
    };
    assert_eq!(filter("cake", "on"), (Filter, No));
    assert_eq!(filter("htb", "aggressive"), (Aggressive, No));
    assert_eq!(filter("cake", "off"), (No, No));
    let (state, problems) = compile(&with("ack-filter = \"on\""), &Capabilities::all());
    assert!(
        state.is_none() && problems[0].code == "C215",
        "{problems:#?}"
    );
}

/// If acknowledgements of a full downstream take a tenth of the upstream, their class has a cake
/// that filters, unless the policy or the kernel prevents it.
#[test]
fn acknowledgements_are_filtered_where_the_rates_ask_for_it() {
    use weirgate_state::CakeAckFilter::{Aggressive, Filter};
    let with = |up: &str, fields: &str, ack: &str| {
        policy(&format!(
            "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"{up}\"\n\
             down = \"17mbit\"\ninbound = \"ifb\"\nlayer = \"vdsl2:pppoe\"\n{fields}\n{ack}\n{ONE_CLASS}"
        ))
    };
    let queue = |policy: &Policy, kernel: &Capabilities| {
        let (state, problems) = compile(policy, kernel);
        let state = state.unwrap_or_else(|| panic!("{problems:#?}"));
        let root = state.devices[&DeviceName::new("wan").expect("a name")]
            .root
            .clone();
        let outer = root.expect("shaped");
        let inner = htb(htb(&outer).classes[0].leaf.as_ref().expect("the scheduler"));
        let mut classes = inner.classes.iter();
        let own = classes.find(|class| class.origin.to_string().contains("class ack"));
        let leaf = own.and_then(|class| class.leaf.clone()).expect("a queue");
        match leaf.kind {
            QdiscKind::Cake(cake) => (Some(cake.ack_filter), problems),
            _ => (None, problems),
        }
    };
    let all = Capabilities::all();
    let ack = "[ack]\ndirection = \"up\"";
    let chosen = |up, fields, ack| queue(&with(up, fields, ack), &all).0;
    // An acknowledgement takes 84 bytes, two full packets 3,108. So 17 Mbit/s of the latter cause
    // 459.5 kbit/s of the former, a tenth of 4,595.
    assert_eq!(chosen("4600kbit", "", ack), Some(Aggressive));
    assert_eq!(chosen("4610kbit", "", ack), None);
    assert_eq!(
        chosen("2mbit", "ack-filter = \"auto\"", ack),
        Some(Aggressive)
    );
    assert_eq!(chosen("2mbit", "ack-filter = \"on\"", ack), Some(Filter));
    assert_eq!(chosen("2mbit", "ack-filter = \"off\"", ack), None);
    assert_eq!(chosen("2mbit", "", "[ack]\nqueue = \"pfifo 50\""), None);
    let mut without = Capabilities::all();
    without.qdiscs.remove("cake");
    let (filter, problems) = queue(&with("2mbit", "", ack), &without);
    assert_eq!(filter, None);
    assert!(
        problems.iter().any(|one| one.code == "C215"),
        "{problems:#?}"
    );
    let stated = with("2mbit", "ack-filter = \"on\"", ack);
    let (state, problems) = compile(&stated, &without);
    assert!(
        state.is_none() && problems[0].code == "C215",
        "{problems:#?}"
    );
    let report = |policy: &Policy| weirgate_compile::check_report(policy).to_string();
    let filtered = report(&with("2mbit", "", ack));
    assert!(filtered.contains("take 23 % of this rate") && filtered.contains("those that wait"));
    assert!(report(&with("2mbit", "", "")).contains("`[ack]` makes one that does"));
    assert!(!report(&with("10mbit", "", ack)).contains("one for two full packets"));
}

/// A rule's `segment` lowers the MSS of its SYNs, only in its direction and for its packets, before
/// the rule itself.
#[test]
fn segments_are_lowered_by_a_rule() {
    let rule = "[[rule]]\nclass = \"all\"\ndirection = \"up\"\nprotocol = [\"tcp\", \"udp\"]\n\
                remote-port = [80, 443]\nmss = 536\n";
    let stated = policy(&format!("{SLOW_LINK}inbound = \"lan\"\n{ONE_CLASS}{rule}"));
    let (state, problems) = compile(&stated, &Capabilities::all());
    let state = state.unwrap_or_else(|| panic!("{problems:#?}"));
    let lowering: Vec<&weirgate_state::Rule> = state.tables[0]
        .chains
        .iter()
        .filter(|chain| chain.name == "up")
        .flat_map(|chain| &chain.rules)
        .filter(|rule| {
            let effects = &rule.effects;
            effects
                .iter()
                .any(|one| matches!(one, weirgate_state::Effect::MaxSegment(_)))
        })
        .collect();
    let sizes: Vec<_> = lowering.iter().map(|rule| rule.effects.clone()).collect();
    assert_eq!(
        sizes,
        [536, 1220].map(|size| vec![weirgate_state::Effect::MaxSegment(size)])
    );
    let text: String = state
        .tables
        .iter()
        .map(weirgate_state::Table::nft_text)
        .collect();
    assert_eq!(text.matches("maxseg").count(), 2, "{text}");
    let line = text
        .lines()
        .find(|line| line.contains("maxseg size set 536"));
    let line = line.expect("there");
    for part in ["tcp flags", "l4proto 6", "dport @list"] {
        assert!(line.contains(part), "{line}");
    }
    assert!(state.tables[0].faults().is_empty());
}

/// The permitted lateness of a timer is the gate's burst, and is part of the bound on the modem's
/// backlog. Other engines report that they lack it.
#[test]
fn the_gate_may_be_late() {
    let text = format!("{SLOW_LINK}timer-slack = \"2ms\"\ninbound = \"lan\"\n{ONE_CLASS}");
    let (state, problems) = compile(&policy(&text), &Capabilities::all());
    let state = state.unwrap_or_else(|| panic!("{problems:#?}"));
    let mut gates = 0;
    for device in state.devices.values() {
        if let Some(QdiscKind::Htb(htb)) = device.root.as_ref().map(|root| &root.kind) {
            assert_eq!(htb.classes[0].buffer, weirgate_units::Span::from_millis(2));
            gates += 1;
        }
    }
    assert_eq!(gates, 2);
    let report = weirgate_compile::check_report(&policy(&text)).to_string();
    assert!(
        report.contains("a second one for at most 2.00 ms"),
        "{report}"
    );
    for engine in ["cake", "kit"] {
        let other = text.replace(
            "timer-slack",
            &format!("engine = \"{engine}\"\ntimer-slack"),
        );
        let (state, problems) = compile(&policy(&other), &Capabilities::all());
        assert!(state.is_none(), "{engine}");
        assert!(
            problems
                .iter()
                .any(|problem| problem.message.contains("the timer slack itself")),
            "{engine}: {problems:#?}"
        );
    }
}

/// Segments are lowered downstream if one full packet upstream exceeds a class's delay, and not
/// otherwise.
#[test]
fn segments_are_lowered_for_a_delay() {
    let with = |delay: &str| {
        policy(&format!(
            "{SLOW_LINK}inbound = \"lan\"\n{ONE_CLASS}[[class]]\nname = \"voice\"\nrate = \"100kbit\"\n\
             priority = 0\nqueue = \"pfifo 5\"\ndelay = \"{delay}\"\n[[rule]]\nclass = \"voice\"\ndscp = \"EF\"\n"
        ))
    };
    let text = |delay: &str| {
        let (state, problems) = compile(&with(delay), &Capabilities::all());
        let codes: Vec<&str> = problems.iter().map(|problem| problem.code).collect();
        let state = state.expect("compiles");
        let text: String = state
            .tables
            .iter()
            .map(weirgate_state::Table::nft_text)
            .collect();
        (text, codes.contains(&"C212"))
    };
    assert_eq!(text("30ms"), (text("30ms").0.replace("maxseg", ""), false));
    // 17 ms at 511 kbit/s are 1085 bytes on the wire, 20 cells: 950 bytes of IP.
    let (lowered, warned) = text("17ms");
    assert!(
        lowered.contains("tcp option maxseg size set 910"),
        "{lowered}"
    );
    // IPv6 has a minimum above that.
    assert!(lowered.contains("tcp option maxseg size set 1220") && warned);
    let up = lowered.split("chain down").next().unwrap_or_default();
    assert!(!up.contains("maxseg"), "only downstream: {up}");
    let report = weirgate_compile::check_report(&with("17ms")).to_string();
    assert!(
        report.contains("segments are lowered to 910 B in IPv4"),
        "{report}"
    );
}

/// The default queue of a class is the first of three kinds that the kernel has. It is reported if
/// it is not the usual one.
#[test]
fn the_usual_queue_is_the_first_that_the_kernel_has() {
    let policy = policy(&format!(
        "{SLOW_LINK}{}[[class]]\nname = \"b\"\nshare = \"10%\"\nqueue = \"pfifo 9\"\n",
        ONE_CLASS.replace("100%", "90%")
    ));
    let queues = |lacking: &[&str]| {
        let mut kernel = Capabilities::all();
        for kind in lacking {
            kernel.qdiscs.remove(*kind);
        }
        let (state, problems) = compile(&policy, &kernel);
        let codes: Vec<&str> = problems.iter().map(|problem| problem.code).collect();
        let found = state.map(|state| {
            let wan = &state.devices[&DeviceName::new("wan").expect("a name")];
            let gate = htb(wan.root.as_ref().expect("shaped"));
            let inner = gate.classes.iter().find_map(|class| class.leaf.as_ref());
            let classes = &htb(inner.expect("a scheduler")).classes;
            let leaves = classes.iter().filter_map(|class| class.leaf.as_ref());
            leaves.map(|leaf| leaf.kind.name().to_owned()).collect()
        });
        let found: Option<Vec<String>> = found;
        (found, codes.contains(&"C223"), codes.contains(&"C201"))
    };
    let with = |kind: &str| Some(vec![kind.to_owned(), "pfifo".to_owned()]);
    assert_eq!(queues(&[]), (with("fq_codel"), false, false));
    assert_eq!(queues(&["fq_codel"]), (with("cake"), true, false));
    assert_eq!(queues(&["fq_codel", "cake"]), (with("sfq"), true, false));
    let none = queues(&["fq_codel", "cake", "sfq"]);
    assert_eq!(none, (None, false, true));
}

/// The engine is always reported, with the reason.
#[test]
fn the_engine_is_named_with_its_reason() {
    let line = |engine: &str, classes: &str| {
        let policy = policy(&format!(
            "{SLOW_LINK}inbound = \"ifb\"\n{engine}\n{classes}"
        ));
        weirgate_compile::check_report(&policy).engine
    };
    let two = "[[class]]\nname = \"all\"\nshare = \"50%\"\ndefault = true\n\
        [[class]]\nname = \"b\"\nshare = \"50%\"\n";
    for (engine, classes, parts) in [
        (
            "",
            two,
            ["`engine = \"htb\"`), because it keeps", "`b` is a second"],
        ),
        (
            "",
            ONE_CLASS,
            [
                "`engine = \"htb\"`), because it bounds",
                "kernel without HTB",
            ],
        ),
        (
            "engine = \"htb\"",
            two,
            ["`engine = \"htb\"`), because", "asks for it"],
        ),
        (
            "engine = \"cake\"",
            ONE_CLASS,
            ["`engine = \"cake\"`", "asks for it"],
        ),
    ] {
        let text = line(engine, classes);
        assert!(text.starts_with("Shaped by "), "{text}");
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("only the queue"), "{text}");
    }
    // cake as the queue of a class is not the engine.
    let queue = two.replace("default", "queue = \"cake\"\ndefault");
    let text = line("", &queue);
    assert!(text.ends_with("Where a class has cake, cake is only the queue of that class."));
}
