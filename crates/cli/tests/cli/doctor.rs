// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate doctor` in real namespaces. Each disturbance is created and found, then removed and no
//! longer found.

use crate::namespace::{Namespace, same};
use std::fs;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};

const POLICY: &str = "upstream.toml";

/// Returns the findings as `code subject`.
#[track_caller]
fn findings(namespace: &Namespace, arguments: &str) -> Vec<String> {
    let ended = namespace.weirgate(&format!("doctor --json {arguments}"));
    assert!([0, 1].contains(&ended.status), "{ended:?}");
    let report: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    let findings = report["findings"].as_array().unwrap();
    for finding in findings {
        for part in ["severity", "fact", "why", "remedy"] {
            assert!(!finding[part].as_str().unwrap().is_empty(), "{finding}");
        }
    }
    let grave = findings.iter().any(|one| one["severity"] != "note");
    assert_eq!(ended.status, i32::from(grave), "{ended:?}");
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let line =
        |one: &serde_json::Value| format!("{} {}", text(&one["code"]), text(&one["subject"]));
    findings.iter().map(line).collect()
}

/// Asserts that a finding appears with a change and disappears when it is undone.
#[track_caller]
fn comes_and_goes(namespace: &Namespace, finding: &str, make: &[&str], undo: &[&str]) {
    let has = || findings(namespace, POLICY).contains(&finding.to_owned());
    assert!(!has(), "{finding} is there before {make:?}");
    for line in make {
        namespace.run(line);
    }
    assert!(has(), "{finding} is not there after {make:?}");
    for line in undo {
        namespace.run(line);
    }
    assert!(!has(), "{finding} is there after {undo:?}");
}

/// Creates a namespace in which nothing disturbs the policy.
fn quiet() -> Namespace {
    let namespace = Namespace::new();
    // A veth towards the hosts is a disturbance: merged packets come by it.
    for line in [
        "ip link del lan",
        "ip link add name lan type bridge",
        "ip link add name port type ifb",
        "ip link set port up",
        "ip link set port master lan",
        "ip link set lan up",
    ] {
        namespace.run(line);
    }
    for device in ["wan", "lan"] {
        namespace.run(&format!("ethtool -K {device} tso off gso off gro off"));
    }
    namespace.run("sysctl -qw net.ipv4.ip_forward=1");
    namespace.run("sysctl -qw net.ipv6.conf.all.forwarding=1");
    namespace.run("sysctl -qw net.netfilter.nf_conntrack_acct=1");
    namespace
}

#[test]
fn each_disturbance_is_found_and_vanishes() {
    let namespace = quiet();
    assert_eq!(findings(&namespace, POLICY), Vec::<String>::new());
    for (finding, make, undo) in [
        (
            "segmentation-offload wan",
            "ethtool -K wan tso on gso on",
            "ethtool -K wan tso off gso off",
        ),
        (
            "receive-offload lan",
            "ethtool -K lan gro on",
            "ethtool -K lan gro off",
        ),
        (
            "merged lan",
            "ip link add name inside master lan type veth peer name host",
            "ip link del inside",
        ),
        (
            "foreign-root wan",
            "tc qdisc add dev wan root handle 5: pfifo",
            "tc qdisc del dev wan root",
        ),
        (
            "foreign-clsact wan",
            "tc qdisc add dev wan clsact",
            "tc qdisc del dev wan clsact",
        ),
        (
            "accounting-off kernel",
            "sysctl -qw net.netfilter.nf_conntrack_acct=0",
            "sysctl -qw net.netfilter.nf_conntrack_acct=1",
        ),
        (
            "forwarding-off kernel",
            "sysctl -qw net.ipv4.ip_forward=0",
            "sysctl -qw net.ipv4.ip_forward=1",
        ),
        (
            "mtu wan",
            "ip link set wan mtu 2000",
            "ip link set wan mtu 1500",
        ),
        (
            "device-down wan",
            "ip link set wan down",
            "ip link set wan up",
        ),
    ] {
        comes_and_goes(&namespace, finding, &[make], &[undo]);
    }
}

