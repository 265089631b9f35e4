// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plan`, `apply`, `show` and `remove` on this machine's kernel.
//!
//! Over 500 lines: one test for each thing that these four commands promise.

use crate::namespace::{Namespace, same};
use crate::program::{Ended, WEIRGATE, root};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

#[test]
fn a_policy_comes_and_goes_without_trace() {
    let namespace = Namespace::new();
    let before = namespace.snapshot();
    let nothing = namespace.weirgate("show");
    assert_eq!(
        (nothing.status, nothing.out.as_str()),
        (0, "nothing is applied\n")
    );

    let planned = namespace.weirgate("plan both.toml");
    assert_eq!(planned.status, 1, "{planned:?}");
    same(&before, &namespace.snapshot());
    // A plan begins with the number of its steps, and ends with both set-ups on request.
    let (count, steps) = planned.out.split_once('\n').unwrap();
    assert_eq!(count, format!("{} changes", steps.lines().count()));
    let all = namespace.weirgate("plan --all both.toml");
    for part in [
        "Set-up upstream on wan",
        "Set-up downstream on ifb-wan",
        "naive (IP)",
    ] {
        assert!(all.out.contains(part), "{part} in {}", all.out);
    }
    let document = namespace.weirgate("plan --json both.toml");
    let document: Value = serde_json::from_str(&document.out).unwrap();
    let texts = document["steps"].as_array().unwrap();
    assert_eq!(texts.len(), steps.lines().count());
    for (text, line) in texts.iter().zip(steps.lines()) {
        // The line ends with what the step empties.
        assert!(line.starts_with(text["text"].as_str().unwrap()), "{line}");
    }
    let applied = namespace.weirgate("apply both.toml");
    assert_eq!(applied.status, 0, "{applied:?}");
    assert_eq!(applied.out, steps);
    crate::program::golden(&root().join("tests/cli/both.txt"), &applied.out);
    assert_ne!(namespace.snapshot(), before);

    let shown = namespace.weirgate("show");
    assert_eq!(shown.status, 0, "{shown:?}");
    for part in [
        "state 1 is in force since 20",
        "both.toml\nthe kernel has all of it, and nothing differs\n\nupstream on wan: shaped to ",
        "\n\ndownstream on ifb-wan: shaped to ",
        "  normal       332.8 kbit/s guaranteed, ",
    ] {
        assert!(shown.out.contains(part), "{part} in {}", shown.out);
    }
    let document = namespace.weirgate("show --json");
    let document: Value = serde_json::from_str(&document.out).unwrap();
    assert_eq!(document["state"], 1);
    assert_eq!(document["confirmed"], true);
    assert_eq!(document["links"][0]["directions"][1]["device"], "ifb-wan");
    assert_eq!(document["differences"], Value::Array(Vec::new()));
    counters_count(&namespace, &shown.out, &document);
    let history = namespace.weirgate("history --json");
    let history: Value = serde_json::from_str(&history.out).unwrap();
    assert_eq!(history[0]["outcome"], "in force");
    let settled = namespace.snapshot();
    for command in ["plan both.toml", "apply both.toml"] {
        let again = namespace.weirgate(command);
        assert_eq!(
            (again.status, again.out.as_str()),
            (0, "nothing to change\n")
        );
    }
    same(&settled, &namespace.snapshot());

    let changed = namespace.weirgate("apply changed.toml");
    assert_eq!(changed.status, 0, "{changed:?}");
    assert!(
        changed
            .out
            .lines()
            .all(|line| line.contains(": change class ")),
        "{changed:?}"
    );
    assert_eq!(namespace.weirgate("show").status, 0);

    let removed = namespace.weirgate("remove");
    assert_eq!(removed.status, 0, "{removed:?}");
    same(&before, &namespace.snapshot());
    assert_eq!(namespace.weirgate("plan both.toml").out, planned.out);
    namespace
        .weirgate("remove")
        .says(0, &["nothing is applied"]);

    let applied = namespace.weirgate("apply --json --confirm 60s both.toml");
    assert_eq!(applied.status, 0, "{applied:?}");
    let applied: Value = serde_json::from_str(&applied.out).unwrap();
    let history = namespace.weirgate("history --json");
    let history: Value = serde_json::from_str(&history.out).unwrap();
    let newest = history.as_array().unwrap().last().unwrap();
    assert_eq!(applied["steps"], Value::Array(texts.clone()));
    assert_eq!(applied["state"], newest["state"]);
    assert_eq!(applied["returns_s"], 60.0);
    namespace.weirgate("rollback").says(0, &["taken back"]);
}

