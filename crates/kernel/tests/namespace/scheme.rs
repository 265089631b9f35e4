// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests whole policies in the kernel: what they do with packets, observed by the rules' counters.
//! Qdiscs are left out, because some kernels that run these tests lack some of them.
//!
//! Over 500 lines: one test for each policy that the documentation shows.

use crate::classify::{Packet, SEGMENT};
use crate::harness::{apply, device, in_namespace, observe, pfifo, run};
use std::collections::BTreeMap;
use weirgate_compile::{TABLE, compile};
use weirgate_kernel::Kernel;
use weirgate_plan::verify;
use weirgate_state::{Capabilities, Device, Hook, IpVersion, State};

/// Returns the tables of a compiled policy, on devices without qdiscs.
pub fn tables(source: &str) -> State {
    let (policy, problems) = weirgate_policy::parse(source);
    let policy = policy.unwrap_or_else(|| panic!("{problems:?}\n{source}"));
    let (state, problems) = compile(&policy, &Capabilities::all());
    let whole = state.unwrap_or_else(|| panic!("{problems:?}\n{source}"));
    let mut state = State {
        tables: whole.tables,
        ..State::default()
    };
    for table in &state.tables {
        for chain in &table.chains {
            if let Hook::Ingress { redirect_to, .. } = &chain.hook {
                let ifb = Device {
                    owned_ifb: true,
                    ..device(Some(pfifo(1, 50)), None)
                };
                state.devices.insert(redirect_to.clone(), ifb);
            }
        }
    }
    state
}

pub const SITE: &str = r#"version = 1
final = false
link = { device = "wan", lan = "far", up = "10mbit", down = "50mbit", inbound = "lan", layer = "raw" }
[[class]]
name = "first"
share = "20%"
priority = 0
[[class]]
name = "good"
share = "40%"
[[class]]
name = "rest"
share = "40%"
default = true
"#;

pub async fn counters(kernel: &Kernel) -> BTreeMap<String, u64> {
    let all = kernel.rule_counters(false, TABLE).await.unwrap();
    all.into_iter()
        .map(|(name, counter)| (name, counter.packets))
        .collect()
}

/// Sends packets one after the other, and returns the counters that counted each.
pub async fn counted(kernel: &Kernel, packets: &[Packet]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut before = counters(kernel).await;
    for packet in packets {
        packet.send();
        let after = counters(kernel).await;
        let more = after.iter().filter(|(name, count)| before[*name] < **count);
        found.push(more.map(|(name, _)| name.clone()).collect());
        before = after;
    }
    found
}

/// Applies a policy's tables, and checks which counters count each packet.
fn check(rules: &'static str, cases: Vec<(Packet, &'static [&'static str])>) {
    in_namespace(move |kernel| async move {
        apply(&kernel, &tables(&format!("{SITE}{rules}")), None).await;
        let (packets, wanted): (Vec<Packet>, Vec<&[&str]>) = cases.into_iter().unzip();
        let found = counted(&kernel, &packets).await;
        for (index, (found, wanted)) in found.iter().zip(wanted).enumerate() {
            assert_eq!(found, wanted, "packet {index}");
        }
    });
}

pub fn to(port: u16) -> Packet {
    Packet {
        ports: (1000, port),
        payload: 20,
        ..SEGMENT
    }
}

pub fn syn(port: u16) -> Packet {
    Packet {
        flags: 2,
        payload: 0,
        ..to(port)
    }
}

const fn v6(packet: Packet) -> Packet {
    Packet {
        version: IpVersion::V6,
        ..packet
    }
}

#[test]
fn every_shipped_policy_is_held_as_it_was_compiled() {
    let folder = weirgate_testing::root().join("policies");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "toml"))
        .collect();
    paths.sort();
    assert!(paths.len() >= 10);
    in_namespace(|kernel| async move {
        run("ip link add lan type veth peer name inside");
        for path in paths {
            let desired = tables(&std::fs::read_to_string(&path).unwrap());
            let steps = apply(&kernel, &desired, None).await;
            assert!(!steps.is_empty(), "{}", path.display());
            let after = observe(&kernel, &[&desired]).await;
            assert_eq!(verify(&after, &desired), vec![], "{}", path.display());
            let again = apply(&kernel, &desired, None).await;
            assert!(again.is_empty(), "{}: {again:?}", path.display());
        }
    });
}