#[test]
fn who_else_is_at_work_is_found_and_vanishes() {
    let namespace = quiet();
    // Not every kernel has flow tables. Crates kernel and doctor test in any case how they are read
    // and reported.
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap();
    if symbols.contains(" nf_flow_table_init") {
        comes_and_goes(
            &namespace,
            "flow-offload wan",
            &[
                "nft add table inet fw",
                "nft add flowtable inet fw fast { hook ingress priority 0 ; devices = { wan } ; }",
            ],
            &["nft delete table inet fw"],
        );
    }
    comes_and_goes(
        &namespace,
        "other-shaper kernel",
        &["ip link add ifb4wan type ifb"],
        &["ip link del ifb4wan"],
    );
    comes_and_goes(
        &namespace,
        "other-shaper kernel",
        &["mkdir /run/sqm", "touch /run/sqm/wan.state"],
        &["rm -r /run/sqm"],
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("50-wan.network");
    fs::write(&file, "[Match]\nName=w*\n[CAKE]\nBandwidth=1M\n").unwrap();
    namespace.run("mkdir -p /run/systemd/network");
    comes_and_goes(
        &namespace,
        "manager wan",
        &[&format!("cp {} /run/systemd/network/", file.display())],
        &["rm /run/systemd/network/50-wan.network"],
    );
    // A process is recognized by its name.
    let name = folder.path().join("NetworkManager");
    fs::copy("/bin/cat", &name).unwrap();
    let mut manager = Command::new(&name).stdin(Stdio::piped()).spawn().unwrap();
    let found = findings(&namespace, POLICY);
    drop(manager.stdin.take());
    manager.wait().unwrap();
    assert!(found.contains(&"manager wan".to_owned()), "{found:?}");
    assert!(!findings(&namespace, POLICY).contains(&"manager wan".to_owned()));
}

/// Files of the kernel that belong to the whole machine are covered by bind mounts, in this mount
/// namespace only.
#[test]
fn what_the_kernel_is_set_to_is_found_and_vanishes() {
    let namespace = quiet();
    let folder = tempfile::tempdir().unwrap();
    for (finding, path, content) in [
        (
            "htb-hysteresis kernel",
            "/sys/module/sch_htb/parameters/htb_hysteresis",
            "1\n",
        ),
        (
            "slow-clock kernel",
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            "refined-jiffies\n",
        ),
        (
            "table-small kernel",
            "/proc/sys/net/netfilter/nf_conntrack_count",
            "300000\n",
        ),
        ("missing-module kernel", "/proc/kallsyms", "0 T htb_init\n"),
    ] {
        let cover = folder.path().join("cover");
        fs::write(&cover, content).unwrap();
        if finding.starts_with("missing") {
            // The kernel's parts are loaded modules, or are built in and have symbols.
            let own = fs::read_to_string("/proc/kallsyms").unwrap();
            let without: Vec<&str> = own
                .lines()
                .filter(|line| !line.contains("nf_tables_newtable"))
                .collect();
            fs::write(&cover, without.join("\n")).unwrap();
            if std::path::Path::new("/proc/modules").exists() {
                continue;
            }
        }
        let make = format!("mount --bind {} {path}", cover.display());
        comes_and_goes(&namespace, finding, &[&make], &[&format!("umount {path}")]);
    }
}

#[test]
fn devices_that_are_not_as_the_policy_says() {
    let namespace = quiet();
    namespace.run("ip link del wan");
    assert!(findings(&namespace, POLICY).contains(&"no-device wan".to_owned()));
    // A TUN device has no Ethernet headers.
    namespace.run("ip tuntap add dev wan mode tun");
    namespace.run("ip link set wan up");
    let found = findings(&namespace, POLICY);
    assert!(found.contains(&"device-kind wan".to_owned()), "{found:?}");
    namespace.run("ip link del wan");
    namespace.run("ip link add wan numtxqueues 4 type bridge");
    namespace.run("ip link set wan up");
    let found = findings(&namespace, POLICY);
    assert!(found.contains(&"many-queues wan".to_owned()), "{found:?}");
}

#[test]
fn what_apply_does_is_found_no_more_and_what_others_change_is() {
    let namespace = Namespace::new();
    namespace.run("sysctl -qw net.ipv4.ip_forward=1");
    let before = findings(&namespace, POLICY);
    assert!(before.contains(&"segmentation-offload wan".to_owned()));
    namespace.weirgate("apply upstream.toml").says(0, &[]);
    let applied = namespace.snapshot();
    let after = findings(&namespace, POLICY);
    let offload = |found: &[String]| found.iter().any(|one| one.contains("offload"));
    assert!(!offload(&after), "{after:?}");
    assert!(
        !after.iter().any(|one| one.starts_with("foreign")),
        "{after:?}"
    );
    // Without a policy argument, the policy in force is judged. Whether a packet passed while it
    // looked is the kernel's own matter (RFC 4861, neighbour discovery).
    let looked = |found: Vec<String>| -> Vec<String> {
        let passing = |one: &String| one.starts_with("idle ") || one.starts_with("shapes ");
        found.into_iter().filter(|one| !passing(one)).collect()
    };
    let judged = looked(findings(&namespace, "--device lan"));
    assert_eq!(judged, looked(after));
    same(&applied, &namespace.snapshot());
    namespace.run("ethtool -K wan tso on gso on");
    let changed = findings(&namespace, POLICY);
    assert!(
        changed.contains(&"differs kernel".to_owned()),
        "{changed:?}"
    );
    assert!(offload(&changed));
}

/// A script that sends frames around the qdiscs, by a packet socket with `PACKET_QDISC_BYPASS`
/// (packet(7)).
const AROUND: &str = "
import socket, time
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.setsockopt(263, 20, 1)
s.bind(('wan', 0))
print('ready', flush=True)
while True:
    for _ in range(20): s.send(bytes(6) + bytes(6) + bytes([8, 0]) + bytes(60))
    time.sleep(0.01)
";

#[test]
fn what_leaves_beside_the_gate_is_found() {
    let namespace = quiet();
    let passed_by = "passed-by wan".to_owned();
    let shapes = "shapes wan".to_owned();
    assert!(!findings(&namespace, POLICY).contains(&shapes));
    namespace.weirgate("apply upstream.toml").says(0, &[]);
    // Nothing can be said of an idle line. The kernel itself may send a packet of IPv6.
    let quiet_line =
        |found: &[String]| found.contains(&shapes) || found.contains(&"idle wan".to_owned());
    assert!(quiet_line(&findings(&namespace, POLICY)));
    let mut around = sends(&namespace, AROUND);
    let found = findings(&namespace, POLICY);
    around.kill().unwrap();
    around.wait().unwrap();
    assert!(
        found.contains(&passed_by) && !found.contains(&shapes),
        "{found:?}"
    );
    assert!(quiet_line(&findings(&namespace, POLICY)));
}

/// Starts a script that sends frames, and waits until it is ready.
fn sends(namespace: &Namespace, script: &str) -> Child {
    let mut command = namespace.command("/usr/bin/python3");
    let script = ["-c", script];
    let mut sender = command.args(script).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 5];
    let out = sender.stdout.as_mut().unwrap();
    out.read_exact(&mut ready).unwrap();
    sender
}

