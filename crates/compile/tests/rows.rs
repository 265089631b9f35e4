// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Policies in the engine of rows: its nodes, when it is chosen, and what is refused.

use weirgate_compile::{CheckReport, FullQueue, check_report, compile, scheduler};
use weirgate_policy::{Direction, Policy, parse};
use weirgate_state::{
    Capabilities, DeviceName, HostAddress, QdiscKind, Rows, RowsNode, RowsRole, State,
};
use weirgate_units::Rate;

const LINK: &str = "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"2mbit\"\n\
    down = \"8mbit\"\nlayer = \"adsl:pppoa-vc\"\n";

const CLASSES: &str = "[[class]]\nname = \"urgent\"\nshare = \"10%\"\npriority = 0\n\
    [[class]]\nname = \"work\"\nshare = \"50%\"\npriority = 3\nceiling = \"90%\"\n\
    [[class]]\nname = \"rest\"\nshare = \"30%\"\npriority = 3\ndefault = true\n\
    [[rule]]\nclass = \"urgent\"\ndscp = \"EF\"\n[[rule]]\nclass = \"work\"\ndscp = \"AF11\"\n";

const GUESTS: &str = "[group.guests]\naddresses = [\"192.0.2.8/30\"]\n";

const OVER_ALL: &str = "[[cap]]\ngroup = \"guests\"\nup = \"600kbit\"\ndown = \"2mbit\"\n";

fn policy(link: &str, rest: &str) -> Policy {
    let text = format!("{LINK}{link}\n{CLASSES}{GUESTS}{rest}");
    let (policy, problems) = parse(&text);
    policy.unwrap_or_else(|| panic!("{problems:#?}\n{text}"))
}

fn made(policy: &Policy) -> State {
    let (state, problems) = compile(policy, &Capabilities::all());
    state.unwrap_or_else(|| panic!("{problems:#?}"))
}

fn root(state: &State) -> &QdiscKind {
    let wan = &state.devices[&DeviceName::new("wan").expect("a name")];
    &wan.root.as_ref().expect("shaped").kind
}

fn rows(state: &State) -> &Rows {
    match root(state) {
        QdiscKind::Rows(rows) => rows,
        other => panic!("{other:?}"),
    }
}

/// Returns the report about a policy that is refused.
fn refusal(policy: &Policy, kernel: &Capabilities) -> String {
    let (state, problems) = compile(policy, kernel);
    assert!(state.is_none(), "not refused");
    let engine = problems.iter().filter(|one| one.code == "C213");
    let all: Vec<String> = engine.map(|one| one.message.clone()).collect();
    assert!(!all.is_empty(), "{problems:#?}");
    all.join("\n")
}

const ROWS: &str = "inbound = \"ifb\"\nengine = \"rows\"";

#[test]
fn classes_are_leaves_with_the_figures_of_the_tree() {
    let policy = policy(ROWS, "");
    let state = made(&policy);
    let rows = rows(&state);
    let tree = scheduler(&policy, Direction::Up).expect("shaped");
    assert_eq!((rows.gate, rows.other), (tree.gate, tree.unseen()));
    assert_eq!(rows.nodes.len(), 3);
    for member in &tree.members {
        let node = rows.nodes.iter().find(|node| node.id == member.id);
        let node = node.expect("a node");
        assert_eq!((node.role, node.parent), (RowsRole::Leaf, None));
        assert_eq!(node.guarantee, member.class.rate);
        assert_eq!(
            (node.prio, node.quantum),
            (member.class.priority, member.quantum)
        );
        let limited = member.class.ceiling < tree.gate;
        assert_eq!(node.ceiling, limited.then_some(member.class.ceiling));
    }
    assert_eq!((rows.wire.overhead, rows.mtu), (-4, 1514));
}

/// A host has a leaf in each class and one cap for all, besides its own limit in one class.
#[test]
fn a_limit_over_all_classes_is_one_cap() {
    let own = "[[cap]]\ngroup = \"guests\"\nclass = \"work\"\nup = \"400kbit\"\n";
    let state = made(&policy(ROWS, &format!("{OVER_ALL}{own}")));
    let rows = rows(&state);
    let of =
        |role| -> Vec<&RowsNode> { rows.nodes.iter().filter(|one| one.role == role).collect() };
    let (caps, inner, leaves) = (of(RowsRole::Cap), of(RowsRole::Inner), of(RowsRole::Leaf));
    // Four hosts, in three classes, each of which has other hosts too.
    assert_eq!((caps.len(), inner.len(), leaves.len()), (4, 3, 15));
    for cap in &caps {
        assert_eq!(cap.ceiling, Some(Rate::kbit(600)));
        let own: Vec<_> = leaves
            .iter()
            .filter(|leaf| leaf.cap == Some(cap.id))
            .collect();
        assert_eq!(own.len(), 3);
        let within: Vec<_> = own.iter().filter_map(|leaf| leaf.ceiling).collect();
        assert_eq!(within, [Rate::kbit(400)]);
        let parents: std::collections::BTreeSet<_> = own.iter().map(|leaf| leaf.parent).collect();
        assert_eq!(parents.len(), 3);
    }
    let guaranteed: Rate = inner
        .iter()
        .map(|node| node.guarantee)
        .fold(Rate::default(), |a, b| {
            Rate::bits_per_second(a.as_bits_per_second() + b.as_bits_per_second())
        });
    assert!(guaranteed <= rows.gate && guaranteed > Rate::default());
    // Classes of equal priority share in proportion to their guarantees.
    let quanta: Vec<u32> = inner
        .iter()
        .filter(|node| node.prio == 3)
        .map(|node| node.quantum)
        .collect();
    let (least, most) = (
        quanta.iter().min().expect("two"),
        quanta.iter().max().expect("two"),
    );
    assert_eq!((most * 3).abs_diff(least * 5) / 5, 0);
}

