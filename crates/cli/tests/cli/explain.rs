// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate explain`: packets as text, as a file and as a capture, and the options that change the
//! answer.

use crate::program::{Ended, weirgate};
use std::fs;
use tempfile::TempDir;

const POLICY: &str = r#"version = 1
link = { device = "wan", lan = "lan", up = "10mbit", down = "50mbit", inbound = "lan", layer = "raw" }
[[class]]
name = "fast"
share = "40%"
[[class]]
name = "rest"
share = "40%"
default = true
[schedule.night]
hours = ["22:00-06:00"]
[[ruleset]]
name = "games"
[[ruleset.rule]]
class = "fast"
protocol = "udp"
[[rule]]
class = "fast"
protocol = "tcp"
during = "night"
"#;

const UDP: &str = "udp 192.168.0.2:9 > 203.0.113.6:9";
const TCP: &str = "tcp 192.168.0.2:9 > 203.0.113.6:9";

fn explain(folder: &TempDir, arguments: &[&str]) -> Ended {
    fs::write(folder.path().join("policy.toml"), POLICY).unwrap();
    let words = [&["explain", "policy.toml"], arguments].concat();
    weirgate(folder.path(), &words)
}

fn class(arguments: &[&str]) -> String {
    let folder = TempDir::new().unwrap();
    let ended = explain(&folder, &[arguments, &["--json"]].concat());
    assert_eq!(ended.status, 0, "{ended:?}");
    let document: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    let name = &document["packets"][0]["class"];
    name.as_str()
        .unwrap_or_else(|| panic!("{document:#}"))
        .to_owned()
}

/// A packet to the router itself leaves by no LAN device.
#[test]
fn what_is_for_the_router_itself_is_reported() {
    let folder = TempDir::new().unwrap();
    let answer = |policy: &str, packet: &str| {
        let ended = weirgate(folder.path(), &["explain", policy, packet]);
        assert_eq!(ended.status, 0, "{ended:?}");
        // Long lines are wrapped.
        let words: Vec<&str> = ended.out.split_whitespace().collect();
        words.join(" ")
    };
    fs::write(folder.path().join("lan.toml"), POLICY).unwrap();
    let ifb = POLICY.replace("inbound = \"lan\"", "inbound = \"ifb\"");
    fs::write(folder.path().join("ifb.toml"), ifb).unwrap();
    let down = "down udp 203.0.113.6:9 > 198.51.100.7:51820";
    let through = answer("lan.toml", &format!("{down} => fast"));
    assert!(through.contains("queue on lan"), "{through}");
    let own = answer("lan.toml", &format!("{down} own => -"));
    let parts = [
        "class none: for the router itself",
        "-> to the router itself",
    ];
    assert!(parts.iter().all(|part| own.contains(part)), "{own}");
    assert!(!own.contains("queue on"), "{own}");
    // On an IFB, it is shaped like all arriving packets.
    let own = answer("ifb.toml", &format!("{down} own => fast"));
    let parts = ["queue on ifb-wan", "-> to the router itself"];
    assert!(parts.iter().all(|part| own.contains(part)), "{own}");
}

#[test]
fn a_rule_set_is_taken_for_switched() {
    assert_eq!(class(&[UDP]), "fast");
    assert_eq!(class(&[UDP, "--set", "games=off"]), "rest");
    let folder = TempDir::new().unwrap();
    explain(&folder, &[UDP, "--set", "games=perhaps"]).says(2, &["say `on` or `off`"]);
    explain(&folder, &[UDP, "--set", "chess=off"]).says(2, &["games"]);
}

#[test]
fn a_schedule_is_asked_at_the_time_that_is_given() {
    assert_eq!(class(&[TCP, "--time", "sat 23:00"]), "fast");
    assert_eq!(class(&[TCP, "--time", "2026-03-01T12:00"]), "rest");
    let folder = TempDir::new().unwrap();
    explain(&folder, &[TCP, "--time", "noon"]).says(2, &["--time noon"]);
}

#[test]
fn all_shows_what_rules_failed_at() {
    let folder = TempDir::new().unwrap();
    let short = explain(&folder, &[TCP, "--time", "sat 12:00"]);
    let long = explain(&folder, &[TCP, "--time", "sat 12:00", "--all"]);
    assert_eq!((short.status, long.status), (0, 0));
    assert!(
        long.out.lines().count() > short.out.lines().count(),
        "{long:?}"
    );
}