/// Packets that arrive on the link are compared with those that its IFB gets.
#[test]
fn what_arrives_beside_the_queue_is_found() {
    let namespace = quiet();
    namespace.weirgate("apply both.toml").says(0, &[]);
    let arriving = || -> String {
        let ended = namespace.weirgate("doctor --json both.toml");
        let report: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
        let mut findings = report["findings"].as_array().unwrap().iter();
        let of_ifb = |one: &&serde_json::Value| one["fact"].as_str().unwrap().contains("ifb-wan");
        let found = findings.find(of_ifb);
        let found = found.unwrap_or_else(|| panic!("{report:#}"));
        assert_eq!(found["subject"], "wan", "{found}");
        found["code"].as_str().unwrap().to_owned()
    };
    let mut far = sends(&namespace, &AROUND.replace("'wan'", "'far'"));
    let shaped = arriving();
    // Another program forwards what arrives, before weirgate's rules see it.
    for line in [
        "nft add table netdev other",
        "nft add chain netdev other in { type filter hook ingress device wan priority -600 ; }",
        "nft add rule netdev other in fwd to lan",
    ] {
        namespace.run(line);
    }
    let passed = arriving();
    far.kill().unwrap();
    far.wait().unwrap();
    assert_eq!((shaped.as_str(), passed.as_str()), ("shapes", "passed-by"));
}

#[test]
fn without_a_capability_it_says_what_it_could_not_see() {
    let namespace = quiet();
    let ended = namespace.powerless(&format!("doctor {POLICY}"));
    assert_eq!(ended.status, 0, "{ended:?}");
    for part in [
        "no CAP_NET_ADMIN",
        "[privilege]",
        "not seen: flow tables",
        "0 warnings",
    ] {
        assert!(ended.out.contains(part), "`{part}` in {}", ended.out);
    }
}

#[test]
fn figures_are_those_of_the_link() {
    let namespace = Namespace::new();
    let ended = namespace.weirgate(&format!("doctor {POLICY}"));
    assert_eq!(ended.status, 1, "{ended:?}");
    // A burst of 64 KB takes 46 packets of 1500 bytes, each of 32 ATM cells.
    let words: Vec<&str> = ended.out.split_whitespace().collect();
    let text = words.join(" ");
    assert!(
        text.contains("occupies the upstream of 512kbit for 1.2 s"),
        "{text}"
    );
    namespace
        .weirgate("doctor --device a/b")
        .says(2, &["1 to 15 bytes"]);
    namespace
        .weirgate("doctor gone.toml")
        .says(2, &["gone.toml"]);
}
