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
    let place = Namespace::new();
    let before = place.snapshot();
    let nothing = place.weirgate("show");
    assert_eq!(
        (nothing.status, nothing.out.as_str()),
        (0, "nothing is applied\n")
    );

    let planned = place.weirgate("plan both.toml");
    assert_eq!(planned.status, 1, "{planned:?}");
    same(&before, &place.snapshot());
    // Above its steps a plan has their number, behind them both set-ups if asked.
    let (count, steps) = planned.out.split_once('\n').unwrap();
    assert_eq!(count, format!("{} changes", steps.lines().count()));
    let all = place.weirgate("plan --all both.toml");
    for part in [
        "Set-up upstream on wan",
        "Set-up downstream on ifb-wan",
        "naive (IP)",
    ] {
        assert!(all.out.contains(part), "{part} in {}", all.out);
    }
    let document = place.weirgate("plan --json both.toml");
    let document: Value = serde_json::from_str(&document.out).unwrap();
    let texts = document["steps"].as_array().unwrap();
    assert_eq!(texts.len(), steps.lines().count());
    for (text, line) in texts.iter().zip(steps.lines()) {
        // Behind it stands what the step empties.
        assert!(line.starts_with(text["text"].as_str().unwrap()), "{line}");
    }
    let applied = place.weirgate("apply both.toml");
    assert_eq!(applied.status, 0, "{applied:?}");
    assert_eq!(applied.out, steps);
    crate::program::golden(&root().join("tests/cli/both.txt"), &applied.out);
    assert_ne!(place.snapshot(), before);

    let shown = place.weirgate("show");
    assert_eq!(shown.status, 0, "{shown:?}");
    for part in [
        "state 1 is in force since 20",
        "both.toml\nthe kernel has all of it, and nothing differs\n\nupstream on wan: shaped to ",
        "\n\ndownstream on ifb-wan: shaped to ",
        "  normal       332.8 kbit/s guaranteed, ",
    ] {
        assert!(shown.out.contains(part), "{part} in {}", shown.out);
    }
    let document = place.weirgate("show --json");
    let document: Value = serde_json::from_str(&document.out).unwrap();
    assert_eq!(document["state"], 1);
    assert_eq!(document["confirmed"], true);
    assert_eq!(document["links"][0]["directions"][1]["device"], "ifb-wan");
    assert_eq!(document["differences"], Value::Array(Vec::new()));
    let history = place.weirgate("history --json");
    let history: Value = serde_json::from_str(&history.out).unwrap();
    assert_eq!(history[0]["outcome"], "in force");
    let settled = place.snapshot();
    for command in ["plan both.toml", "apply both.toml"] {
        let again = place.weirgate(command);
        assert_eq!(
            (again.status, again.out.as_str()),
            (0, "nothing to change\n")
        );
    }
    same(&settled, &place.snapshot());

    let changed = place.weirgate("apply changed.toml");
    assert_eq!(changed.status, 0, "{changed:?}");
    assert!(
        changed
            .out
            .lines()
            .all(|line| line.contains(": change class ")),
        "{changed:?}"
    );
    assert_eq!(place.weirgate("show").status, 0);

    let removed = place.weirgate("remove");
    assert_eq!(removed.status, 0, "{removed:?}");
    same(&before, &place.snapshot());
    assert_eq!(place.weirgate("plan both.toml").out, planned.out);
    place.weirgate("remove").says(0, &["nothing is applied"]);

    let applied = place.weirgate("apply --json --confirm 60s both.toml");
    assert_eq!(applied.status, 0, "{applied:?}");
    let applied: Value = serde_json::from_str(&applied.out).unwrap();
    let history = place.weirgate("history --json");
    let history: Value = serde_json::from_str(&history.out).unwrap();
    let newest = history.as_array().unwrap().last().unwrap();
    assert_eq!(applied["steps"], Value::Array(texts.clone()));
    assert_eq!(applied["state"], newest["state"]);
    assert_eq!(applied["returns_s"], 60.0);
    place.weirgate("rollback").says(0, &["taken back"]);
}

