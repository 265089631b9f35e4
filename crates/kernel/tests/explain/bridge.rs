// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A transparent bridge that shapes and classifies: `inside` - `lan` | `wan` - `far`, with `lan`
//! and `wan` as its ports. The tests count what the queue of each class has sent.

use crate::router::{feed, in_namespace, name, path};
use std::collections::BTreeMap;
use std::process::Command;
use weirgate_compile::{compile, scheduler};
use weirgate_explain::{PacketLine, Simulator, parse_line};
use weirgate_kernel::{Kernel, Scope};
use weirgate_plan::{Options, plan_with, verify};
use weirgate_policy::{Direction, Policy};
use weirgate_state::{Capabilities, State};
use weirgate_units::Handle;

use crate::router::Wire;

const POLICY: &str = r#"version = 1
[link]
bridge = true
device = "wan"
lan = "lan"
up = "10mbit"
down = "50mbit"
layer = "ethernet"
[[class]]
name = "first"
share = "20%"
priority = 0
queue = "pfifo 50"
[[class]]
name = "p2p"
share = "20%"
queue = "pfifo 50"
[[class]]
name = "rest"
share = "60%"
default = true
queue = "pfifo 50"
[[rule]]
class = "first"
service = ["ssh-any", "ping"]
[[rule]]
class = "p2p"
service = "p2p-payload"
keep = true
"#;

const DEVICES: &str = "\
link set lo up
link add wan address 02:00:ff:ff:00:01 type veth peer name far address 02:00:ff:ff:00:02
link add lan address 02:00:ff:ff:00:03 type veth peer name inside address 02:00:ff:ff:00:04
link add br0 type bridge mcast_snooping 0
link set wan master br0
link set lan master br0
link set wan addrgenmode none
link set lan addrgenmode none
link set far addrgenmode none
link set inside addrgenmode none
link set br0 addrgenmode none
link set wan up
link set lan up
link set far up
link set inside up
link set br0 up
";

fn policy() -> Policy {
    let (policy, problems) = weirgate_policy::parse(POLICY);
    policy.unwrap_or_else(|| panic!("{problems:?}"))
}

/// Returns the packets that each class has sent in a direction.
async fn sent(kernel: &Kernel, policy: &Policy, direction: Direction) -> BTreeMap<String, u64> {
    let device = name(if direction == Direction::Up {
        "wan"
    } else {
        "lan"
    });
    let index = kernel.device(&device).await.unwrap();
    let counters = kernel.stats(index).await.unwrap();
    let members = scheduler(policy, direction).unwrap().members;
    let of = |id: Handle| {
        let class = counters.classes.iter().find(|class| class.handle == id);
        class.map_or(0, |class| class.packets)
    };
    let each = members
        .into_iter()
        .map(|one| (one.class.name.clone(), of(one.id)));
    each.collect()
}

/// Builds an Ethernet frame around a packet.
fn frame(up: bool, before: &[u8], bytes: &[u8]) -> Vec<u8> {
    let (to, from) = if up { (2, 4) } else { (4, 2) };
    let mut frame = vec![2, 0, 0xff, 0xff, 0, to, 2, 0, 0xff, 0xff, 0, from];
    frame.extend(before);
    frame.extend(bytes);
    frame
}

const LINES: [(&str, &str); 12] = [
    (
        "up tcp 192.168.0.2:40000 > 203.0.113.6:22 ack len 100",
        "first",
    ),
    (
        "down tcp 203.0.113.6:22 > 192.168.0.2:40000 ack len 100",
        "first",
    ),
    (
        "up tcp [2001:db8:1::2]:40000 > [2001:db8:9::1]:22 ack",
        "first",
    ),
    (
        "down icmp [2001:db8:9::1] > [2001:db8:1::2] echo-reply",
        "first",
    ),
    (
        "up udp 192.168.0.2:40000 > 203.0.113.6:4000 payload 500",
        "rest",
    ),
    (
        "down udp [2001:db8:9::1]:4000 > [2001:db8:1::2]:40000 payload 9",
        "rest",
    ),
    ("up tcp 192.168.0.2:41000 > 203.0.113.6:51413 syn", "rest"),
    (
        r"up tcp 192.168.0.2:41000 > 203.0.113.6:51413 data \x13BitTorrent\x20protocol",
        "p2p",
    ),
    (
        "up tcp 192.168.0.2:41000 > 203.0.113.6:51413 payload 900",
        "p2p",
    ),
    (
        "down tcp 203.0.113.6:51413 > 192.168.0.2:41000 payload 900",
        "rest",
    ),
    (
        r"down tcp 203.0.113.6:51413 > 192.168.0.2:41000 data \x13BitTorrent\x20protocol",
        "p2p",
    ),
    ("down tcp 203.0.113.6:51413 > 192.168.0.2:41000 ack", "p2p"),
];

