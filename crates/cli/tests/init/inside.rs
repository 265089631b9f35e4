// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part that runs in the guest. A topology is a network namespace, and its network cards are
//! veth devices.

use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weirgate_testing::run;

/// The limit of the time from a package to a shaped line, with given rates.
const MOST: Duration = Duration::from_secs(90);

/// A router in its own namespace.
struct Router(&'static str);

impl Router {
    fn new(name: &'static str) -> Self {
        run(&format!("ip netns add {name}"));
        let router = Self(name);
        router.runs("sysctl -qw net.ipv4.ip_forward=1");
        router.runs("ip link set lo up");
        router
    }

    #[track_caller]
    fn runs(&self, line: &str) -> String {
        run(&format!("ip netns exec {} {line}", self.0))
    }

    /// Creates a card that is up, with its other end in the same namespace.
    fn card(&self, name: &str) {
        self.runs(&format!(
            "ip link add {name} type veth peer name far-{name}"
        ));
        self.runs(&format!("ip link set {name} up"));
        self.runs(&format!("ip link set far-{name} up"));
    }

    fn address(&self, device: &str, address: &str) {
        self.runs(&format!("ip addr add {address} dev {device}"));
        self.runs(&format!("ip link set {device} up"));
    }

    #[track_caller]
    fn weirgate(&self, line: &str) -> String {
        let state = format!("/run/{}", self.0);
        self.runs(&format!("weirgate --state-dir {state} {line}"))
    }

    /// Runs one command with given rates, then reads back what is in force.
    #[track_caller]
    fn shaped(&self, options: &str, device: &str, parts: &[&str]) {
        let file = format!("/run/{}.toml", self.0);
        let began = Instant::now();
        let output = self.weirgate(&format!(
            "init {options} --up 40M --down 100M --for calls --apply --output {file}"
        ));
        self.weirgate("confirm");
        let took = began.elapsed();
        let policy = fs::read_to_string(&file).unwrap();
        for part in parts {
            assert!(output.contains(part), "{}: `{part}` in {output}", self.0);
        }
        let lines = policy.lines().count();
        assert!(lines <= 40, "{policy}");
        assert!(took < MOST, "{took:?}");
        let shown: Value = serde_json::from_str(&self.weirgate("show --json")).unwrap();
        assert_eq!(shown["confirmed"], true, "{shown}");
        assert_eq!(shown["differences"], Value::Array(Vec::new()), "{shown}");
        assert_eq!(shown["links"][0]["directions"][0]["device"], device);
        let root = self.runs(&format!("tc qdisc show dev {device} root"));
        assert!(root.contains("htb 1: root"), "{root}");
        println!(
            "{}: {:.2} s, {lines} lines, {device}, {}",
            self.0,
            took.as_secs_f64(),
            shown["links"][0]["directions"][1]["device"]
        );
        self.weirgate("remove");
        let root = self.runs(&format!("tc qdisc show dev {device} root"));
        assert!(!root.contains("htb"), "{root}");
    }
}

fn plain() -> Router {
    let router = Router::new("plain");
    router.card("wan");
    router.card("lan");
    router.address("wan", "192.0.2.2/24");
    router.address("lan", "192.168.1.1/24");
    router.runs("ip route add default via 192.0.2.1");
    for line in [
        "nft add table ip mine",
        "nft add chain ip mine post { type nat hook postrouting priority 100 ; }",
        "nft add rule ip mine post oifname wan masquerade",
    ] {
        router.runs(line);
    }
    router
}

fn plain_router() {
    plain().shaped(
        "--line fibre",
        "wan",
        &[
            "wan, ethernet, default route by 192.0.2.1",
            "addresses of leaving packets are translated",
            "fair = \"hosts\"",
        ],
    );
}

fn vlan() {
    let router = Router::new("vlan");
    router.card("eth0");
    for (tag, address) in [(7, "192.0.2.2/24"), (1, "192.168.1.1/24")] {
        router.runs(&format!(
            "ip link add link eth0 name eth0.{tag} type vlan id {tag}"
        ));
        router.address(&format!("eth0.{tag}"), address);
    }
    router.runs("ip route add default via 192.0.2.1");
    router.shaped(
        "--line fibre",
        "eth0.7",
        &["eth0.7, a VLAN on eth0", "layer = \"ethernet:vlan\""],
    );
}

fn bridge() {
    let router = Router::new("bridge");
    router.card("eth0");
    router.card("eth1");
    router.runs("ip link add br0 type bridge");
    router.runs("ip link set eth0 master br0");
    router.runs("ip link set eth1 master br0");
    router.address("br0", "192.168.1.2/24");
    router.runs("ip route add default via 192.168.1.1");
    // The bridge must know behind which port its next hop is.
    router.runs("ip neigh add 192.168.1.1 lladdr 02:00:00:00:00:01 dev br0");
    router.runs("bridge fdb add 02:00:00:00:00:01 dev eth1 master static");
    router.shaped(
        "--line cable",
        "eth1",
        &["eth1, the port of br0 towards the line", "bridge = true"],
    );
}

/// Sets up two networks of hosts, so that downloads are shaped on arrival.
fn virtual_machine() {
    let router = Router::new("virtual");
    for (device, address) in [
        ("ens3", "192.0.2.2/24"),
        ("ens4", "10.1.0.1/24"),
        ("ens5", "10.2.0.1/24"),
    ] {
        router.card(device);
        router.address(device, address);
    }
    router.runs("ip route add default via 192.0.2.1");
    router.shaped(
        "--line fibre",
        "ens3",
        &["behind ens4, ens5", "queue: on ifb-ens3"],
    );
}

#[test]
#[ignore = "runs in the guest"]
fn topologies() {
    plain_router();
    vlan();
    bridge();
    virtual_machine();
}

#[test]
#[ignore = "runs in the guest"]
fn one_topology() {
    bridge();
}

/// The serving end, which is killed on drop.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "runs in the guest"]
fn measured() {
    line_measured("cable", (2, 10), 100);
}

/// On a line of this rate, a train reaches its limit of bytes before its limit of time.
#[test]
#[ignore = "runs in the guest"]
fn measured_fast() {
    line_measured("fibre", (50, 500), 4_000);
}

/// Measures a line with the given rates up and down in Mbit/s, and a buffer of the given packets at
/// each end. Shapes it by the result, and measures it again.
fn line_measured(kind: &str, (up, down): (u32, u32), buffer: u32) {
    let router = plain();
    run("ip netns add outside");
    let netem = |device: &str, mbit: u32| {
        let line = format!("rate {mbit}mbit limit {buffer}");
        format!("tc -n outside qdisc add dev {device} root netem delay 10ms {line}")
    };
    let (far, near) = (netem("far", down), netem("in", up));
    for line in [
        "ip -n plain link del wan",
        "ip -n plain link add wan type veth peer name far netns outside",
        "ip -n plain link set wan up",
        "ip -n plain addr add 192.0.2.2/24 dev wan",
        "ip -n plain route add default via 192.0.2.1",
        "ip -n outside addr add 192.0.2.1/24 dev far",
        "ip -n outside link set far up",
        "ip -n outside link set lo up",
        // A modem in its own namespace would be closer to reality. The shaper needs a free root, so
        // the far end emulates the line in both directions.
        "ip -n outside link add in type ifb",
        "ip -n outside link set in up",
        &far,
        "tc -n outside qdisc add dev far ingress",
        "tc -n outside filter add dev far parent ffff: matchall action mirred egress redirect dev in",
        &near,
    ] {
        run(line);
    }
    let mut serving = Command::new("ip")
        .args(["netns", "exec", "outside", "weirgate", "probe", "--serve"])
        .arg("192.0.2.1:7887")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(serving.stderr.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let _serving = Serving(serving);
    let began = Instant::now();
    let output = router.weirgate(&format!(
        "init --line {kind} --measure 192.0.2.1 --for server --apply --output /run/measured.toml",
    ));
    println!("{output}\n{:.1} s", began.elapsed().as_secs_f64());
    assert!(output.contains("# measured with 192.0.2.1"), "{output}");
    // The rates on the wire must be right within a tenth.
    let found = |name: &str| -> f64 {
        let line = output.lines().find(|line| line.starts_with(name)).unwrap();
        let rate = line.split('"').nth(1).unwrap();
        rate.trim_end_matches("kbit").parse().unwrap()
    };
    for (name, mbit) in [("up = ", up), ("down = ", down)] {
        let part = found(name) / (f64::from(mbit) * 1e3);
        assert!((0.9..1.02).contains(&part), "{name}{part}");
    }
    let delays = |title: &str| -> Vec<f64> {
        let line = output.lines().find(|line| line.starts_with(title)).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        words.iter().filter_map(|word| word.parse().ok()).collect()
    };
    let (before, after) = (delays("before"), delays("after"));
    assert!(after[1] < before[1] / 3.0, "{output}");
    assert!(after[2] < before[2] / 3.0, "{output}");
}