/// Conditions and effects, which can be combined.
const PARTS: [&str; 26] = [
    "protocol = [\"tcp\", \"udp\"]",
    "local-port = [22, \"5000-5010\"]",
    "remote-port = \"@g\"",
    "port = [80, 443]",
    "local-address = \"@g\"",
    "remote-address = [\"198.51.100.0/24\", \"2001:db8:9::/48\", \"203.0.113.7\"]",
    "dscp = [\"EF\", \"CS1\"]",
    "tos = \"minimize-delay\"",
    "length = [\"0-128\", \"600-700\"]",
    "service = [\"ssh\", \"dns\"]",
    "service = \"web\"",
    "local-mac = \"@g\"",
    "interface = [\"lan\", \"far\"]",
    "from = \"forwarded\"",
    "mark = \"0x10/0xf0\"",
    "not = { local-address = \"@g\", remote-port = 25, dscp = \"LE\" }",
    "during = \"s\"",
    "keep = true",
    "final = true",
    "set-dscp = \"AF41\"",
    "rate = { over = \"4/s\" }",
    "rate = { within = \"9kB/s\", per = \"connection\" }",
    "rate = { over = \"9/min\", per = \"all\" }",
    "connections = { over = 9, per = \"remote\" }",
    "connection = { state = [\"new\", \"related\"], helper = \"ftp\" }",
    "connection = { bytes-over = \"1MB\", packets-over = 9, mean-size = \"0-300\" }",
];

/// Returns a policy whose rules have a few of the parts each, without contradictory rules.
fn scheme(rules: &[(Vec<usize>, bool)], inbound: &str) -> String {
    let mut text = SITE.replace("inbound = \"lan\"", inbound)
        + "[group.g]\naddresses = [\"192.0.2.0/25\", \"192.0.2.200\", \"2001:db8:1::/48\"]\n\
           ports = [25, \"8000-8010\"]\nmacs = [\"02:00:5e:10:00:01\", \"02:00:5e:10:00:02\"]\n\
           [schedule.s]\nhours = \"22:00-06:30\"\ndays = [\"fri\", \"sat\"]\n[dscp]\nwash = \"up\"\n";
    for (index, (parts, set)) in rules.iter().enumerate() {
        let mut keys: Vec<&str> = Vec::new();
        let mut body = String::new();
        for part in parts {
            let part = PARTS[*part];
            let key = part.split(' ').next().unwrap_or_default();
            let counts = |key: &str| key == "rate" || key == "connections";
            let twice = keys.contains(&key) || keys.iter().any(|k| counts(k) && counts(key));
            if !twice {
                keys.push(key);
                body = body + part + "\n";
            }
        }
        let head = if *set {
            format!("[[ruleset]]\nname = \"set-{index}\"\n[[ruleset.rule]]\n")
        } else {
            "[[rule]]\n".to_owned()
        };
        let rule = format!("{head}class = \"good\"\n{body}");
        // Check each rule alone with the site, so that a contradiction affects only that rule.
        let alone = weirgate_policy::parse(&(text.clone() + &rule));
        let errors = alone
            .1
            .iter()
            .any(|p| p.severity == weirgate_document::Severity::Error);
        if !errors {
            text += &rule;
        }
    }
    text
}

#[test]
fn any_scheme_is_held_as_it_was_compiled() {
    use proptest::prelude::*;
    use proptest::strategy::ValueTree;
    in_namespace(|kernel| async move {
        let parts = prop::collection::vec(0..PARTS.len(), 1..5);
        let rules = prop::collection::vec((parts, prop::bool::weighted(0.2)), 25..26);
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        for round in 0..12 {
            let drawn = rules.new_tree(&mut runner).unwrap().current();
            let inbound = ["inbound = \"lan\"", "inbound = \"ifb\""][round % 2];
            let text = scheme(&drawn, inbound);
            let rules = text.matches("class = \"good\"").count();
            assert!(rules > 12, "{rules} rules only");
            let desired = tables(&text);
            for table in &desired.tables {
                assert!(table.faults().is_empty(), "{:?}\n{text}", table.faults());
            }
            apply(&kernel, &desired, None).await;
            let after = observe(&kernel, &[&desired]).await;
            assert_eq!(verify(&after, &desired), vec![], "{text}");
        }
    });
}

#[test]
fn later_rules_mark_again_unless_one_is_final() {
    check(
        r#"
[[rule]]
name = "all"
class = "first"
protocol = ["tcp", "udp"]
[[rule]]
name = "web"
class = "good"
remote-port = [80, 443]
final = true
[[rule]]
name = "high"
class = "rest"
remote-port = "60-65535"
not = { remote-port = "1000-2000" }
"#,
        vec![
            (to(22), &["up_all"]),
            (to(80), &["up_all", "up_web"]),
            (v6(to(443)), &["up_all", "up_web"]),
            (to(61), &["up_all", "up_high"]),
            (v6(to(1500)), &["up_all"]),
        ],
    );
}

