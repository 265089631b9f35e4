// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every table of a policy, for the schema, the reference and the manual page.

use crate::condition::meter;
use crate::field::FieldKind::{Boolean, Integer, List, Size, Text, Word, Words};
use crate::field::{Field, FieldKind, Table};
use crate::{class, conditioner, file, link, named, queue, receive, rule};

const fn field(name: &'static str, kind: FieldKind, about: &'static str) -> Field {
    Field {
        name,
        kind,
        about,
        default: None,
        required: None,
        former: &[],
    }
}

/// Conditions on a packet that may also stand in `not`.
macro_rules! conditions {
    ($($more:expr),* $(,)?) => {
        &[
            field("protocol", List("udp"), "Upper-layer protocols: names or numbers"),
            field("local-port", List("22"), "Ports of the inside host, ranges or @groups"),
            field("remote-port", List("443"), "Ports of the outside host, ranges or @groups"),
            field("port", List("53"), "Ports of either host, ranges or @groups"),
            field("local-address", List("192.0.2.7"), "Addresses of the inside host, prefixes or @groups"),
            field("remote-address", List("198.51.100.0/24"), "Addresses of the outside host, prefixes or @groups"),
            field("dscp", List("EF"), "Code points: names or numbers"),
            field("tos", Words(&["minimize-delay", "maximize-throughput", "maximize-reliability"]), "The old types of service"),
            field("urgency", Words(&["real-time", "elastic"]), "The delay class of DRT that the code point tells"),
            field("importance", List("4-6"), "The importance of DRT that the code point tells: 1 to 6, ranges"),
            field("length", List("0-256"), "IP packet bytes, headers included; ranges"),
            field("tcp-flags", Text("syn/syn,fin,rst"), "Of the flags after the / exactly those before it are set"),
            field("icmp-type", Words(&["echo-request", "echo-reply", "destination-unreachable", "packet-too-big", "time-exceeded", "parameter-problem", "redirect", "timestamp-request", "timestamp-reply"]), "ICMP types of both IP versions"),
            field("local-mac", List("02:00:5e:10:00:07"), "Cards that upstream packets came from, or @groups"),
            field("interface", List("lan"), "Devices that upstream packets came in through"),
            field("from", Word(&["router", "forwarded"]), "Upstream: the router's own packets, or others'"),
            field("mark", Text("0x10/0xff"), "The packet's mark, set by something else"),
            $($more),*
        ]
    };
}

const PURE_ACK: Field = field(
    "pure-ack",
    Boolean,
    "A TCP acknowledgement without data, by its exact payload length",
);
const PAYLOAD: Field = field(
    "payload",
    Words(&["bittorrent", "edonkey", "gnutella", "directconnect"]),
    "What the first payloads of the packet's flow betray; the rule must keep its decision",
);
const UID: Field = field(
    "uid",
    List("1000"),
    "Users of this machine whose sockets send: numbers or ranges",
);
const GID: Field = field(
    "gid",
    List("100"),
    "Groups of this machine whose sockets send: numbers or ranges",
);
const CGROUP: Field = field(
    "cgroup",
    List("system.slice/backup.service"),
    "Control groups (version 2) of this machine whose sockets send, with those below",
);
const CONNECTION: Field = field(
    "connection",
    FieldKind::Table("connection"),
    "What connection tracking knows",
);

/// Every table of a policy, the file itself first.
pub const TABLES: &[Table] = &[
    file::TABLE,
    link::TABLE,
    link::layer::TABLE,
    link::inbound::TABLE,
    receive::TABLE,
    conditioner::TABLE,
    receive::UDP,
    receive::ANNOUNCED,
    link::track::TABLE,
    class::ack::TABLE,
    class::TABLE,
    queue::TABLE,
    Table {
        name: "rule",
        about: "Which packets go into which class: all conditions must hold, of a list any element",
        rows: &[
            conditions![PURE_ACK, PAYLOAD, UID, GID, CGROUP, CONNECTION],
            rule::OWN,
        ],
    },
    class::part::SHARE,
    class::part::CAP,
    Table {
        name: "not",
        about: "Conditions none of which may hold",
        rows: &[conditions![]],
    },
    Table {
        name: "match",
        about: "One way to be of a service",
        rows: &[conditions![PURE_ACK, PAYLOAD, UID, GID, CGROUP, CONNECTION]],
    },
    Table {
        name: "connection",
        about: "What connection tracking knows",
        rows: &[&[
            field(
                "state",
                Words(&["new", "established", "related", "invalid"]),
                "Its states",
            ),
            field("helper", Text("ftp"), "The conntrack helper that knows it"),
            field(
                "bytes-over",
                Size,
                "More bytes so far, both directions together",
            ),
            field("packets-over", Integer(1, i64::MAX), "More packets so far"),
            field("mean-size", Text("0-200"), "Bytes by packets so far"),
        ]],
    },
    meter::RATE,
    meter::CONNECTIONS,
    rule::RULESET,
    named::group::TABLE,
    named::service::TABLE,
    named::schedule::TABLE,
    rule::treatment::DSCP,
    rule::treatment::MARKS,
];
