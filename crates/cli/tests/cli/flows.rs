// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `flows`, `rules` and `ruleset`: the traffic under an applied policy.

use crate::namespace::Namespace;
use serde_json::Value;

/// Creates a namespace in which the router's own packets to 10.9.0.2 leave by `wan`.
fn namespace() -> Namespace {
    let namespace = Namespace::new();
    namespace.run("ip addr add 10.9.0.1/24 dev wan");
    namespace.run("ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 nud permanent dev wan");
    namespace.run("sysctl -qw net.netfilter.nf_conntrack_acct=1");
    expect(&namespace, "apply flows.toml", 0, &[]);
    namespace
}

/// Asserts that a command ends with this status and prints these parts on either stream.
#[track_caller]
fn expect(namespace: &Namespace, line: &str, status: i32, parts: &[&str]) {
    let ended = namespace.weirgate(line);
    assert_eq!(ended.status, status, "{line}: {ended:?}");
    let all = format!("{}{}", ended.out, ended.err);
    for part in parts {
        assert!(all.contains(part), "`{part}` in {all}");
    }
}

/// Sends a datagram from the router itself.
fn send(namespace: &Namespace, port: u16) {
    let mut command = namespace.command("bash");
    let line = format!("printf 0123456789 > /dev/udp/10.9.0.2/{port}");
    assert!(command.args(["-c", &line]).status().unwrap().success());
}

fn json(namespace: &Namespace, line: &str) -> Value {
    let ended = namespace.weirgate(line);
    assert_eq!(ended.status, 0, "{ended:?}");
    serde_json::from_str(&ended.out).unwrap()
}

/// Returns the upstream class of the flow to a port, and the rule that chose it.
fn flow(namespace: &Namespace, port: u16) -> (String, String) {
    let flows = json(namespace, "flows --interval 10ms --json");
    let found = flows
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["remote_port"] == port);
    let up = &found.unwrap_or_else(|| panic!("{flows:#}"))["up"];
    assert_eq!(
        (&up["packets"], &up["bytes"]),
        (&Value::from(1), &Value::from(38))
    );
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&up["class"]), text(&up["rule"]))
}

/// Returns the packets that a rule counted.
fn packets(namespace: &Namespace, rule: &str) -> u64 {
    let rules = json(namespace, "rules --json");
    let found = rules
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == rule);
    found.unwrap_or_else(|| panic!("{rules:#}"))["packets"]
        .as_u64()
        .unwrap()
}

#[test]
fn a_flow_has_its_class_its_rule_and_its_bytes() {
    let namespace = namespace();
    send(&namespace, 53);
    send(&namespace, 4000);
    let (class, rule) = flow(&namespace, 53);
    assert_eq!(class, "urgent");
    assert!(rule.starts_with("line 24: "), "{rule}");
    assert_eq!(flow(&namespace, 4000).0, "rest");
    assert_eq!(packets(&namespace, "up_names"), 1);
    expect(
        &namespace,
        "flows --interval 10ms --class urgent",
        0,
        &["10.9.0.2:53"],
    );
    expect(&namespace, "rules", 0, &["up_names", "switched off"]);
}

#[test]
fn a_rule_set_is_switched_and_everything_else_stays() {
    let namespace = namespace();
    send(&namespace, 53);
    send(&namespace, 27015);
    assert_eq!(flow(&namespace, 27015).0, "rest");
    expect(&namespace, "ruleset", 0, &["night_games off"]);
    expect(
        &namespace,
        "ruleset night-games on",
        0,
        &["up_set_night_games switched on"],
    );
    expect(&namespace, "ruleset", 0, &["night_games on"]);
    assert_eq!(flow(&namespace, 27015).0, "urgent");
    assert_eq!(packets(&namespace, "up_names"), 1, "counters go on");
    assert_eq!(namespace.weirgate("show").status, 0);
    expect(
        &namespace,
        "ruleset night-games on",
        0,
        &["nothing to change"],
    );
    expect(&namespace, "rollback", 0, &[]);
    expect(&namespace, "ruleset", 0, &["night_games off"]);
    expect(
        &namespace,
        "ruleset days on",
        2,
        &["no rule set `days`", "night_games"],
    );
    expect(&namespace, "ruleset night-games", 2, &[]);
    expect(&namespace, "ruleset night-games maybe", 2, &["on", "off"]);
}

/// The minute of `--confirm` is when a policy is tried.
#[test]
fn a_policy_that_waits_for_confirmation_is_shown() {
    let namespace = Namespace::new();
    expect(&namespace, "apply --confirm 60s flows.toml", 0, &[]);
    expect(&namespace, "flows --interval 10ms --conditioners", 0, &[]);
    expect(&namespace, "top --once", 0, &["urgent"]);
    expect(&namespace, "rollback", 0, &[]);
    let line = "flows --interval 10ms --conditioners";
    expect(&namespace, line, 2, &["nothing is applied"]);
}

#[test]
fn without_an_applied_policy_there_is_nothing_to_tell() {
    let namespace = Namespace::new();
    expect(
        &namespace,
        "flows --interval 10ms",
        2,
        &["nothing is applied"],
    );
    for option in ["policed", "held"] {
        let line = format!("flows --interval 10ms --{option}");
        expect(&namespace, &line, 2, &["nothing is applied"]);
    }
    expect(&namespace, "rules", 0, &["nothing is applied"]);
    expect(&namespace, "ruleset", 0, &["nothing is applied"]);
    assert_ne!(namespace.weirgate("ruleset games on").status, 0);
}

#[test]
fn the_table_of_connections_is_told_in_numbers() {
    let namespace = namespace();
    for port in [53, 53, 4000] {
        send(&namespace, port);
    }
    let summary = json(&namespace, "flows --interval 10ms --summary --json");
    // Each datagram had another port, and none got an answer.
    for (field, number) in [("entries", 3), ("unreplied", 3), ("marked", 2)] {
        assert_eq!(summary[field], number, "{field}: {summary:#}");
    }
    assert!(summary["limit"].as_u64() > Some(3), "{summary:#}");
    let ports: Vec<(u64, u64, u64)> = summary["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| {
            let number = |field: &str| port[field].as_u64().unwrap();
            (number("port"), number("entries"), number("marked"))
        })
        .collect();
    assert_eq!(ports, [(53, 2, 2), (4000, 1, 0)], "{summary:#}");
    assert_eq!(summary["classes"]["urgent"]["up"], 2, "{summary:#}");
    assert_eq!(summary["classes"]["rest"]["up"], 1, "{summary:#}");
    let text = namespace.weirgate("flows --interval 10ms --summary --most 1");
    text.says(0, &["1 more port"]);
    for part in [
        "3 connections of at most",
        "3 unreplied, 2 marked",
        "urgent",
    ] {
        assert!(text.out.contains(part), "{part}: {text:?}");
    }
}