/// A class that is shared by hosts is a node with the figures of the class, and below it the leaf
/// that packets name. Hosts with a limit are beside the others, and a part of a class has its own
/// node.
#[test]
fn hosts_share_a_class() {
    let by_hosts = format!("{ROWS}\nfair = \"hosts\"");
    let flows = made(&policy(ROWS, ""));
    let hosts = made(&policy(&by_hosts, ""));
    assert_eq!(rows(&flows).hosts, None);
    assert_eq!(rows(&hosts).hosts, Some(HostAddress::Source));
    let ifb = hosts.devices.values().filter_map(|it| it.root.as_ref());
    let arriving = ifb.filter(|root| match &root.kind {
        QdiscKind::Rows(rows) => rows.hosts == Some(HostAddress::Destination),
        _ => false,
    });
    assert_eq!(arriving.count(), 1);
    assert_eq!(rows(&hosts).nodes.len(), 6);
    for class in &rows(&flows).nodes {
        let nodes = &rows(&hosts).nodes;
        let leaf = nodes.iter().find(|node| node.id == class.id);
        let leaf = leaf.expect("packets name it");
        let above = nodes.iter().find(|node| Some(node.id) == leaf.parent);
        let above = above.expect("a node");
        assert!(leaf.hosts && leaf.guarantee == Rate::default() && leaf.ceiling.is_none());
        assert_eq!((above.role, above.parent), (RowsRole::Inner, None));
        assert_eq!(
            (above.guarantee, above.ceiling, above.prio, above.quantum),
            (class.guarantee, class.ceiling, class.prio, class.quantum)
        );
    }
    let limited = made(&policy(&by_hosts, OVER_ALL));
    let hosts: Vec<&RowsNode> = rows(&limited)
        .nodes
        .iter()
        .filter(|one| one.hosts)
        .collect();
    assert_eq!((hosts.len(), rows(&limited).nodes.len()), (3, 22));
    for leaf in hosts {
        let beside = rows(&limited).nodes.iter();
        let mut beside = beside.filter(|one| one.parent == leaf.parent);
        assert!(beside.all(|one| one.quantum == leaf.quantum));
    }
    let share = "[[share]]\ngroup = \"guests\"\nshare = \"40%\"\nclasses = [\"rest\"]\n";
    let divided = made(&policy(&by_hosts, share));
    let own: std::collections::BTreeSet<_> = rows(&divided)
        .nodes
        .iter()
        .filter(|one| one.hosts)
        .map(|one| one.parent.expect("a node of its own"))
        .collect();
    assert_eq!(own.len(), 4);
    // Bounds are those of the class, however its hosts share it.
    let report = |link: &str| check_report(&policy(link, ""));
    let waits = |report: &CheckReport| -> Vec<_> {
        let classes = report.directions.iter().flat_map(|one| &one.classes);
        classes
            .map(|class| class.within.as_ref().map(|one| one.wait))
            .collect()
    };
    assert_eq!(waits(&report(&by_hosts)), waits(&report(ROWS)));
    assert!(report(&by_hosts).to_string().contains("for each host"));
    // Without cake, the engine is refused only where cake is needed.
    let mut plain = Capabilities::all();
    plain.qdiscs.retain(|kind| kind != "cake");
    let (state, problems) = compile(&policy(&by_hosts, ""), &plain);
    assert!(state.is_some(), "{problems:#?}");
}

#[test]
fn groups_divide_a_class() {
    let share = "[[share]]\ngroup = \"guests\"\nshare = \"40%\"\nclasses = [\"rest\"]\n";
    let state = made(&policy(ROWS, share));
    let rows = rows(&state);
    let inner: Vec<&RowsNode> = rows
        .nodes
        .iter()
        .filter(|one| one.role == RowsRole::Inner)
        .collect();
    let [whole] = inner.as_slice() else {
        panic!("{inner:?}");
    };
    let parts: u64 = rows
        .nodes
        .iter()
        .filter(|node| node.parent == Some(whole.id))
        .map(|node| node.guarantee.as_bits_per_second())
        .sum();
    assert_eq!(parts, whole.guarantee.as_bits_per_second());
}