#[test]
fn what_someone_else_changes_is_shown_and_mended() {
    let place = Namespace::new();
    let before = place.snapshot();
    assert_eq!(place.weirgate("apply both.toml").status, 0);
    let settled = place.snapshot();
    place.run("tc qdisc del dev wan root");
    place.run("nft delete table inet weirgate");
    let shown = place.weirgate("show");
    assert_eq!(shown.status, 1, "{shown:?}");
    for part in [
        "differs: wan: expected htb 1:",
        "differs: table inet weirgate",
    ] {
        assert!(shown.out.contains(part), "{part} in {}", shown.out);
    }
    assert_eq!(place.weirgate("apply both.toml").status, 0);
    same(&settled, &place.snapshot());
    // A device that has gone is no obstacle.
    place.run("ip link del ifb-wan");
    place.run("ip link del lan");
    assert_eq!(place.weirgate("show").status, 1);
    assert_eq!(place.weirgate("remove").status, 0);
    place.run("ip link add lan type veth peer name inside");
    let after = place.snapshot();
    let only = |text: &str, part: &str| text.matches(part).count();
    for part in ["htb", "weirgate", "ifb", "state.json"] {
        assert_eq!(only(&after, part), only(&before, part), "{part} in {after}");
    }
}

#[test]
fn devices_that_do_not_exist() {
    let place = Namespace::new();
    place.run("ip link del lan");
    for command in ["plan both.toml", "apply both.toml"] {
        let ended = place.weirgate(command);
        ended.says(2, &["K301: lan: there is no such network device"]);
        assert_eq!(ended.out, "");
    }
    place.run("ip link del wan");
    for command in ["plan both.toml", "apply both.toml"] {
        place
            .weirgate(command)
            .says(2, &["K301: lan: ", "K301: wan: "]);
    }
    assert_eq!(place.run("nft list ruleset"), "");
    assert!(!place.run("ip link show").contains("ifb"));
    assert_eq!(place.run("find /run -name state.json"), "");
}

#[test]
fn a_wrong_policy_changes_nothing() {
    let place = Namespace::new();
    let before = place.snapshot();
    for command in ["plan", "apply", "apply --adopt"] {
        let ended = place.weirgate(&format!("{command} check/shares-over.toml"));
        ended.says(2, &["error[P116]", "shares-over.toml:15:9"]);
    }
    same(&before, &place.snapshot());
}

#[test]
fn a_qdisc_that_this_kernel_lacks() {
    let place = Namespace::new();
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("policy.toml");
    let policy = fs::read_to_string(root().join("tests/cli/upstream.toml")).unwrap();
    for kind in ["fq_codel", "sfq", "cake"] {
        let mut tc = place.command("tc");
        tc.args(["qdisc", "add", "dev", "far", "root", kind]);
        let tried = Ended::of(&tc.output().unwrap());
        let lacks = tried.err.contains("qdisc kind is unknown");
        assert!(lacks || tried.status == 0, "{tried:?}");
        let queue = |queue: &str| format!("queue = \"{queue}\"");
        fs::write(&file, policy.replace(&queue("pfifo 50"), &queue(kind))).unwrap();
        let name = file.to_str().unwrap();
        // `check` is about the policy, for any kernel.
        place.weirgate(&format!("check {name}")).says(0, &[]);
        let planned = place.weirgate(&format!("plan {name}"));
        if lacks {
            let place = format!("{name}:20:9");
            let why = format!("has no {kind} qdisc");
            planned.says(2, &["error[C201]: Linux ", &why, &place]);
            assert_eq!(planned.out, "");
        } else {
            assert_eq!(planned.status, 1, "{planned:?}");
            place.run("tc qdisc del dev far root");
        }
    }
}

#[test]
fn a_foreign_root_is_left_alone() {
    let place = Namespace::new();
    place.run("tc qdisc add dev wan root handle 5: tbf rate 1mbit burst 2000 limit 3000");
    let before = place.snapshot();
    for command in ["plan both.toml", "apply both.toml"] {
        place
            .weirgate(command)
            .says(2, &["K302: wan: its root qdisc tbf 5:"]);
    }
    same(&before, &place.snapshot());
}