#[test]
fn services_count_a_packet_once_and_either_port_too() {
    let dns = Packet {
        ports: (53, 53),
        protocol: 17,
        ..to(53)
    };
    let long = Packet {
        payload: 600,
        ..dns
    };
    let ssh = Packet { dscp: 4, ..to(22) };
    check(
        r#"
[[rule]]
name = "dns"
class = "first"
service = ["dns", "dns-any"]
length = "0-512"
[[rule]]
name = "scp"
class = "good"
service = "ssh-any"
[[rule]]
name = "ssh"
class = "first"
service = "ssh"
"#,
        vec![
            (dns, &["up_dns"]),
            (v6(dns), &["up_dns"]),
            (long, &[]),
            (v6(long), &[]),
            (to(22), &["up_scp"]),
            (ssh, &["up_scp", "up_ssh"]),
            (v6(ssh), &["up_scp", "up_ssh"]),
        ],
    );
}

#[test]
fn groups_of_both_versions_and_icmp_types_are_matched() {
    let echo = Packet {
        protocol: 1,
        ports: (8 << 8, 0),
        ..SEGMENT
    };
    let echo6 = v6(Packet {
        protocol: 58,
        ports: (128 << 8, 0),
        ..SEGMENT
    });
    check(
        r#"
[group.ours]
addresses = ["10.9.0.1", "10.20.0.0/16", "2001:db8::1", "2001:db8:1::/48"]
ports = ["50-60", 80]
[[rule]]
name = "ours"
class = "first"
local-address = "@ours"
remote-port = "@ours"
[[rule]]
name = "theirs"
class = "good"
protocol = "tcp"
not = { local-address = "10.9.0.1" }
[[rule]]
name = "echo"
class = "good"
icmp-type = "echo-request"
[[rule]]
name = "own"
class = "good"
protocol = "udp"
from = "router"
direction = "up"
[[rule]]
name = "forwarded"
class = "good"
protocol = "udp"
from = "forwarded"
direction = "up"
"#,
        vec![
            (to(55), &["up_ours"]),
            (v6(to(80)), &["up_ours", "up_theirs"]),
            (to(81), &[]),
            (echo, &["up_echo"]),
            (echo6, &["up_echo"]),
            (
                Packet {
                    protocol: 17,
                    ..to(9)
                },
                &["up_own"],
            ),
        ],
    );
}

#[test]
fn meters_count_by_their_key_and_to_their_line() {
    let rules = r#"
[[rule]]
name = "within"
class = "first"
service = "tcp-syn"
rate = { within = "1/min", per = "remote", burst = 3 }
[[rule]]
name = "beyond"
class = "rest"
service = "tcp-syn"
rate = { over = "1/min", per = "all", burst = 5 }
"#;
    let both: &[&str] = &["up_within"];
    let over: &[&str] = &["up_beyond"];
    check(
        rules,
        vec![
            (syn(1), both),
            (syn(2), both),
            (syn(3), both),
            (syn(4), &[]),
            (v6(syn(5)), both),
            (v6(syn(6)), &["up_beyond", "up_within"]),
            (syn(7), over),
        ],
    );
}

#[test]
fn connections_are_counted_for_each_host() {
    check(
        r#"
[[rule]]
name = "many"
class = "rest"
protocol = "udp"
connections = { over = 2, per = "local" }
"#,
        (1..=4)
            .map(|port| {
                let packet = Packet {
                    protocol: 17,
                    ..to(port)
                };
                let wanted: &[&str] = if port > 2 { &["up_many"] } else { &[] };
                (packet, wanted)
            })
            .collect(),
    );
}

#[test]
fn a_decision_stays_on_the_connection_and_other_bits_survive() {
    in_namespace(|kernel| async move {
        run("sysctl -qw net.netfilter.nf_conntrack_acct=1");
        let rules = r#"
[marks]
mask = "0xf00"
[[rule]]
name = "long"
class = "rest"
protocol = "udp"
connection = { packets-over = 2 }
not = { length = "0-60" }
keep = true
[[rule]]
name = "small"
class = "good"
length = "0-60"
"#;
        run("nft add table inet other");
        run("nft add chain inet other o { type filter hook output priority 0 ; }");
        run("nft add rule inet other o ct mark set ct mark or 0x5");
        apply(&kernel, &tables(&format!("{SITE}{rules}")), None).await;
        let udp = |payload| Packet {
            protocol: 17,
            payload,
            ..to(9)
        };
        let packets = [udp(99), udp(99), udp(99), udp(1), udp(99)];
        let found = counted(&kernel, &packets).await;
        let long = vec![String::from("up_long")];
        let kept = vec![String::from("up_long"), String::from("up_small")];
        assert_eq!(found, [vec![], vec![], long.clone(), kept, long]);
        // nft sees our mark bits and those of the other program.
        run("nft add rule inet other o ct mark 0x105 counter");
        udp(1).send();
        let seen = run("nft list chain inet other o");
        assert!(seen.contains("counter packets 1 "), "{seen}");
    });
}