/// A service's name stands for its packets. Each rule has one line, and the answer tells in words
/// why a rule did not match.
#[test]
fn a_service_is_explained_by_its_name() {
    let folder = TempDir::new().unwrap();
    let rules = "[[rule]]\nclass = \"fast\"\nservice = [\"dns\", \"ssh\"]\n";
    let policy = POLICY.split("[schedule").next().unwrap().to_owned() + rules;
    fs::write(folder.path().join("ssh.toml"), policy).unwrap();
    let ended = weirgate(folder.path(), &["explain", "ssh.toml", "ssh"]);
    assert_eq!(ended.status, 0, "{ended:?}");
    let words: Vec<&str> = ended.out.split_whitespace().collect();
    let text = words.join(" ");
    let parts = [
        "dscp AF21 len 80 # ssh up at 0s: class fast",
        "decides ssh.toml:10: rule for class fast: class fast",
        "# ssh, its port alone up at 0s: class rest",
        "not ssh.toml:10: rule for class fast: ssh: protocol and destination port match; DSCP is \
         CS0, wanted 4, AF21 or EF",
        "`ssh` takes only packets that bear its marks; `ssh-any` takes all of its port",
    ];
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Each policy rule has one line, even if it needs several kernel rules.
    let packets = ended.out.matches(" at 0s: class").count();
    let lines = ended.out.matches("rule for class fast").count();
    assert_eq!(lines, packets, "{}", ended.out);
    let wrong = weirgate(folder.path(), &["explain", "ssh.toml", "shs"]);
    wrong.says(2, &["no service `shs`", "did you mean `ssh`?"]);
}

/// The packets of a TCP service carry data: `[ack]` does not take them.
#[test]
fn packets_of_a_service_are_no_acknowledgements() {
    let policies = crate::program::root().join("policies");
    let classes = |policy: &str, service: &str| -> Vec<String> {
        let ended = weirgate(&policies, &["explain", policy, service, "--json"]);
        assert_eq!(ended.status, 0, "{policy}: {ended:?}");
        let document: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
        let packets = document["packets"].as_array().unwrap().iter();
        packets.map(|one| one["class"].to_string()).collect()
    };
    let mut tried = 0;
    for entry in fs::read_dir(&policies).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let is_policy = path.extension().is_some_and(|end| end == "toml");
        if !is_policy || !fs::read_to_string(&path).unwrap().contains("\n[ack]") {
            continue;
        }
        tried += 1;
        for service in ["web", "ssh"] {
            let found = classes(&name, service);
            assert!(
                !found.contains(&"\"ack\"".to_owned()),
                "{name} {service}: {found:?}"
            );
        }
    }
    assert!(tried >= 4, "{tried}");
    assert_eq!(classes("default.toml", "ssh"), ["\"interactive\""; 6]);
    // An acknowledgement stays one.
    assert_eq!(classes("default.toml", "tcp-ack"), ["\"ack\""; 2]);
}

/// The answer of the page is the program's. For a rule of several services, it names the one that
/// the user named.
#[test]
fn the_page_shows_what_the_program_says() {
    let root = crate::program::root();
    let page = fs::read_to_string(root.join("docs/explain.md")).unwrap();
    let block = page
        .split("```\n")
        .find(|block| block.starts_with("up tcp"))
        .unwrap();
    let ended = weirgate(&root.join("policies"), &["explain", "home.toml", "ssh"]);
    assert_eq!(ended.status, 0, "{ended:?}");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = words(&ended.out);
    for line in block.lines() {
        assert!(said.contains(&words(line)), "{line}: {said}");
    }
    let expected = "ssh: protocol and destination port match; DSCP is CS0, wanted";
    assert!(said.contains(expected), "{said}");
    assert!(!said.contains("3074"), "{said}");
}

