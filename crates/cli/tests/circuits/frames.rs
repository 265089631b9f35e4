// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames as they come to a device with circuits: with tags beside them and within, in
//! sessions of PPPoE, from a bridge, and cut off. Runs in the guest; ignored elsewhere.

use crate::inside::{circuits_of, done, net, settled};
use crate::wire::{Frame, PEER, Wire, ipv4, ipv6, pppoe, tag};
use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};
use weirgate_circuits::rows::Label;

/// Frames of each kind that are sent.
const EACH: usize = 3;

/// The device that has circuits, and a VLAN's device above it with one above that.
const DEVICE: &str = "sub0";

/// Circuits by what tells them.
const LIST: &str = "\
Circuit ID,IPv4,IPv6,MAC,VLAN,PPPoE Session,Download Max Mbps,Upload Max Mbps
address,100.64.0.1,2001:db8::1,,,,100,100
prefix,100.64.1.0/24,2001:db8:1::/48,,,,100,100
session,,,,,77 99,100,100
session of one,,,,,77:02:00:5e:10:00:01 88:02:00:5e:10:00:02,100,100
vlan,,,,100,,100,100
vlans,,,,100.20 300.1,,100,100
mac,,,02:00:5e:10:00:03,,,100,100
";

/// The last byte of a MAC that is a circuit's, and of one that is nobody's.
const OWN: u8 = 3;
const NOBODY: u8 = 9;

/// What is within a frame whose address is nobody's.
fn stranger() -> (u16, Vec<u8>) {
    ipv4([100, 65, 0, 1])
}

/// A frame to the subscriber whose MAC ends so.
fn to(mac: u8, (protocol, within): (u16, Vec<u8>)) -> Frame {
    Frame {
        subscriber: mac,
        protocol,
        within,
    }
}

/// Frames whose tags stand within, and whose they are.
fn frames() -> Vec<(&'static str, Frame, &'static str)> {
    let own4 = || ipv4([100, 64, 0, 1]);
    let own6 = || ipv6("2001:db8::1");
    let prefix4 = || ipv4([100, 64, 1, 200]);
    let prefix6 = || ipv6("2001:db8:1:2::3");
    let vlan = |tci, within| tag(0x8100, tci, within);
    let service = |tci, within| tag(0x88a8, tci, within);
    let lcp = || (0xc021, vec![9, 1, 0, 8, 0, 0, 0, 0]);
    let arp = || (0x0806, vec![0; 28]);
    let nobody = |within| to(NOBODY, within);
    vec![
        ("an address", nobody(own4()), "address"),
        ("an address of IPv6", nobody(own6()), "address"),
        ("a prefix", nobody(prefix4()), "prefix"),
        ("a prefix of IPv6", nobody(prefix6()), "prefix"),
        ("nobody's", nobody(stranger()), "others"),
        // Addresses behind what others have.
        ("a tag", nobody(vlan(7, own4())), "address"),
        ("a tag of 802.1ad", nobody(service(7, own6())), "address"),
        ("two tags", nobody(service(7, vlan(8, prefix6()))), "prefix"),
        (
            "two equal tags",
            nobody(vlan(7, vlan(8, prefix4()))),
            "prefix",
        ),
        ("a session", nobody(pppoe(5, own4())), "address"),
        ("a session of IPv6", nobody(pppoe(5, own6())), "address"),
        (
            "a session behind two tags",
            nobody(service(7, vlan(8, pppoe(5, prefix4())))),
            "prefix",
        ),
        // Sessions.
        ("session 77", nobody(pppoe(77, stranger())), "session"),
        (
            "session 77 of one",
            to(1, pppoe(77, stranger())),
            "session of one",
        ),
        (
            "session 88 of one",
            to(2, pppoe(88, stranger())),
            "session of one",
        ),
        (
            "session 88 of another",
            nobody(pppoe(88, stranger())),
            "others",
        ),
        ("session 76", nobody(pppoe(76, stranger())), "others"),
        ("LCP of session 77", nobody(pppoe(77, lcp())), "session"),
        (
            "session 99 behind a tag",
            nobody(vlan(7, pppoe(99, stranger()))),
            "session",
        ),
        // Tags.
        ("VLAN 100", nobody(vlan(100, stranger())), "vlan"),
        ("VLAN 100, ARP", nobody(vlan(100, arp())), "vlan"),
        // The first byte of such a tag looks like IPv4's, or IPv6's.
        (
            "VLAN 100 with priority 2",
            nobody(vlan(0x4064, stranger())),
            "vlan",
        ),
        (
            "VLAN 100 with priority 3",
            nobody(vlan(0x6064, stranger())),
            "vlan",
        ),
        ("VLAN 101", nobody(vlan(101, stranger())), "others"),
        (
            "VLAN 100.20",
            nobody(service(100, vlan(20, stranger()))),
            "vlans",
        ),
        (
            "VLAN 100.21",
            nobody(service(100, vlan(21, stranger()))),
            "vlan",
        ),
        (
            "VLAN 20.100",
            nobody(service(20, vlan(100, stranger()))),
            "others",
        ),
        (
            "VLAN 300.1",
            nobody(vlan(300, vlan(1, stranger()))),
            "vlans",
        ),
        ("VLAN 300", nobody(vlan(300, stranger())), "others"),
        (
            "VLAN 300.2",
            nobody(vlan(300, vlan(2, stranger()))),
            "others",
        ),
        (
            "a tag of priority alone",
            nobody(vlan(0xe000, stranger())),
            "others",
        ),
        (
            "VLAN 100 behind one",
            nobody(vlan(0xe000, vlan(100, stranger()))),
            "vlan",
        ),
        // A third tag is not looked through.
        (
            "VLAN 300.1.5",
            nobody(service(300, vlan(1, vlan(5, own4())))),
            "vlans",
        ),
        // MACs.
        ("a MAC", to(OWN, stranger()), "mac"),
        ("a MAC of IPv6", to(OWN, ipv6("2001:db8:2::1")), "mac"),
        ("a MAC, ARP", to(OWN, arp()), "mac"),
        ("a MAC behind a tag", to(OWN, vlan(7, stranger())), "mac"),
        ("a MAC in a session", to(OWN, pppoe(5, stranger())), "mac"),
        // Which is looked up first.
        (
            "address before all",
            to(OWN, vlan(100, pppoe(77, own4()))),
            "address",
        ),
        (
            "prefix before all",
            to(OWN, vlan(100, pppoe(77, prefix6()))),
            "prefix",
        ),
        (
            "session before VLAN and MAC",
            to(OWN, vlan(100, pppoe(77, stranger()))),
            "session",
        ),
        ("VLAN before MAC", to(OWN, vlan(100, stranger())), "vlan"),
        // What was cut off.
        ("no end of a tag", nobody((0x8100, vec![0, 100])), "others"),
        (
            "no end of a tag, a MAC",
            to(OWN, (0x8100, vec![0, 100])),
            "mac",
        ),
        (
            "no end of a session",
            nobody((0x8864, vec![0x11, 0, 0, 77, 0, 2])),
            "others",
        ),
        (
            "another version of PPPoE",
            nobody((0x8864, vec![0x21, 0, 0, 77, 0, 2, 0, 0x21])),
            "others",
        ),
        (
            "no end of an address",
            nobody((0x0800, vec![0x45; 18])),
            "others",
        ),
        (
            "no end of an address, a MAC",
            to(OWN, (0x86dd, vec![0x60; 30])),
            "mac",
        ),
    ]
}