/// Each class has its counters, as the kernel has them.
fn counters_count(namespace: &Namespace, shown: &str, document: &Value) {
    let directions = document["links"][0]["directions"].as_array().unwrap();
    let classes = directions
        .iter()
        .map(|one| one["classes"].as_array().unwrap());
    let classes: usize = classes.map(Vec::len).sum();
    assert_eq!(shown.matches("        sent ").count(), classes, "{shown}");
    let sent = || -> u64 {
        let shown = namespace.weirgate("show --json");
        let document: Value = serde_json::from_str(&shown.out).unwrap();
        let counters = document["counters"].as_array().unwrap();
        let up = counters.iter().filter(|one| one["device"] == "wan");
        assert!(
            up.clone()
                .all(|one| one["drops"] == 0 && one["backlog_bytes"] == 0)
        );
        up.map(|one| one["sent_packets"].as_u64().unwrap()).sum()
    };
    let before_packets = sent();
    namespace.run("ip address add 192.0.2.1/24 dev wan");
    namespace.run("ip neigh add 192.0.2.2 lladdr 02:00:5e:10:00:02 dev wan");
    let mut sends = namespace.command("bash");
    sends.args(["-c", "echo hello > /dev/udp/192.0.2.2/9"]);
    assert!(sends.status().unwrap().success());
    assert!(sent() > before_packets, "a packet counts");
    namespace.run("ip neigh del 192.0.2.2 dev wan");
    namespace.run("ip address del 192.0.2.1/24 dev wan");
}

#[test]
fn what_someone_else_changes_is_shown_and_mended() {
    let namespace = Namespace::new();
    let before = namespace.snapshot();
    assert_eq!(namespace.weirgate("apply both.toml").status, 0);
    let settled = namespace.snapshot();
    namespace.run("tc qdisc del dev wan root");
    namespace.run("nft delete table inet weirgate");
    let shown = namespace.weirgate("show");
    assert_eq!(shown.status, 1, "{shown:?}");
    for part in [
        "differs: wan: expected htb 1:",
        "differs: table inet weirgate",
    ] {
        assert!(shown.out.contains(part), "{part} in {}", shown.out);
    }
    assert_eq!(namespace.weirgate("apply both.toml").status, 0);
    same(&settled, &namespace.snapshot());
    // A missing device is no obstacle.
    namespace.run("ip link del ifb-wan");
    namespace.run("ip link del lan");
    assert_eq!(namespace.weirgate("show").status, 1);
    assert_eq!(namespace.weirgate("remove").status, 0);
    namespace.run("ip link add lan type veth peer name inside");
    let after = namespace.snapshot();
    let only = |text: &str, part: &str| text.matches(part).count();
    for part in ["htb", "weirgate", "ifb", "state.json"] {
        assert_eq!(only(&after, part), only(&before, part), "{part} in {after}");
    }
}

#[test]
fn devices_that_do_not_exist() {
    let namespace = Namespace::new();
    namespace.run("ip link del lan");
    for command in ["plan both.toml", "apply both.toml"] {
        let ended = namespace.weirgate(command);
        ended.says(2, &["K301: lan: there is no such network device"]);
        assert_eq!(ended.out, "");
    }
    namespace.run("ip link del wan");
    for command in ["plan both.toml", "apply both.toml"] {
        namespace
            .weirgate(command)
            .says(2, &["K301: lan: ", "K301: wan: "]);
    }
    assert_eq!(namespace.run("nft list ruleset"), "");
    assert!(!namespace.run("ip link show").contains("ifb"));
    assert_eq!(namespace.run("find /run -name state.json"), "");
}