/// Every shipped service is listed, with a description.
#[test]
fn services_are_listed() {
    let folder = TempDir::new().unwrap();
    let listed = weirgate(folder.path(), &["services"]);
    assert_eq!(listed.status, 0, "{listed:?}");
    let json = weirgate(folder.path(), &["services", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    for (name, about) in json.as_object().unwrap() {
        assert!(listed.out.contains(&format!("\n{name} ")) || listed.out.starts_with(name));
        assert!(!about.as_str().unwrap().is_empty(), "{name}");
    }
    assert!(json["voice"].is_string());
}

#[test]
fn a_first_word_that_is_no_file_is_a_packet() {
    let folder = TempDir::new().unwrap();
    let ended = weirgate(folder.path(), &["explain", TCP]);
    ended.says(
        2,
        &["is not a file, and no policy is installed as /etc/weirgate/site.toml"],
    );
}

#[test]
fn every_service_has_packets_that_it_takes() {
    let folder = TempDir::new().unwrap();
    let (known, _) = weirgate_policy::parse(POLICY);
    for (name, alternatives) in known.unwrap().services {
        if alternatives
            .iter()
            .any(|conditions| conditions.find::<weirgate_policy::Payloads>().is_some())
        {
            continue;
        }
        let rule = format!("[[rule]]\nclass = \"fast\"\nservice = \"{name}\"\n");
        let policy = POLICY.split("[schedule").next().unwrap().to_owned() + &rule;
        fs::write(folder.path().join("one.toml"), policy).unwrap();
        let ended = weirgate(folder.path(), &["explain", "one.toml", &name, "--json"]);
        assert_eq!(ended.status, 0, "{name}: {ended:?}");
        let document: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
        for packet in document["packets"].as_array().unwrap() {
            let text = packet["packet"].as_str().unwrap();
            if text.ends_with(&format!("# {name}")) {
                assert_eq!(packet["class"], "fast", "{text}");
            }
        }
    }
}

#[test]
fn a_file_of_packets_is_a_test_of_a_policy() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("packets");
    fs::write(&file, format!("# ours\n{UDP} => fast\n")).unwrap();
    assert_eq!(explain(&folder, &["--from", "packets"]).status, 0);
    fs::write(&file, format!("{UDP} => rest\n")).unwrap();
    assert_eq!(explain(&folder, &["--from", "packets"]).status, 1);
    fs::write(&file, format!("{UDP}\nudp nonsense\n")).unwrap();
    explain(&folder, &["--from", "packets"]).says(2, &["packets", "2", "nonsense"]);
}

#[test]
fn a_capture_is_read() {
    let folder = TempDir::new().unwrap();
    let line = weirgate_explain::parse_line(UDP).unwrap().unwrap();
    // The capture has one packet without a link layer (LINKTYPE_RAW, 101).
    let mut file = 0xa1b2_c3d4_u32.to_be_bytes().to_vec();
    file.extend([
        0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 101,
    ]);
    file.extend([0; 8]);
    let length = u32::try_from(line.packet.bytes.len()).unwrap();
    file.extend(length.to_be_bytes());
    file.extend(length.to_be_bytes());
    file.extend(&line.packet.bytes);
    fs::write(folder.path().join("a.pcap"), file).unwrap();
    let ended = explain(&folder, &["--from", "a.pcap", "--json"]);
    assert_eq!(ended.status, 0, "{ended:?}");
    let document: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(document["packets"][0]["class"], "fast", "{document:#}");
}

#[test]
fn a_control_group_is_told_and_stands_for_those_below_it() {
    let class = |more: &str, policy: &str| {
        let path = crate::program::root().join("tests/cli").join(policy);
        let folder = TempDir::new().unwrap();
        let packet = format!("udp 10.9.0.1:9 > 10.9.0.2:9 own {more}");
        let words = ["explain", path.to_str().unwrap(), &packet, "--json"];
        let ended = weirgate(folder.path(), &words);
        assert_eq!(ended.status, 0, "{ended:?}");
        let document: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
        let assumed = document.to_string().contains("(write `cgroup`)");
        let name = document["packets"][0]["class"].as_str().unwrap();
        (name.to_owned(), assumed)
    };
    let expected = |name: &str| (name.to_owned(), false);
    let outer = "control-groups.toml";
    assert_eq!(class("cgroup weirgate-test/a", outer), expected("good"));
    assert_eq!(class("cgroup weirgate-test/a/b/c", outer), expected("good"));
    assert_eq!(class("cgroup weirgate-test/ab", outer), expected("rest"));
    assert_eq!(class("cgroup weirgate-test/c", outer), expected("bad"));
    assert_eq!(class("cgroup weirgate-test", outer), expected("rest"));
    // A foreign mark in these bits does not select a group.
    assert_eq!(class("cgroup x mark 0x10000000", outer), expected("rest"));
    assert_eq!(class("", outer), ("rest".to_owned(), true));
    let inner = "control-groups-inner.toml";
    assert_eq!(class("cgroup weirgate-test/a/b/c", inner), expected("bad"));
    assert_eq!(class("cgroup weirgate-test/a/c", inner), expected("good"));
    let folder = TempDir::new().unwrap();
    explain(&folder, &[&format!("{UDP} own cgroup /a")]).says(2, &["without a `/` before it"]);
}

/// Two links in one file: each packet is explained by the policy of its own link, and `doctor`
/// judges both.
#[test]
fn one_of_several_links_is_chosen_by_its_device() {
    let folder = TempDir::new().unwrap();
    let second = POLICY
        .replace("\"wan\"", "\"wan2\"")
        .replace("\"lan\", up", "\"lan2\", up")
        .replace("\"fast\"", "\"quick\"");
    fs::write(
        folder.path().join("two.toml"),
        format!("{POLICY}---\n{second}"),
    )
    .unwrap();
    let run = |words: &[&str]| weirgate(folder.path(), words);
    for (link, expected) in [("wan", "=> fast"), ("wan2", "=> quick")] {
        let packet = format!("{UDP} {expected}");
        let ended = run(&["explain", "two.toml", "--link", link, &packet]);
        assert_eq!(ended.status, 0, "{link}: {ended:?}");
        let other = format!("{UDP} => rest");
        let ended = run(&["explain", "two.toml", "--link", link, &other]);
        assert_eq!(ended.status, 1, "{link}: {ended:?}");
    }
    let ended = run(&["explain", "two.toml", UDP]);
    ended.says(2, &["2 links", "`--link wan`", "wan, wan2"]);
    let ended = run(&["explain", "two.toml", "--link", "wan3", UDP]);
    ended.says(2, &["has no link on wan3", "wan, wan2"]);
    let ended = run(&["doctor", "--json", "two.toml"]);
    let report: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    let subjects: Vec<&str> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["subject"].as_str())
        .collect();
    for device in ["wan", "wan2", "lan", "lan2"] {
        assert!(subjects.contains(&device), "{device} in {subjects:?}");
    }
    // Findings about the machine are reported once.
    assert!(
        report["findings"]
            .as_array()
            .unwrap()
            .windows(2)
            .all(|two| two[0] != two[1])
    );
}