#[test]
fn a_foreign_table_of_our_name_is_left_alone() {
    let place = Namespace::new();
    place.run("nft add table inet weirgate");
    place.run("nft add chain inet weirgate mine");
    // Nothing in it: whose it is does not matter.
    assert_eq!(place.weirgate("plan both.toml").status, 1);
    place.run("nft add rule inet weirgate mine udp dport 53 counter");
    let before = place.run("nft -s list ruleset");
    for command in ["plan both.toml", "apply both.toml"] {
        place.weirgate(command).says(
            2,
            &["K306: table inet weirgate: a table of this name is there"],
        );
    }
    assert_eq!(place.run("nft -s list ruleset"), before);
    place.weirgate("apply --adopt both.toml").says(0, &[]);
    assert!(!place.run("nft -s list ruleset").contains("chain mine"));
    assert_eq!(place.weirgate("plan both.toml").status, 0);
}

/// Gives `wan` a root that weirgate cannot make again: it has a filter with an action.
fn lost_root(place: &Namespace) {
    place.run("tc qdisc add dev wan root handle 5: htb default 1");
    place.run("tc class add dev wan parent 5: classid 5:1 htb rate 1mbit");
    place.run(
        "tc filter add dev wan parent 5: protocol ip u32 match ip dport 80 0xffff \
         action mirred egress redirect dev far",
    );
}

#[test]
fn what_replacing_a_foreign_root_loses_is_said_before() {
    let place = Namespace::new();
    let bare = place.snapshot();
    lost_root(&place);
    let before = place.snapshot();
    let lost = [
        "weirgate: warning: K305: wan: this is lost: qdisc htb 5: and all below it",
        "neither `remove` nor going back after a failure",
        "`tc -d qdisc show dev wan`",
    ];
    let planned = place.weirgate("plan --adopt both.toml");
    planned.says(1, &lost);
    same(&before, &place.snapshot());
    let applied = place.weirgate("apply --adopt both.toml");
    applied.says(0, &lost);
    // What is planned is done.
    let steps = planned.out.split_once('\n').map(|(_, steps)| steps);
    assert_eq!(steps, Some(applied.out.as_str()), "{planned:?}");
    // From now on nothing more is lost, and `remove` says what it cannot do.
    assert_eq!(
        place
            .weirgate("apply changed.toml")
            .err
            .matches("K305")
            .count(),
        0
    );
    place
        .weirgate("remove")
        .says(0, &["wan: not restored", "qdisc htb 5: and all below it"]);
    same(&bare, &place.snapshot());
}

#[test]
fn a_foreign_root_comes_back_without_a_warning() {
    let tbf = "tbf rate 1mbit burst 2000 limit 3000";
    let place = Namespace::new();
    let roots: [(&str, &[String]); 3] = [
        // What the state has words for.
        (
            "both.toml",
            &["qdisc add dev wan root handle 5: pfifo limit 77".into()],
        ),
        // What it has none for: as the kernel lists it. A place for arriving packets has
        // this handle, so the policy must need none.
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
            place.run(&format!("tc {command}"));
        }
        let before = place.snapshot();
        for command in [
            &format!("plan --adopt {policy}"),
            &format!("apply --adopt {policy}"),
            "remove",
        ] {
            let ended = place.weirgate(command);
            assert!(!ended.err.contains("warning"), "{ended:?}");
        }
        same(&before, &place.snapshot());
        place.run("tc qdisc del dev wan root");
    }
}

#[test]
fn a_foreign_root_that_is_refused_now_keeps_nothing_from_being_removed() {
    let place = Namespace::new();
    place.run("tc qdisc add dev wan root handle 5: htb default 1");
    place.run("tc class add dev wan parent 5: classid 5:1 htb rate 1mbit");
    place.run("ip link add gone type veth peer name other");
    place
        .run("tc filter add dev wan parent 5: protocol ip u32 match u32 0 0 indev gone flowid 5:1");
    place.weirgate("apply --adopt both.toml").says(0, &[]);
    place.run("ip link del gone");
    place.weirgate("remove").says(
        0,
        &["warning: wan: qdisc htb 5: is not made again", "refuses"],
    );
    let left = place.run("tc qdisc show dev wan");
    assert!(left.contains("noqueue"), "{left}");
    assert_eq!(place.weirgate("show").out, "nothing is applied\n");
}

