// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames as they arrive at a device with circuits: with tags in the header or in metadata, in
//! PPPoE sessions, from a bridge, and truncated. Runs in the guest; ignored elsewhere.

use crate::inside::{circuits_of, done, net, settled};
use crate::sent::{LIST, OWN, beside, frames, stranger, to};
use crate::wire::{Frame, PEER, Wire, pppoe, tag};
use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};
use weirgate_circuits::rows::Label;

/// Frames of each kind that are sent.
const EACH: usize = 3;

/// The device with circuits. A VLAN device is above it, and another above that.
const DEVICE: &str = "sub0";

/// Returns the packets that each circuit has sent.
fn counted() -> BTreeMap<String, u64> {
    let tree = circuits_of(DEVICE);
    let nodes = tree.nodes().expect("rows");
    let of = nodes.filter_map(|node| match node.label {
        Label::Circuit(id) => Some((id, node.counts.sent_packets)),
        Label::Others => Some(("others".to_owned(), node.counts.sent_packets)),
        Label::Link | Label::Site(_) => None,
    });
    of.collect()
}

/// Sends a frame some times, and checks that only this circuit counts it.
fn goes(wire: &Wire, what: &str, frame: &Frame, whose: &str) {
    let before = counted();
    for _ in 0..EACH {
        wire.send(frame);
    }
    let mut due = before.clone();
    *due.get_mut(whose).expect("a circuit") += EACH as u64;
    let began = Instant::now();
    let mut found = counted();
    while found != due && began.elapsed() < Duration::from_secs(2) {
        thread::sleep(Duration::from_millis(1));
        found = counted();
    }
    assert_eq!(found, due, "{what} is to be of {whose}");
}

/// Creates a device that sends nothing by itself.
pub(crate) fn quiet(make: &str, name: &str) {
    net::run(make);
    net::run(&format!("sysctl net/ipv6/conf/{name}/disable_ipv6=1"));
    net::run(&format!("ip link set {name} up"));
}

/// Frames with tags in the header and in metadata, in PPPoE sessions, and from a bridge reach their
/// circuit and no other, in both directions.
#[test]
#[ignore = "runs in the lab's kernel"]
fn frames_reach_their_circuits() {
    settled([0; 3]);
    fs::write("/tmp/frames.csv", LIST).expect("a file");
    for option in ["", " --up"] {
        let is_up = !option.is_empty();
        quiet("ip link add sub0 type dummy", DEVICE);
        quiet("ip link add link sub0 name sub0.7 type vlan id 7", "sub0.7");
        quiet(
            "ip link add link sub0 name sub0.100 type vlan id 100",
            "sub0.100",
        );
        quiet(
            "ip link add link sub0.100 name sub0.100.20 type vlan id 20",
            "sub0.100.20",
        );
        println!(
            "{}",
            done(&format!("apply {DEVICE} /tmp/frames.csv{option}"))
        );
        let wire = Wire::on(DEVICE, is_up);
        for (what, frame, whose) in frames() {
            goes(&wire, what, &frame, whose);
        }
        for (what, device, frame, whose) in beside() {
            goes(&Wire::on(device, is_up), what, &frame, whose);
        }
        // A bridge removes the outer tag, and the network header is that of the inner protocol.
        quiet("ip link add in0 type veth peer name in1", "in0");
        quiet(
            "ip link add bridge0 type bridge mcast_snooping 0",
            "bridge0",
        );
        net::run("sysctl net/ipv6/conf/in1/disable_ipv6=1");
        for port in ["in1", DEVICE] {
            net::run(&format!("ip link set {port} master bridge0"));
        }
        net::run("ip link set in1 up");
        net::run("ip link set in1 type bridge_slave learning off");
        let wire = Wire::on("in0", is_up);
        let until = Instant::now() + Duration::from_secs(2);
        while fs::read_to_string("/sys/class/net/in1/brport/state").expect("a port") != "3\n" {
            assert!(Instant::now() < until, "a bridge that forwards");
            thread::sleep(Duration::from_millis(10));
        }
        // A truncated tag is dropped where it arrives.
        let forwarded = |what: &&str| !what.starts_with("no end of a tag");
        for (what, frame, whose) in frames().iter().filter(|(what, ..)| forwarded(what)) {
            goes(&wire, &format!("by a bridge: {what}"), frame, whose);
        }
        done(&format!("remove {DEVICE} --all"));
        for device in ["bridge0", "in0", DEVICE] {
            net::run(&format!("ip link del {device}"));
        }
        settled([0; 3]);
    }
}