#[test]
fn a_wrong_policy_changes_nothing() {
    let namespace = Namespace::new();
    let before = namespace.snapshot();
    for command in ["plan", "apply", "apply --adopt"] {
        let ended = namespace.weirgate(&format!("{command} check/shares-over.toml"));
        ended.says(2, &["error[P116]", "shares-over.toml:15:9"]);
    }
    same(&before, &namespace.snapshot());
}

#[test]
fn a_qdisc_that_this_kernel_lacks() {
    let namespace = Namespace::new();
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("policy.toml");
    let policy = fs::read_to_string(root().join("tests/cli/upstream.toml")).unwrap();
    for kind in ["fq_codel", "sfq", "cake"] {
        let mut tc = namespace.command("tc");
        tc.args(["qdisc", "add", "dev", "far", "root", kind]);
        let tried = Ended::of(&tc.output().unwrap());
        let lacks = tried.err.contains("qdisc kind is unknown");
        assert!(lacks || tried.status == 0, "{tried:?}");
        let queue = |queue: &str| format!("queue = \"{queue}\"");
        fs::write(&file, policy.replace(&queue("pfifo 50"), &queue(kind))).unwrap();
        let name = file.to_str().unwrap();
        // `check` is about the policy, independent of the kernel.
        namespace.weirgate(&format!("check {name}")).says(0, &[]);
        let planned = namespace.weirgate(&format!("plan {name}"));
        if lacks {
            let location = format!("{name}:20:9");
            let why = format!("has no {kind} qdisc");
            planned.says(2, &["error[C201]: Linux ", &why, &location]);
            assert_eq!(planned.out, "");
        } else {
            assert_eq!(planned.status, 1, "{planned:?}");
            namespace.run("tc qdisc del dev far root");
        }
    }
}

#[test]
fn a_foreign_root_is_left_alone() {
    let namespace = Namespace::new();
    namespace.run("tc qdisc add dev wan root handle 5: tbf rate 1mbit burst 2000 limit 3000");
    let before = namespace.snapshot();
    for command in ["plan both.toml", "apply both.toml"] {
        namespace
            .weirgate(command)
            .says(2, &["K302: wan: its root qdisc tbf 5:"]);
    }
    same(&before, &namespace.snapshot());
}

/// Another program replaces the root of a shaped device, and gives one to a LAN device, whose
/// offloads and program for payloads alone are weirgate's. This prevents neither a change nor the
/// removal.
#[test]
fn foreign_roots_do_not_prevent_a_removal() {
    let namespace = Namespace::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ifb.toml");
    let both = fs::read_to_string(root().join("tests/cli/both.toml")).unwrap();
    let text = both.replace("[ack]", "inbound = \"ifb\"\n\n[ack]");
    let rule = "[[rule]]\nclass = \"normal\"\npayload = \"bittorrent\"\nkeep = true\n";
    fs::write(&file, format!("{text}\n{rule}")).unwrap();
    let apply = format!("apply {}", file.display());
    let before = namespace.run("nft list ruleset");
    namespace.run("tc qdisc add dev lan root handle 5: tbf rate 1mbit burst 2000 limit 3000");
    let warns = "lan: its root qdisc is another program's";
    namespace.weirgate(&apply).says(0, &[warns]);
    assert!(namespace.run("tc qdisc show dev lan").contains("clsact"));
    namespace.run("tc qdisc replace dev wan root handle 6: tbf rate 1mbit burst 2000 limit 3000");
    namespace
        .weirgate(&apply)
        .says(2, &["K302: wan: its root qdisc tbf 6:"]);
    namespace
        .weirgate("remove")
        .says(0, &["wan: its root qdisc is another program's"]);
    assert_eq!(namespace.run("nft list ruleset"), before);
    let left = namespace.run("tc qdisc show");
    assert!(left.contains("tbf 5:") && left.contains("tbf 6:"), "{left}");
    assert!(!left.contains("ifb") && !left.contains("clsact"), "{left}");
}