#[test]
fn what_the_kernel_refuses_is_undone_and_forgotten() {
    let place = Namespace::new();
    // The name of the IFB is taken by an alternative name, which only the
    // attempt to create it shows.
    place.run("ip link property add dev far altname ifb-wan");
    let before = place.snapshot();
    let parts = [
        "K310: create IFB device ifb-wan",
        "EEXIST",
        "line ",
        "The former state is back.",
    ];
    place.weirgate("apply both.toml").says(3, &parts);
    same(&before, &place.snapshot());
    assert_eq!(place.weirgate("show").out, "nothing is applied\n");

    // Over another policy: that one is still there and known.
    assert_eq!(place.weirgate("apply upstream.toml").status, 0);
    let upstream = place.snapshot();
    place.weirgate("apply both.toml").says(3, &parts);
    same(&upstream, &place.snapshot());
    let shown = place.weirgate("show");
    assert_eq!(shown.status, 0, "{shown:?}");
    assert_eq!(
        place.weirgate("plan upstream.toml").out,
        "nothing to change\n"
    );
    assert_eq!(place.weirgate("remove").status, 0);
    same(&before, &place.snapshot());

    // A root that weirgate could not make again is not lost by a first step.
    lost_root(&place);
    let before = place.snapshot();
    place.weirgate("apply --adopt both.toml").says(3, &parts);
    same(&before, &place.snapshot());
}

#[test]
fn what_cannot_be_restored_is_said_and_can_be_removed() {
    let place = Namespace::new();
    let before = place.snapshot();
    lost_root(&place);
    // A table that belongs to a running nft: nobody else can change it.
    let mut nft = place
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

    let ended = place.weirgate("apply --adopt both.toml");
    let parts = [
        "K310: ",
        "EPERM (another process owns the table, see `nft list tables`",
        "could not be restored",
        "K304: wan qdisc 5:",
        "htb",
    ];
    ended.says(4, &parts);
    assert_eq!(place.weirgate("show").status, 1);
    place
        .weirgate("remove")
        .says(3, &["The former state is back."]);

    drop(typed);
    nft.wait().unwrap();
    assert_eq!(place.weirgate("remove").status, 0);
    same(&before, &place.snapshot());
}

#[test]
fn without_the_capability_nothing_happens() {
    let place = Namespace::new();
    let before = place.snapshot();
    place
        .powerless("apply both.toml")
        .says(3, &["K310: ", "CAP_NET_ADMIN"]);
    same(&before, &place.snapshot());
    assert_eq!(place.weirgate("apply both.toml").status, 0);
    let settled = place.snapshot();
    for command in ["show", "plan both.toml"] {
        place.powerless(command).says(1, &["CAP_NET_ADMIN"]);
    }
    place
        .powerless("remove")
        .says(3, &["K310: ", "needs CAP_NET_ADMIN"]);
    // Root of a user namespace to which this network namespace does not belong.
    let elsewhere = ["--user", "--map-root-user", WEIRGATE];
    place
        .started_by("unshare", &elsewhere, "remove")
        .says(3, &["K310: ", "EPERM", "not in the user namespace"]);
    same(&settled, &place.snapshot());
    assert_eq!(place.weirgate("show").status, 0);
}

#[test]
fn who_may_not_is_told_what_is_needed() {
    let place = Namespace::new();
    // Root, to whom nobody gave the rights of root.
    let drop = [
        "--bounding-set=-net_admin,-dac_override",
        "--inh-caps=-net_admin,-dac_override",
        WEIRGATE,
    ];
    place.run("mkdir /run/weirgate");
    place.run("chmod 555 /run/weirgate");
    // What the kernel offers is asked before the lock is taken.
    let apply = place.started_by("setpriv", &drop, "apply both.toml");
    apply.says(3, &["EPERM", "CAP_NET_ADMIN in this network namespace"]);
    let remove = place.started_by("setpriv", &drop, "remove");
    remove.says(3, &[".lock: Permission denied", "CAP_NET_ADMIN", "root"]);
}