/// The keys of a circuit change by a list and for a single circuit, and are shown.
#[test]
#[ignore = "runs in the lab's kernel"]
fn keys_come_change_and_go() {
    settled([0; 3]);
    quiet("ip link add sub0 type dummy", DEVICE);
    let header = "Circuit ID,IPv4,MAC,VLAN,PPPoE Session,Download Max Mbps,Upload Max Mbps\n";
    let list = |lines: &str| {
        fs::write("/tmp/keys.csv", format!("{header}{lines}")).expect("a file");
        done(&format!("apply {DEVICE} /tmp/keys.csv"))
    };
    let wire = Wire::on(DEVICE, false);
    let tagged = to(OWN, tag(0x8100, 100, stranger()));
    // A list of addresses alone looks up nothing else.
    list("1,100.64.0.1,,,,100,100\n2,100.64.0.2,,,,100,100\n");
    goes(&wire, "no key", &tagged, "others");
    list("1,100.64.0.1,,100,,100,100\n2,100.64.0.2,02:00:5e:10:00:03,,,100,100\n");
    goes(&wire, "a VLAN", &tagged, "1");
    let text = list("1,100.64.0.1,,101,,100,100\n2,100.64.0.2,02:00:5e:10:00:03,,,100,100\n");
    assert!(
        text.contains("0 nodes added, 0 changed, 0 removed, 2 entries"),
        "{text}"
    );
    goes(&wire, "a MAC", &tagged, "2");
    // A change of a single circuit.
    let text = done("change sub0 1 --vlan 100,101.5 --session 7:02-00-5e-10-00-03");
    assert!(
        text.contains("0 nodes added, 0 changed, 0 removed, 4 entries"),
        "{text}"
    );
    goes(&wire, "a VLAN of a change", &tagged, "1");
    let session = to(OWN, pppoe(7, stranger()));
    goes(&wire, "a session of a change", &session, "1");
    let shown: serde_json::Value = serde_json::from_str(&done("show sub0 1 --json")).expect("JSON");
    assert_eq!(shown[0]["addresses"], serde_json::json!(["100.64.0.1"]));
    assert_eq!(shown[0]["vlans"], serde_json::json!(["100", "101.5"]));
    assert_eq!(
        shown[0]["pppoe_sessions"],
        serde_json::json!(["7:02:00:5e:10:00:03"])
    );
    assert_eq!(shown[0]["macs"], serde_json::json!([]));
    let text = done("show sub0 2");
    assert!(
        text.contains("\naddresses: 100.64.0.2\nMACs: 02:00:5e:10:00:03"),
        "{text}"
    );
    for (what, part) in [
        (
            "change sub0 1 --mac 02:00:5e:10:00:03",
            "is of the circuit `2`",
        ),
        ("change sub0 2 --vlan 101.5", "is of the circuit `1`"),
        ("change sub0 1 --mac here", "no MAC address"),
        ("change sub0 1 --vlan 5000,x", "`x` is no VLAN"),
        (
            "add sub0 3 --session 0 --down-max 1mbit --up-max 1mbit",
            "no session of PPPoE",
        ),
    ] {
        let text = crate::inside::fails(what, 2);
        assert!(text.contains(part), "{what}: {text}");
    }
    // The kept list includes them.
    net::run("tc qdisc del dev sub0 root");
    done("change sub0 2 --down-max 90mbit");
    goes(&wire, "a kept VLAN", &tagged, "1");
    goes(&wire, "a kept session", &session, "1");
    done("change sub0 1 --vlan , --session ,");
    goes(&wire, "none any more", &tagged, "2");
    done("change sub0 2 --mac ,");
    goes(&wire, "nobody's", &tagged, "others");
    done("remove sub0 --all");
    net::run("ip link del sub0");
    settled([0; 3]);
}

/// A device without an Ethernet header has only IP packets, which addresses identify.
#[test]
#[ignore = "runs in the lab's kernel"]
fn a_tunnel_has_addresses_alone() {
    settled([0; 3]);
    let far = net::Far::new(1);
    net::run("ip link add sub0 type ipip local 10.0.0.1 remote 10.0.0.2");
    net::run("ip link set sub0 up");
    net::run("ip addr add 100.127.0.1/32 dev sub0");
    net::run("ip route add 100.64.0.0/15 dev sub0");
    // The bytes of the IP header are not taken for a MAC.
    let list = LIST.replace("02:00:5e:10:00:03", "44:00:00:00:00:00");
    fs::write("/tmp/tunnel.csv", list).expect("a file");
    done("apply sub0 /tmp/tunnel.csv");
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").expect("a socket");
    for (address, whose) in [
        ("100.64.0.1", "address"),
        ("100.64.1.7", "prefix"),
        ("100.65.0.1", "others"),
    ] {
        let before = counted();
        socket
            .send_to(&[PEER; 100], (address, 9))
            .expect("a datagram");
        let mut due = before;
        *due.get_mut(whose).expect("a circuit") += 1;
        let began = Instant::now();
        while counted() != due && began.elapsed() < Duration::from_secs(2) {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(counted(), due, "{address}");
    }
    done("remove sub0 --all");
    net::run("ip link del sub0");
    drop(far);
    settled([0; 3]);
}