#[test]
fn offloads_come_back_after_a_foreign_root_is_gone() {
    let namespace = Namespace::new();
    let before = namespace.snapshot();
    namespace.weirgate("apply both.toml").says(0, &[]);
    namespace.run("tc qdisc add dev lan root handle 5: tbf rate 1mbit burst 2000 limit 3000");
    let warns = "lan: its root qdisc is another program's";
    namespace.weirgate("apply changed.toml").says(0, &[warns]);
    namespace.run("tc qdisc del dev lan root");
    namespace.weirgate("remove").says(0, &[]);
    same(&before, &namespace.snapshot());
}

#[test]
fn a_foreign_table_of_our_name_is_left_alone() {
    let namespace = Namespace::new();
    namespace.run("nft add table inet weirgate");
    namespace.run("nft add chain inet weirgate mine");
    // Without contents, the owner of the table does not matter.
    assert_eq!(namespace.weirgate("plan both.toml").status, 1);
    namespace.run("nft add rule inet weirgate mine udp dport 53 counter");
    let before = namespace.run("nft -s list ruleset");
    for command in ["plan both.toml", "apply both.toml"] {
        namespace.weirgate(command).says(
            2,
            &["K306: table inet weirgate: a table of this name exists"],
        );
    }
    assert_eq!(namespace.run("nft -s list ruleset"), before);
    namespace.weirgate("apply --adopt both.toml").says(0, &[]);
    assert!(!namespace.run("nft -s list ruleset").contains("chain mine"));
    assert_eq!(namespace.weirgate("plan both.toml").status, 0);
}

/// Gives `wan` a root that weirgate cannot recreate: it has a filter with an action.
fn lost_root(namespace: &Namespace) {
    namespace.run("tc qdisc add dev wan root handle 5: htb default 1");
    namespace.run("tc class add dev wan parent 5: classid 5:1 htb rate 1mbit");
    namespace.run(
        "tc filter add dev wan parent 5: protocol ip u32 match ip dport 80 0xffff \
         action mirred egress redirect dev far",
    );
}

#[test]
fn what_replacing_a_foreign_root_loses_is_said_before() {
    let namespace = Namespace::new();
    let bare = namespace.snapshot();
    lost_root(&namespace);
    let before = namespace.snapshot();
    let lost = [
        "weirgate: warning: K305: wan: this is lost: qdisc htb 5: and all below it",
        "neither `remove` nor a return after a failure",
        "`tc -d qdisc show dev wan`",
    ];
    let planned = namespace.weirgate("plan --adopt both.toml");
    planned.says(1, &lost);
    same(&before, &namespace.snapshot());
    let applied = namespace.weirgate("apply --adopt both.toml");
    applied.says(0, &lost);
    // The plan is carried out.
    let steps = planned.out.split_once('\n').map(|(_, steps)| steps);
    assert_eq!(steps, Some(applied.out.as_str()), "{planned:?}");
    // From here on nothing more is lost, and `remove` reports what it cannot restore.
    assert_eq!(
        namespace
            .weirgate("apply changed.toml")
            .err
            .matches("K305")
            .count(),
        0
    );
    namespace
        .weirgate("remove")
        .says(0, &["wan: not restored", "qdisc htb 5: and all below it"]);
    same(&bare, &namespace.snapshot());
}