#[test]
fn a_rule_set_is_switched_by_itself() {
    let rules = r#"
[[ruleset]]
name = "games"
[[ruleset.rule]]
name = "g"
class = "first"
protocol = "tcp"
final = true
[[ruleset]]
name = "off"
enabled = false
[[ruleset.rule]]
name = "o"
class = "first"
protocol = "tcp"
[[rule]]
name = "after"
class = "good"
protocol = "tcp"
"#;
    in_namespace(move |kernel| async move {
        let desired = tables(&format!("{SITE}{rules}"));
        apply(&kernel, &desired, None).await;
        let games = weirgate_compile::ruleset_chain(weirgate_policy::Direction::Up, "games");
        let off = weirgate_compile::ruleset_chain(weirgate_policy::Direction::Up, "off");
        let names =
            |list: &[&str]| -> Vec<String> { list.iter().map(|name| (*name).to_owned()).collect() };
        assert_eq!(counted(&kernel, &[to(1)]).await, [names(&["up_g"])]);
        kernel.switch(false, TABLE, &games, false).await.unwrap();
        assert_eq!(counted(&kernel, &[to(1)]).await, [names(&["up_after"])]);
        kernel.switch(false, TABLE, &off, true).await.unwrap();
        let both = names(&["up_after", "up_o"]);
        assert_eq!(counted(&kernel, &[v6(to(1))]).await, [both]);
        let after = observe(&kernel, &[&desired]).await;
        assert_eq!(verify(&after, &desired).len(), 2, "both switches are seen");
        kernel.switch(false, TABLE, &off, true).await.unwrap();
        kernel.switch(false, TABLE, &off, false).await.unwrap();
        assert!(kernel.switch(false, TABLE, &off, false).await.is_err());
        kernel.switch(false, TABLE, &games, true).await.unwrap();
        let after = observe(&kernel, &[&desired]).await;
        assert_eq!(verify(&after, &desired), vec![]);
        assert_eq!(counters(&kernel).await["up_after"], 2, "counters go on");
    });
}

#[test]
fn code_points_are_set_mapped_and_washed_and_ecn_stays() {
    let rules = r#"
[dscp]
map = { CS1 = "LE", LE = "CS3" }
wash = "up"
except = ["NQB", "LE", "EF"]
[[rule]]
name = "set"
class = "first"
local-port = 7
set-dscp = "EF"
[[rule]]
name = "le"
class = "good"
dscp = "LE"
[[rule]]
name = "cs3"
class = "good"
dscp = "CS3"
"#;
    in_namespace(move |kernel| async move {
        run("nft add table netdev sees");
        run("nft add chain netdev sees c { type filter hook ingress device far priority 0 ; }");
        let (be, ef, le, nqb) = (0_u32, 46, 1, 45);
        for dscp in [be, ef, le, nqb, 24, 8] {
            for ip in ["ip", "ip6"] {
                run(&format!(
                    "nft add rule netdev sees c meta l4proto tcp {ip} dscp {dscp} counter"
                ));
            }
        }
        // ECT(1) and CE, with any code point.
        for ecn in ["ect1", "ce"] {
            for ip in ["ip", "ip6"] {
                run(&format!(
                    "nft add rule netdev sees c meta l4proto tcp {ip} ecn {ecn} counter"
                ));
            }
        }
        apply(&kernel, &tables(&format!("{SITE}{rules}")), None).await;
        let marked = |dscp, ecn| Packet { dscp, ecn, ..to(9) };
        let local = Packet {
            ports: (7, 9),
            ecn: 3,
            ..SEGMENT
        };
        let before: Vec<u64> = seen();
        // Mapped; mapped and cleared; excepted; cleared; set.
        let packets = [
            marked(8, 3),
            marked(1, 1),
            marked(45, 1),
            marked(34, 3),
            local,
        ];
        let found = counted(&kernel, &packets).await;
        let all: Vec<&[String]> = found.iter().map(Vec::as_slice).collect();
        assert_eq!(all[0], ["up_le"], "CS1 is mapped, once");
        assert_eq!(all[1], ["up_cs3"]);
        assert_eq!(all[4], ["up_set"]);
        for packet in packets {
            v6(packet).send();
        }
        let after = seen();
        let more: Vec<u64> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
        // Order: be, ef, le, nqb, CS3, CS1, each for IPv4 and IPv6. CS3 and AF41 are cleared. Then
        // ECT(1) and CE, each as often as sent.
        assert_eq!(more, [2, 2, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 2, 2, 3, 3]);
    });
}

/// Returns the counters of the chain for arriving packets.
fn seen() -> Vec<u64> {
    // Arriving packets are processed in a softirq.
    std::thread::sleep(std::time::Duration::from_millis(50));
    let text = run("nft list chain netdev sees c");
    let count = |line: &str| {
        let rest = line.split_once("counter packets ")?.1;
        rest.split(' ').next()?.parse().ok()
    };
    text.lines().filter_map(count).collect()
}
