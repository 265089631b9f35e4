// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A list with keys of all kinds, and frames with the circuit of each.

use crate::wire::{Frame, ipv4, ipv6, pppoe, tag};

/// A description, a frame, and its circuit.
pub type Sent = (&'static str, Frame, &'static str);

/// Circuits with keys of every kind.
pub const LIST: &str = "\
Circuit ID,IPv4,IPv6,MAC,VLAN,PPPoE Session,Download Max Mbps,Upload Max Mbps
address,100.64.0.1,2001:db8::1,,,,100,100
prefix,100.64.1.0/24,2001:db8:1::/48,,,,100,100
session,,,,,77 99,100,100
session of one,,,,,77:02:00:5e:10:00:01 88:02:00:5e:10:00:02,100,100
vlan,,,,100,,100,100
vlans,,,,100.20 300.1,,100,100
mac,,,02:00:5e:10:00:03,,,100,100
";

/// The last byte of a MAC that belongs to a circuit, and of one that belongs to none.
pub const OWN: u8 = 3;
const NOBODY: u8 = 9;

/// Returns a packet whose address belongs to no circuit.
pub fn stranger() -> (u16, Vec<u8>) {
    ipv4([100, 65, 0, 1])
}

/// Returns a frame to the subscriber whose MAC ends with this byte.
pub fn to(mac: u8, (protocol, within): (u16, Vec<u8>)) -> Frame {
    Frame {
        subscriber: mac,
        protocol,
        within,
    }
}

/// The EtherType and the payload of a frame.
type Within = (u16, Vec<u8>);

fn own4() -> Within {
    ipv4([100, 64, 0, 1])
}

fn own6() -> Within {
    ipv6("2001:db8::1")
}

fn prefix4() -> Within {
    ipv4([100, 64, 1, 200])
}

fn prefix6() -> Within {
    ipv6("2001:db8:1:2::3")
}

fn lcp() -> Within {
    (0xc021, vec![9, 1, 0, 8, 0, 0, 0, 0])
}

fn arp() -> Within {
    (0x0806, vec![0; 28])
}

fn vlan(control: u16, within: Within) -> Within {
    tag(0x8100, control, within)
}

fn service(control: u16, within: Within) -> Within {
    tag(0x88a8, control, within)
}

/// Returns a frame to a MAC that belongs to no circuit.
fn nobody(within: Within) -> Frame {
    to(NOBODY, within)
}

/// Returns frames with tags in the header, and their circuits.
pub fn frames() -> Vec<Sent> {
    [
        plain(),
        behind(),
        sessions(),
        tags(),
        macs(),
        order(),
        cut(),
    ]
    .concat()
}

/// Returns untagged packets.
fn plain() -> Vec<Sent> {
    vec![
        ("an address", nobody(own4()), "address"),
        ("an address of IPv6", nobody(own6()), "address"),
        ("a prefix", nobody(prefix4()), "prefix"),
        ("a prefix of IPv6", nobody(prefix6()), "prefix"),
        ("nobody's", nobody(stranger()), "others"),
    ]
}

/// Returns packets to addresses within prefixes of others.
fn behind() -> Vec<Sent> {
    vec![
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
    ]
}

/// Returns PPPoE frames.
fn sessions() -> Vec<Sent> {
    vec![
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
    ]
}

/// Returns tagged frames.
fn tags() -> Vec<Sent> {
    vec![
        ("VLAN 100", nobody(vlan(100, stranger())), "vlan"),
        ("VLAN 100, ARP", nobody(vlan(100, arp())), "vlan"),
        // The first byte of this tag looks like that of IPv4 or IPv6.
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
        // A third tag is not parsed.
        (
            "VLAN 300.1.5",
            nobody(service(300, vlan(1, vlan(5, own4())))),
            "vlans",
        ),
    ]
}

/// Returns frames that the MAC identifies.
fn macs() -> Vec<Sent> {
    vec![
        ("a MAC", to(OWN, stranger()), "mac"),
        ("a MAC of IPv6", to(OWN, ipv6("2001:db8:2::1")), "mac"),
        ("a MAC, ARP", to(OWN, arp()), "mac"),
        ("a MAC behind a tag", to(OWN, vlan(7, stranger())), "mac"),
        ("a MAC in a session", to(OWN, pppoe(5, stranger())), "mac"),
    ]
}

/// Returns frames that several keys match.
fn order() -> Vec<Sent> {
    vec![
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
    ]
}

/// Returns truncated frames.
fn cut() -> Vec<Sent> {
    vec![
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

/// Returns frames whose outer tag is in the metadata when they reach the device, by a VLAN device.
pub fn beside() -> Vec<(&'static str, &'static str, Frame, &'static str)> {
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
