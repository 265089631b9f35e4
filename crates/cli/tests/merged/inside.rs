// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parts of the tests that run in the guest:
//!
//! ```text
//! host - lan[router]wan - isp
//! ```
//!
//! The devices of host and isp keep their offloads, so their TCP sends up to 64 KB as one packet.

use crate::net::{run, thread_in};
use std::fs;
use std::net::UdpSocket;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Each namespace with its address.
const HOST: (&str, &str) = ("host", "192.168.1.2");
const ISP: (&str, &str) = ("isp", "192.0.2.2");

/// Builds the namespaces again.
fn build() {
    for (name, _) in [HOST, ISP] {
        // It may be left from another test.
        let _ = Command::new("ip").args(["netns", "del", name]).output();
    }
    for device in ["lan", "wan"] {
        let gone = || !fs::exists(format!("/sys/class/net/{device}")).unwrap();
        while !gone() {
            thread::sleep(Duration::from_millis(10));
        }
    }
    for (device, near, (name, far)) in [("lan", "192.168.1.1", HOST), ("wan", "192.0.2.1", ISP)] {
        for line in [
            format!("ip netns add {name}"),
            format!("ip link add {device} type veth peer name eth0 netns {name}"),
            format!("ip addr add {near}/24 dev {device}"),
            format!("ip link set {device} up"),
            format!("ip -n {name} addr add {far}/24 dev eth0"),
            format!("ip -n {name} link set lo up"),
            format!("ip -n {name} link set eth0 up"),
            format!("ip -n {name} route add default via {near}"),
        ] {
            run(&line);
        }
    }
    fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
}

/// Returns a policy with one class upstream.
fn policy(rate: &str, merged: &str) -> String {
    format!(
        "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"{rate}\"\nlayer = \
         \"ethernet\"\n{merged}\n[[class]]\nname = \"all\"\nshare = \"100%\"\ndefault = true\nqueue \
         = \"pfifo 50\"\n"
    )
}

const CUT: &str = "merged = \"cut\"";

/// Runs weirgate; returns its output. `plan` and `doctor` have a status that says what they found.
#[track_caller]
fn weirgate(line: &str) -> String {
    let output = Command::new("weirgate").args(line.split(' ')).output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let judges = line.starts_with("plan") || line.starts_with("doctor");
    assert!(output.status.success() || judges, "{line}: {text}");
    text
}

#[track_caller]
fn apply(policy: &str) -> String {
    fs::write("/tmp/site.toml", policy).unwrap();
    let text = weirgate("apply /tmp/site.toml");
    let plan = weirgate("plan /tmp/site.toml");
    assert!(plan.contains("nothing to change"), "{plan}");
    text
}

/// Returns the facts of doctor's findings about merged packets.
fn told() -> Vec<String> {
    let text = weirgate("doctor --json");
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let own = findings.iter().filter(|one| one["code"] == "merged");
    own.map(|one| {
        let [severity, subject, fact] =
            ["severity", "subject", "fact"].map(|part| one[part].as_str().unwrap());
        format!("{severity}: {subject}: {fact}")
    })
    .collect()
}

#[test]
#[ignore = "runs in the guest"]
fn changes_and_repairs() {
    build();
    // The module makes devices of its own when it is loaded.
    run("ip link add own type ifb");
    run("ip link del own");
    let before = ["ip -d link show", "nft list ruleset", "tc qdisc show"].map(run);
    apply(&policy("8mbit", ""));
    assert_eq!(
        told(),
        ["warning: lan: packets can come merged by lan (veth), and nothing cuts them"]
    );
    let classes = run("tc class show dev wan");
    let steps = apply(&policy("8mbit", CUT));
    println!("{steps}");
    assert!(
        !steps.contains("wan"),
        "it changes more than the detour: {steps}"
    );
    assert_eq!(run("tc class show dev wan"), classes);
    assert_eq!(
        told(),
        ["note: lan: packets can come merged by lan (veth); cut-lan cuts them"]
    );
    for line in [
        "nft delete table netdev weirgate_cut_lan",
        "ip link set cut-lan gso_max_segs 65535",
        "ethtool -K cut-lan tso on",
        "tc qdisc del dev cut-lan root",
        "ip link del cut-lan",
    ] {
        run(line);
        let plan = weirgate("plan /tmp/site.toml");
        assert!(plan.contains("cut"), "after `{line}`: {plan}");
        apply(&policy("8mbit", CUT));
    }
    apply(&policy("8mbit", ""));
    assert!(!run("ip link show").contains("cut-lan"));
    assert!(!run("nft list ruleset").contains("cut"));
    weirgate("remove");
    let after = ["ip -d link show", "nft list ruleset", "tc qdisc show"].map(run);
    assert_eq!(after, before);
}

/// Prints the time that small datagrams take from a host to the isp. Every step of their way runs
/// within the system call that sends them, and an instruction takes a nanosecond of the guest.
#[test]
#[ignore = "runs in the guest"]
fn cost() {
    const COUNT: u32 = 5_000;
    build();
    let each = ["", CUT].map(|merged| {
        apply(&policy("1000mbit", merged));
        let send = || {
            thread_in(HOST.0, || {
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                socket.connect((ISP.1, 4_000)).unwrap();
                let begin = Instant::now();
                for _ in 0..COUNT {
                    let _ = socket.send(&[0; 100]);
                }
                begin.elapsed() / COUNT
            })
        };
        // The first round fills caches.
        send().join().unwrap();
        send().join().unwrap()
    });
    println!("a packet takes {:?} whole and {:?} cut", each[0], each[1]);
}