#[test]
fn a_foreign_root_comes_back_without_a_warning() {
    let tbf = "tbf rate 1mbit burst 2000 limit 3000";
    let namespace = Namespace::new();
    let roots: [(&str, &[String]); 3] = [
        // Objects that the state can express.
        (
            "both.toml",
            &["qdisc add dev wan root handle 5: pfifo limit 77".into()],
        ),
        // Objects that the state cannot express are shown as the kernel lists them. An ingress
        // qdisc has this handle, so the policy must not need one.
        (
            "upstream.toml",
            &[format!("qdisc add dev wan root handle ffff: {tbf}")],
        ),
        (
            "both.toml",
            &[
                "qdisc add dev wan root handle 5: htb default 1".into(),
                "class add dev wan parent 5: classid 5:9 htb rate 1mbit".into(),
                "class add dev wan parent 5:9 classid 5:2 htb rate 1mbit prio 3".into(),
                "class add dev wan parent 5: classid 5:1 htb rate 1mbit".into(),
                format!("qdisc add dev wan parent 5:1 handle 6: {tbf}"),
                "qdisc add dev wan parent 5:2 handle 7: pfifo limit 9".into(),
                "filter add dev wan parent 5: prio 4 handle 2: protocol ip u32 divisor 16".into(),
                "filter add dev wan parent 5: prio 4 protocol ip u32 ht 2:3: match ip dport 80 \
             0xffff flowid 5:1"
                    .into(),
                "filter add dev wan parent 5: prio 4 protocol ip u32 ht 800:: match ip protocol 6 \
             0xff link 2: hashkey mask 0x00ff0000 at 12"
                    .into(),
            ],
        ),
    ];
    for (policy, commands) in roots {
        for command in commands {
            namespace.run(&format!("tc {command}"));
        }
        let before = namespace.snapshot();
        for command in [
            &format!("plan --adopt {policy}"),
            &format!("apply --adopt {policy}"),
            "remove",
        ] {
            let ended = namespace.weirgate(command);
            assert!(!ended.err.contains("warning"), "{ended:?}");
        }
        same(&before, &namespace.snapshot());
        namespace.run("tc qdisc del dev wan root");
    }
}

#[test]
fn a_foreign_root_that_is_refused_now_keeps_nothing_from_being_removed() {
    let namespace = Namespace::new();
    namespace.run("tc qdisc add dev wan root handle 5: htb default 1");
    namespace.run("tc class add dev wan parent 5: classid 5:1 htb rate 1mbit");
    namespace.run("ip link add gone type veth peer name other");
    namespace
        .run("tc filter add dev wan parent 5: protocol ip u32 match u32 0 0 indev gone flowid 5:1");
    namespace.weirgate("apply --adopt both.toml").says(0, &[]);
    namespace.run("ip link del gone");
    namespace.weirgate("remove").says(
        0,
        &["warning: wan: qdisc htb 5: is not restored", "refuses"],
    );
    let left = namespace.run("tc qdisc show dev wan");
    assert!(left.contains("noqueue"), "{left}");
    assert_eq!(namespace.weirgate("show").out, "nothing is applied\n");
}

#[test]
fn what_the_kernel_refuses_is_undone_and_forgotten() {
    let namespace = Namespace::new();
    // The name of the IFB is taken by an alternative name; only the attempt to create it reveals
    // this.
    namespace.run("ip link property add dev far altname ifb-wan");
    let before = namespace.snapshot();
    let parts = [
        "K310: create IFB device ifb-wan",
        "EEXIST",
        "line ",
        "The former state is back.",
    ];
    namespace.weirgate("apply both.toml").says(3, &parts);
    same(&before, &namespace.snapshot());
    assert_eq!(namespace.weirgate("show").out, "nothing is applied\n");

    // Over another policy: that one stays in force and known.
    assert_eq!(namespace.weirgate("apply upstream.toml").status, 0);
    let upstream = namespace.snapshot();
    namespace.weirgate("apply both.toml").says(3, &parts);
    same(&upstream, &namespace.snapshot());
    let shown = namespace.weirgate("show");
    assert_eq!(shown.status, 0, "{shown:?}");
    assert_eq!(
        namespace.weirgate("plan upstream.toml").out,
        "nothing to change\n"
    );
    assert_eq!(namespace.weirgate("remove").status, 0);
    same(&before, &namespace.snapshot());

    // A root that weirgate could not recreate is not lost by a first step.
    lost_root(&namespace);
    let before = namespace.snapshot();
    namespace
        .weirgate("apply --adopt both.toml")
        .says(3, &parts);
    same(&before, &namespace.snapshot());
}