/// `auto` chooses it for what no other engine supports, and reports that.
#[test]
fn it_is_chosen_for_a_limit_over_all_classes() {
    let auto = policy("inbound = \"ifb\"", OVER_ALL);
    assert!(matches!(root(&made(&auto)), QdiscKind::Rows(_)));
    let report = check_report(&auto);
    assert!(
        report.engine.contains("limits over all"),
        "{}",
        report.engine
    );
    let without = policy("inbound = \"ifb\"", "");
    assert!(matches!(root(&made(&without)), QdiscKind::Htb(_)));
    let mut old = Capabilities::all();
    old.kit = false;
    let text = refusal(&auto, &old);
    assert!(
        text.contains("over all classes together") && text.contains("no qdiscs"),
        "{text}"
    );
    for engine in ["htb", "cake", "kit"] {
        let stated = policy(
            &format!("inbound = \"ifb\"\nengine = \"{engine}\""),
            OVER_ALL,
        );
        let text = refusal(&stated, &Capabilities::all());
        assert!(text.contains("only `engine = \"rows\"` does"), "{text}");
    }
}

#[test]
fn it_is_refused_what_it_cannot_do() {
    let refused = |link: &str, rest: &str, word: &str| {
        let text = refusal(&policy(link, rest), &Capabilities::all());
        assert!(text.contains(word), "{text}");
    };
    refused(
        &format!("{ROWS}\nfair = \"hosts-only\""),
        "",
        "requires one",
    );
    refused(&format!("{ROWS}\ntimer-slack = \"1ms\""), "", "timer");
    refused("inbound = \"lan\"\nengine = \"rows\"", "", "LAN device");
    let pie = "[[class]]\nname = \"more\"\nshare = \"10%\"\nqueue = \"pfifo 100\"\n";
    refused(ROWS, pie, "sets another `pfifo`");
    let slow = "[[class]]\nname = \"more\"\nshare = \"10%\"\n\
                queue = { kind = \"fq_codel\", limit = 100 }\n";
    refused(ROWS, slow, "sets another `fq_codel`");
    // The reason why `auto` does not choose it is reported.
    refused("inbound = \"lan\"", OVER_ALL, "LAN device");
    let mut old = Capabilities::all();
    old.kit = false;
    assert!(refusal(&policy(ROWS, ""), &old).contains("no qdiscs made of BPF programs"));
}

#[test]
fn a_target_can_be_stated() {
    let class = "[[class]]\nname = \"more\"\nshare = \"10%\"\n\
                 queue = { kind = \"fq_codel\", target = \"70ms\" }\n";
    let state = made(&policy(ROWS, class));
    let targets = rows(&state)
        .nodes
        .iter()
        .map(|node| node.target.as_millis_f64());
    assert_eq!(
        targets
            .filter(|target| (*target - 70.0).abs() < 1e-9)
            .count(),
        1
    );
}

/// Classes have bounds, and a part of a class says why it has none.
#[test]
fn it_has_bounds() {
    let report = check_report(&policy(ROWS, ""));
    for class in report
        .directions
        .iter()
        .flat_map(|direction| &direction.classes)
    {
        let (lone, within) = (class.lone.as_ref(), class.within.as_ref());
        if class.name == "work" {
            // Its ceiling compensates for less than the classes before it make it wait.
            let FullQueue::NoHardBound { reason } = &class.full else {
                panic!("{class:?}");
            };
            assert!(reason.contains("ceiling"), "{reason}");
            continue;
        }
        assert!(lone.expect("a bound").wait < within.expect("a bound").wait);
        assert!(class.keeps < class.guaranteed.wire && !class.in_order);
    }
    let share = "[[share]]\ngroup = \"guests\"\nshare = \"40%\"\nclasses = [\"rest\"]\n";
    let report = check_report(&policy(ROWS, share));
    let classes = &report.directions[0].classes;
    let (parts, others): (Vec<_>, Vec<_>) = classes
        .iter()
        .partition(|class| class.name.starts_with("rest"));
    assert_eq!((parts.len(), others.len()), (2, 2));
    assert!(others[0].name == "urgent" && others[0].within.is_some());
    for part in parts {
        assert_eq!((&part.lone, &part.within), (&None, &None));
        let FullQueue::NoHardBound { reason } = &part.full else {
            panic!("{part:?}");
        };
        assert!(reason.contains("part of a class"), "{reason}");
        assert!(part.within_of(0).is_err());
    }
    let text = report.to_string();
    assert!(
        text.contains("No bound was derived") && text.contains("waits at most"),
        "{text}"
    );
}

/// An objective is judged by these bounds.
#[test]
fn an_objective_is_judged() {
    let class = "[[class]]\nname = \"more\"\nshare = \"10%\"\npriority = 0\nobjective = 0\n";
    let report = check_report(&policy(ROWS, class));
    let all = report.directions.iter().flat_map(|one| &one.classes);
    let judged = all.filter_map(|class| Some((class, class.objective.as_ref()?)));
    let met: Vec<bool> = judged
        .map(|(class, one)| {
            assert_eq!(
                one.here,
                class.within.as_ref().expect("a bound").wait + class.own_time
            );
            one.met
        })
        .collect();
    assert_eq!(met, [true, true]);
}