/// Headers of frames without IP, and their classes. ARP and the control of PPPoE (discovery, LCP,
/// IPCP) are served first, other contents of PPPoE are not.
const NOT_IP: [(&[u8], &str); 6] = [
    (&[0x08, 0x06], "first"),
    (&[0x88, 0x63, 0x11, 0x09, 0, 0, 0, 0], "first"),
    (&[0x88, 0x64, 0x11, 0, 0, 1, 0, 8, 0xc0, 0x21], "first"),
    (&[0x88, 0x64, 0x11, 0, 0, 1, 0, 8, 0x80, 0x21], "first"),
    (&[0x88, 0x64, 0x11, 0, 0, 1, 0, 8, 0x80, 0x57], "first"),
    (&[0x88, 0x64, 0x11, 0, 0, 1, 0, 8, 0x02, 0x81], "rest"),
];

/// Returns the headers before a packet: none, a VLAN tag of either kind, two tags, PPPoE with and
/// without tags; and whether rules can match the packet behind them.
fn wrappings(ethertype: u16) -> [(&'static str, Vec<u8>, bool); 7] {
    let kind = ethertype.to_be_bytes();
    let ppp = if ethertype == 0x0800 {
        [0, 0x21]
    } else {
        [0, 0x57]
    };
    let session = [&[0x88, 0x64, 0x11, 0, 0, 1, 2, 0], &ppp[..]].concat();
    [
        ("plain", kind.to_vec(), true),
        ("802.1Q", [&[0x81, 0, 0, 7], &kind[..]].concat(), true),
        ("802.1ad", [&[0x88, 0xa8, 0, 7], &kind[..]].concat(), true),
        (
            "two tags",
            [&[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9], &kind[..]].concat(),
            false,
        ),
        ("PPPoE", session.clone(), true),
        (
            "PPPoE in 802.1Q",
            [&[0x81, 0, 0, 7], &session[..]].concat(),
            true,
        ),
        (
            "PPPoE in two tags",
            [&[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9], &session[..]].concat(),
            false,
        ),
    ]
}

#[test]
fn a_bridge_is_shaped_and_classified() {
    in_namespace(|| {
        feed("ip -batch -", DEVICES);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(bridge());
    });
}

async fn bridge() {
    let kernel = Kernel::open().unwrap();
    assert!(kernel.capabilities().await.unwrap().nft_egress);
    let policy = policy();
    let (desired, problems) = compile(&policy, &Capabilities::all());
    let desired: State = desired.unwrap_or_else(|| panic!("{problems:?}"));
    let scope = Scope::of([&desired]);
    let former = kernel.observe(&scope).await.unwrap();
    let options = Options::default();
    let plan = plan_with(&former, &desired, &options).unwrap();
    let applied = kernel.apply(&plan).await.unwrap();
    assert_eq!(verify(&applied.after, &desired), []);
    let observed = kernel.observe(&scope).await.unwrap();
    assert_eq!(plan_with(&observed, &desired, &options).unwrap().steps, []);
    let wires = (Wire::open("inside"), Wire::open("far"));
    let mut simulator = Simulator::new(&desired.tables).with_hooks(&desired.hooks);
    // The bridge learns the addresses of both ends, so it does not flood frames.
    for (text, expected) in LINES {
        let line: PacketLine = parse_line(text).unwrap().unwrap();
        let up = text.starts_with("up");
        let direction = if up { Direction::Up } else { Direction::Down };
        let fate = simulator.pass(line.packet.clone(), &path(up), 0, None);
        let class = fate.passes.iter().rev().find_map(|pass| pass.class);
        let members = scheduler(&policy, direction).unwrap().members;
        let named = members.iter().find(|one| Some(one.id) == class);
        assert_eq!(named.unwrap().class.name, expected, "explain: {text}");
        for (how, before, seen) in wrappings(line.packet.ethertype) {
            let wire = if up { &wires.0 } else { &wires.1 };
            let earlier = sent(&kernel, &policy, direction).await;
            wire.send(&frame(up, &before, &line.packet.bytes));
            let class = if seen { expected } else { "rest" };
            let mut wanted = earlier.clone();
            *wanted.get_mut(class).unwrap() += 1;
            let mut now = earlier;
            // The gate sends the packet within a millisecond or two.
            for _ in 0..200 {
                now = sent(&kernel, &policy, direction).await;
                if now == wanted {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
            assert_eq!(now, wanted, "{how}: {text}");
        }
    }
    for (before, class) in NOT_IP {
        let earlier = sent(&kernel, &policy, Direction::Up).await;
        wires.0.send(&frame(true, before, &[0; 46]));
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        let now = sent(&kernel, &policy, Direction::Up).await;
        assert_eq!(now[class], earlier[class] + 1, "{before:02x?} {now:?}");
    }
    // Without the policy, the former state is back.
    let observed = kernel.observe(&scope).await.unwrap();
    let back = plan_with(&observed, &former, &options).unwrap();
    kernel.apply(&back).await.unwrap();
    assert_eq!(kernel.observe(&scope).await.unwrap(), former);
    let shown = Command::new("tc").args(["qdisc", "show"]).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        !shown.contains("clsact") && !shown.contains("htb"),
        "{shown}"
    );
}