#[test]
fn a_device_that_was_made_again_is_told_in_plain_words() {
    let place = Namespace::new();
    assert_eq!(place.weirgate("apply both.toml").status, 0);
    place.run("ip link del wan");
    place.run("ip link add wan type veth peer name far");
    let shown = place.weirgate("show");
    assert_eq!(shown.status, 1, "{shown:?}");
    let told =
        "differs: wan offloads: expected tso off, gso off, gro off, gso_max_segs 1, found tso on, ";
    assert!(shown.out.contains(told), "{}", shown.out);
    assert!(!shown.out.contains(['{', '}']), "{}", shown.out);
}

#[test]
fn two_do_not_change_the_kernel_at_once() {
    let place = Namespace::new();
    assert_eq!(place.weirgate("apply both.toml").status, 0);
    let settled = place.snapshot();
    let memory = place.run("find /run/weirgate -name state.json");
    let lock = memory.trim().replace("/state.json", ".lock");
    for command in ["apply changed.toml", "remove"] {
        let held = [&*lock, WEIRGATE];
        let ended = place.started_by("flock", &held, command);
        ended.says(1, &["another weirgate is changing this kernel"]);
    }
    place.run(&format!("rm {lock}"));
    same(&settled, &place.snapshot());
}

#[test]
fn a_damaged_memory_is_named() {
    let place = Namespace::new();
    assert_eq!(place.weirgate("apply both.toml").status, 0);
    let settled = place.snapshot();
    let memory = place.run("find /run/weirgate -name state.json");
    let memory = memory.trim();
    place.run(&format!("truncate -s 100 {memory}"));
    for command in ["show", "plan both.toml", "apply both.toml", "remove"] {
        let damaged = format!("{memory} is damaged (");
        place.weirgate(command).says(1, &[&damaged]);
    }
    same(&settled, &place.snapshot());
}

#[test]
fn a_lost_memory_leaves_nothing_behind() {
    for policy in ["both.toml", "changed.toml"] {
        let place = Namespace::new();
        // What weirgate cannot know any more it must not guess.
        place.run("ethtool -K wan gro off");
        let before = place.snapshot();
        assert_eq!(place.weirgate("apply both.toml").status, 0);
        place.run("rm -r /run/weirgate");
        let again = place.weirgate(&format!("apply {policy}"));
        assert_eq!(again.status, 0, "{again:?}");
        let switched = place.run("ethtool -k wan");
        place
            .weirgate("remove")
            .says(0, &["warning: wan: its offloads stay as they are"]);
        assert_eq!(place.run("ethtool -k wan"), switched);
        place.offloads_on();
        same(&before, &place.snapshot());
    }
}

#[test]
fn a_device_that_is_renamed_is_told_and_can_be_freed() {
    let place = Namespace::new();
    let before = place.snapshot();
    assert_eq!(place.weirgate("apply both.toml").status, 0);
    let rename = |from: &str, to: &str| {
        place.run(&format!("ip link set {from} down"));
        place.run(&format!("ip link set {from} name {to}"));
        place.run(&format!("ip link set {to} up"));
    };
    rename("wan", "uplink");
    place
        .weirgate("remove")
        .says(0, &["there is no device wan any more", "another name"]);
    rename("uplink", "wan");
    assert_eq!(place.weirgate("apply both.toml").status, 0);
    place
        .weirgate("remove")
        .says(0, &["warning: wan: its offloads stay as they are"]);
    place.offloads_on();
    same(&before, &place.snapshot());
}

#[test]
fn each_network_namespace_has_a_memory_of_its_own() {
    let place = Namespace::new();
    assert_eq!(place.weirgate("apply both.toml").status, 0);
    let settled = place.snapshot();
    let elsewhere = ["--net", WEIRGATE];
    for command in ["show", "remove"] {
        let ended = place.started_by("unshare", &elsewhere, command);
        let said = ended.out.clone() + &ended.err;
        assert_eq!((ended.status, &*said), (0, "nothing is applied\n"));
    }
    same(&settled, &place.snapshot());
    assert_eq!(place.weirgate("show").status, 0);
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
