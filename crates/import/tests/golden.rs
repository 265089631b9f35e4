// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the policies made from the files in `tests/import` with golden texts.

use weirgate_import::sqm;
use weirgate_policy::Direction;
use weirgate_state::Capabilities;

#[test]
fn a_file_of_variables_becomes_the_policy_beside_it() {
    let text = weirgate_testing::read("tests/import/eth1.iface.conf");
    let imported = sqm::import(&text, Some("eth1")).expect("a configuration");
    let (policy, problems) = weirgate_policy::parse(&imported.policy);
    assert!(policy.is_some(), "{problems:?}\n{}", imported.policy);
    weirgate_testing::golden("tests/import/eth1.iface.conf.toml", &imported.policy);
}

#[test]
fn an_imported_margin_draws_no_warning() {
    let text = "UPLINK=9400\nDOWNLINK=47000\nQDISC=cake\nSCRIPT=piece_of_cake.qos\n";
    let imported = sqm::import(text, Some("eth1")).expect("a configuration");
    let policy = weirgate_policy::parse(&imported.policy)
        .0
        .expect("a policy");
    let (_, problems) = weirgate_compile::compile(&policy, &Capabilities::all());
    let codes: Vec<&str> = problems.iter().map(|problem| problem.code).collect();
    assert!(!codes.contains(&"C209"), "{codes:?}");
    // The gate's rate is sqm's, to a few kbit/s.
    for (direction, shaped) in [(Direction::Up, 9_400_000), (Direction::Down, 47_000_000)] {
        let gate = policy.gate(direction).expect("a rate");
        let over = gate.as_bits_per_second().checked_sub(shaped);
        assert!(over.is_some_and(|over| over < 2_000), "{gate}");
    }
}

#[test]
fn both_forms_of_one_configuration_are_one_policy() {
    let uci = "config queue\n option enabled 1\n option interface eth1\n option upload 9400\n \
               option download 47000\n option qdisc cake\n option script layer_cake.qos\n \
               option linklayer atm\n option overhead 44\n";
    let shell = "UPLINK=9400\nDOWNLINK=47000\nQDISC=cake\nSCRIPT=layer_cake.qos\n\
                 LINKLAYER=atm\nOVERHEAD=44\n";
    let one = sqm::import(uci, None).expect("UCI");
    let other = sqm::import(shell, Some("eth1")).expect("variables");
    assert_eq!(one, other);
}

#[test]
fn what_a_shell_would_compute_is_refused_with_its_line() {
    for (text, line, part) in [
        (
            "UPLINK=1000\nDOWNLINK=$((8 * 1000))\n",
            2,
            "DOWNLINK is computed",
        ),
        (
            "UPLINK=1000\n. /etc/sqm/default.conf\n",
            2,
            "is no assignment",
        ),
        ("UPLINK=1000\nSCRIPT='simple.qos\n", 2, "a quote has no end"),
        ("UPLINK=fast\n", 1, "UPLINK is `fast`"),
        ("DOWNLINK=1000\n", 1, "UPLINK in an .iface.conf"),
        ("# nothing\nUPLINK=\n", 1, "no upload rate"),
    ] {
        let errors = sqm::import(text, Some("eth0")).expect_err(text);
        let error = &errors[0];
        assert_eq!(error.line_column(text).0, line, "{text}");
        let said = format!("{}; {}", error.message, error.hint);
        assert!(said.contains(part), "{said}");
    }
    let nameless = sqm::import("UPLINK=1000\n", None).expect_err("no device");
    assert!(nameless[0].message.contains("interface"), "{nameless:?}");
}

#[test]
fn a_device_that_is_switched_off_is_reported() {
    let imported = sqm::import("ENABLED=0\nUPLINK=1000\n", Some("eth0")).expect("a queue");
    let left = imported.left_out.join("\n");
    assert!(
        left.contains("line 1: option enabled, which is off"),
        "{left}"
    );
}