#[test]
fn what_cannot_be_restored_is_said_and_can_be_removed() {
    let namespace = Namespace::new();
    let before = namespace.snapshot();
    lost_root(&namespace);
    // A table owned by a running nft: no other process can change it.
    let mut nft = namespace
        .command("nft")
        .arg("--interactive")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut typed = nft.stdin.take().unwrap();
    typed
        .write_all(b"add table inet weirgate { flags owner; }\nlist tables\n")
        .unwrap();
    let printed = BufReader::new(nft.stdout.take().unwrap());
    let listed = |line: &String| line.contains("table inet weirgate") && !line.contains("add");
    assert!(
        printed
            .lines()
            .map(Result::unwrap)
            .any(|line| listed(&line))
    );

    let ended = namespace.weirgate("apply --adopt both.toml");
    let parts = [
        "K310: ",
        "EPERM (another process owns the table, see `nft list tables`",
        "could not be restored",
        "K304: wan qdisc 5:",
        "htb",
    ];
    ended.says(4, &parts);
    assert_eq!(namespace.weirgate("show").status, 1);
    namespace
        .weirgate("remove")
        .says(3, &["The former state is back."]);

    drop(typed);
    nft.wait().unwrap();
    assert_eq!(namespace.weirgate("remove").status, 0);
    same(&before, &namespace.snapshot());
}

#[test]
fn without_the_capability_nothing_happens() {
    let namespace = Namespace::new();
    let before = namespace.snapshot();
    namespace
        .powerless("apply both.toml")
        .says(3, &["K310: ", "CAP_NET_ADMIN"]);
    same(&before, &namespace.snapshot());
    assert_eq!(namespace.weirgate("apply both.toml").status, 0);
    let settled = namespace.snapshot();
    for command in ["show", "plan both.toml"] {
        namespace.powerless(command).says(1, &["CAP_NET_ADMIN"]);
    }
    namespace
        .powerless("remove")
        .says(3, &["K310: ", "needs CAP_NET_ADMIN"]);
    // Root of a user namespace that does not own this network namespace.
    let elsewhere = ["--user", "--map-root-user", WEIRGATE];
    namespace
        .started_by("unshare", &elsewhere, "remove")
        .says(3, &["K310: ", "EPERM", "not in the user namespace"]);
    same(&settled, &namespace.snapshot());
    assert_eq!(namespace.weirgate("show").status, 0);
}

#[test]
fn who_may_not_is_told_what_is_needed() {
    let namespace = Namespace::new();
    // Root without the capabilities of root.
    let drop = [
        "--bounding-set=-net_admin,-dac_override",
        "--inh-caps=-net_admin,-dac_override",
        WEIRGATE,
    ];
    namespace.run("mkdir /run/weirgate");
    namespace.run("chmod 555 /run/weirgate");
    // The kernel's features are queried before the lock is taken.
    let apply = namespace.started_by("setpriv", &drop, "apply both.toml");
    apply.says(3, &["EPERM", "CAP_NET_ADMIN in this network namespace"]);
    let remove = namespace.started_by("setpriv", &drop, "remove");
    remove.says(3, &[".lock: Permission denied", "CAP_NET_ADMIN", "root"]);
}

#[test]
fn a_device_that_was_made_again_is_told_in_plain_words() {
    let namespace = Namespace::new();
    assert_eq!(namespace.weirgate("apply both.toml").status, 0);
    namespace.run("ip link del wan");
    namespace.run("ip link add wan type veth peer name far");
    let shown = namespace.weirgate("show");
    assert_eq!(shown.status, 1, "{shown:?}");
    let expected =
        "differs: wan offloads: expected tso off, gso off, gro off, gso_max_segs 1, found tso on, ";
    assert!(shown.out.contains(expected), "{}", shown.out);
    assert!(!shown.out.contains(['{', '}']), "{}", shown.out);
}