/// Frames whose outer tag is beside them when they come to the device, by a VLAN's device.
fn beside() -> Vec<(&'static str, &'static str, Frame, &'static str)> {
    let nobody = |within| to(NOBODY, within);
    let (one, two) = ("sub0.100", "sub0.100.20");
    vec![
        ("VLAN 100 beside", one, nobody(stranger()), "vlan"),
        ("an address", one, nobody(ipv4([100, 64, 0, 1])), "address"),
        ("a prefix", one, nobody(ipv6("2001:db8:1::9")), "prefix"),
        ("session 77", one, nobody(pppoe(77, stranger())), "session"),
        (
            "a session",
            one,
            nobody(pppoe(5, ipv4([100, 64, 0, 1]))),
            "address",
        ),
        ("VLAN 100.20, one beside", two, nobody(stranger()), "vlans"),
        (
            "an address, two tags",
            two,
            nobody(ipv6("2001:db8::1")),
            "address",
        ),
        (
            "session 77, two tags",
            two,
            nobody(pppoe(77, stranger())),
            "session",
        ),
        ("a MAC", "sub0.7", to(OWN, stranger()), "mac"),
        ("nobody's", "sub0.7", nobody(stranger()), "others"),
        (
            "VLAN 100.20 of a bridge",
            one,
            nobody(tag(0x8100, 20, stranger())),
            "vlans",
        ),
        (
            "VLAN 100.20.5, one beside",
            one,
            nobody(tag(0x8100, 20, tag(0x8100, 5, ipv4([100, 64, 0, 1])))),
            "vlans",
        ),
    ]
}

/// Packets that each circuit has sent.
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

/// Sends a frame some times; it is to be this circuit's and nobody else's.
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

/// A device that sends nothing by itself.
pub(crate) fn quiet(make: &str, name: &str) {
    net::run(make);
    net::run(&format!("sysctl net/ipv6/conf/{name}/disable_ipv6=1"));
    net::run(&format!("ip link set {name} up"));
}

/// Frames with tags within and beside them, in sessions, and from a bridge, reach their
/// circuit and nobody else, on the way to subscribers and on the way from them.
#[test]
#[ignore = "runs in the lab's kernel"]
fn frames_reach_their_circuits() {
    settled([0; 3]);
    fs::write("/tmp/frames.csv", LIST).expect("a file");
    for way in ["", " --up"] {
        let is_up = !way.is_empty();
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
        println!("{}", done(&format!("apply {DEVICE} /tmp/frames.csv{way}")));
        let wire = Wire::on(DEVICE, is_up);
        for (what, frame, whose) in frames() {
            goes(&wire, what, &frame, whose);
        }
        for (what, device, frame, whose) in beside() {
            goes(&Wire::on(device, is_up), what, &frame, whose);
        }
        // A bridge takes the outer tag off, and its network header is that of what follows.
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
        // A tag without an end is dropped where it arrives.
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

/// What tells a circuit's packets changes with the list, one after another and for one
/// circuit, and is shown.
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
    // Of addresses alone nothing else is looked up.
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
    // One circuit by itself.
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
    // What is kept has them.
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

/// A device without Ethernet's header has packets of IP alone, which addresses tell.
#[test]
#[ignore = "runs in the lab's kernel"]
fn a_tunnel_has_addresses_alone() {
    settled([0; 3]);
    let far = net::Far::new(1);
    net::run("ip link add sub0 type ipip local 10.0.0.1 remote 10.0.0.2");
    net::run("ip link set sub0 up");
    net::run("ip addr add 100.127.0.1/32 dev sub0");
    net::run("ip route add 100.64.0.0/15 dev sub0");
    // The bytes of IP's header are nobody's MAC.
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