#[test]
fn two_do_not_change_the_kernel_at_once() {
    let namespace = Namespace::new();
    assert_eq!(namespace.weirgate("apply both.toml").status, 0);
    let settled = namespace.snapshot();
    let memory = namespace.run("find /run/weirgate -name state.json");
    let lock = memory.trim().replace("/state.json", ".lock");
    for command in ["apply changed.toml", "remove"] {
        let held = [&*lock, WEIRGATE];
        let ended = namespace.started_by("flock", &held, command);
        ended.says(1, &["another weirgate is changing this kernel"]);
    }
    namespace.run(&format!("rm {lock}"));
    same(&settled, &namespace.snapshot());
}

#[test]
fn a_damaged_memory_is_named() {
    let namespace = Namespace::new();
    assert_eq!(namespace.weirgate("apply both.toml").status, 0);
    let settled = namespace.snapshot();
    let memory = namespace.run("find /run/weirgate -name state.json");
    let memory = memory.trim();
    namespace.run(&format!("truncate -s 100 {memory}"));
    for command in ["show", "plan both.toml", "apply both.toml", "remove"] {
        let damaged = format!("{memory} is damaged (");
        namespace.weirgate(command).says(1, &[&damaged]);
    }
    same(&settled, &namespace.snapshot());
}

#[test]
fn a_lost_memory_leaves_nothing_behind() {
    for policy in ["both.toml", "changed.toml"] {
        let namespace = Namespace::new();
        // Weirgate must not guess a lost setting.
        namespace.run("ethtool -K wan gro off");
        let before = namespace.snapshot();
        assert_eq!(namespace.weirgate("apply both.toml").status, 0);
        namespace.run("rm -r /run/weirgate");
        let again = namespace.weirgate(&format!("apply {policy}"));
        assert_eq!(again.status, 0, "{again:?}");
        let switched = namespace.run("ethtool -k wan");
        namespace
            .weirgate("remove")
            .says(0, &["warning: wan: its offloads stay unchanged"]);
        assert_eq!(namespace.run("ethtool -k wan"), switched);
        namespace.offloads_on();
        same(&before, &namespace.snapshot());
    }
}

#[test]
fn a_device_that_is_renamed_is_told_and_can_be_freed() {
    let namespace = Namespace::new();
    let before = namespace.snapshot();
    assert_eq!(namespace.weirgate("apply both.toml").status, 0);
    let rename = |from: &str, to: &str| {
        namespace.run(&format!("ip link set {from} down"));
        namespace.run(&format!("ip link set {from} name {to}"));
        namespace.run(&format!("ip link set {to} up"));
    };
    rename("wan", "uplink");
    namespace
        .weirgate("remove")
        .says(0, &["the device wan no longer exists", "restore its name"]);
    rename("uplink", "wan");
    assert_eq!(namespace.weirgate("apply both.toml").status, 0);
    namespace
        .weirgate("remove")
        .says(0, &["warning: wan: its offloads stay unchanged"]);
    namespace.offloads_on();
    same(&before, &namespace.snapshot());
}

#[test]
fn each_network_namespace_has_a_memory_of_its_own() {
    let namespace = Namespace::new();
    assert_eq!(namespace.weirgate("apply both.toml").status, 0);
    let settled = namespace.snapshot();
    let elsewhere = ["--net", WEIRGATE];
    for command in ["show", "remove"] {
        let ended = namespace.started_by("unshare", &elsewhere, command);
        let output = ended.out.clone() + &ended.err;
        assert_eq!((ended.status, &*output), (0, "nothing is applied\n"));
    }
    same(&settled, &namespace.snapshot());
    assert_eq!(namespace.weirgate("show").status, 0);
}

#[test]
fn the_policies_of_these_tests_are_right() {
    for file in ["both.toml", "changed.toml", "upstream.toml"] {
        let text = fs::read_to_string(root().join("tests/cli").join(file)).unwrap();
        let (policy, problems) = weirgate_policy::parse(&text);
        assert!(
            policy.is_some() && problems.is_empty(),
            "{file}: {problems:?}"
        );
    }
}
