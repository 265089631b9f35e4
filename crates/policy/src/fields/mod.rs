// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fields of a policy as a table, for editors: what `weirgate schema`
//! prints as a JSON Schema.
//!
//! The readers are what counts. A test compares this table with them field by
//! field, in both directions: see `tests/fields.rs`.

pub(crate) mod conditioner;
pub(crate) mod marks;
pub(crate) mod queue;
pub(crate) mod receive;

use crate::field::{Field, FieldKind, Table};
use crate::fields::conditioner::CONDITIONER;
use crate::fields::marks::{DSCP, MARKS};
use crate::fields::receive::{ANNOUNCED, RECEIVE, TRACK, UDP};
use crate::queue::kit::{KindField, KitFields};
use FieldKind::{
    Amount, Boolean, BooleanOrRate, Integer, List, Named, Number, Rate, Share, Size, Tables, Text,
    TextOrTable, Time, Word, Words,
};

pub(crate) const fn field(name: &'static str, kind: FieldKind, about: &'static str) -> Field {
    Field {
        name,
        kind,
        about,
        default: None,
        required: None,
        former: &[],
    }
}

pub(crate) const fn needed(name: &'static str, kind: FieldKind, about: &'static str) -> Field {
    Field {
        required: Some(""),
        ..field(name, kind, about)
    }
}

pub(crate) const DIRECTIONS: FieldKind = Word(&["up", "down", "both"]);
pub(crate) const MOST: i64 = u32::MAX as i64;

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
    Table {
        name: "policy",
        about: "A link and who gets what of it",
        rows: &[&[
            field(
                "version",
                Integer(1, 1),
                "The version of this format; required in the policy itself",
            ),
            field(
                "include",
                List("services/ssh.toml"),
                "Files that belong to the policy",
            ),
            field(
                "final",
                Boolean,
                "Whether a rule that does not say so itself is the last for its packets",
            ),
            field(
                "link",
                FieldKind::Table("link"),
                "The link that is shared; required in the policy itself",
            ),
            field(
                "inbound",
                FieldKind::Table("inbound"),
                "How arriving packets are held to a rate that are not queued",
            ),
            field(
                "receive",
                FieldKind::Table("receive"),
                "How senders are held to a rate from the receiving side",
            ),
            field(
                "track",
                FieldKind::Table("track"),
                "How the rate of a line is followed that changes",
            ),
            field(
                "ack",
                FieldKind::Table("ack"),
                "A reservation for TCP acknowledgements",
            ),
            field("class", Tables("class"), "A part of the link"),
            field("share", Tables("share"), "A group's part of classes"),
            field(
                "conditioner",
                Tables("conditioner"),
                "What measures packets, and does something by their colour",
            ),
            field("cap", Tables("cap"), "A limit for each host of a group"),
            field("rule", Tables("rule"), "Which packets go into which class"),
            field(
                "ruleset",
                Tables("ruleset"),
                "Rules that are switched on and off as one",
            ),
            field(
                "group",
                Named("group"),
                "What rules list by one name, @NAME",
            ),
            field(
                "service",
                Named("service"),
                "Conditions that rules use by one name",
            ),
            field("schedule", Named("schedule"), "Times of day and week"),
            field(
                "dscp",
                FieldKind::Table("dscp"),
                "What is done with code points",
            ),
            field(
                "marks",
                FieldKind::Table("marks"),
                "The bits of a connection's mark that keep decisions",
            ),
        ]],
    },
    crate::link::TABLE,
    crate::link::layer::TABLE,
    Table {
        name: "inbound",
        about: "How arriving packets are held to a rate that are not queued",
        rows: &[&[
            field(
                "ecn",
                Boolean,
                "Whether packets are marked, where senders understand it, and not dropped",
            ),
            field("spare", Size, "A flow is spared until it has sent this"),
            field(
                "flows",
                Word(&["connections", "pairs", "senders", "receivers"]),
                "What one flow is",
            ),
            field(
                "leak",
                Share,
                "What of its share of the link a flow's size loses as time goes by",
            ),
            field(
                "min",
                Size,
                "The virtual queue from which on packets are chosen",
            ),
            field(
                "max",
                Size,
                "The virtual queue at which the probability is the full one",
            ),
            field("burst", Size, "What the policer lets through at once"),
        ]],
    },
    RECEIVE,
    CONDITIONER,
    UDP,
    ANNOUNCED,
    TRACK,
    Table {
        name: "ack",
        about: "A reservation for TCP acknowledgements without data",
        rows: &[&[
            field("reserve", BooleanOrRate, "`true` calculates the rate"),
            field(
                "factor",
                Number,
                "Full data packets that one acknowledgement stands for",
            ),
            field("size", Integer(40, 120), "IP bytes of one acknowledgement"),
            field("priority", Integer(0, 7), "0 first"),
            field("ceiling", Amount, "The most that it gets"),
            field(
                "queue",
                TextOrTable("queue", "bfifo 10kB"),
                "Where its packets wait",
            ),
            field("burst", Size, "What it may send at once beyond its rate"),
            field("direction", DIRECTIONS, "In which directions"),
        ]],
    },
    Table {
        name: "class",
        about: "A part of the link",
        rows: &[&[
            needed(
                "name",
                Text("interactive"),
                "Small letters, digits, - and _, a letter first",
            ),
            field(
                "share",
                Share,
                "Guaranteed part of what reservations by rate leave",
            ),
            field("rate", Rate, "Guaranteed rate"),
            field(
                "ceiling",
                Amount,
                "The most that it gets, also when the link is idle",
            ),
            field(
                "priority",
                Integer(0, 7),
                "Who gets what others leave: 0 first",
            ),
            field(
                "queue",
                TextOrTable("queue", "fq_codel"),
                "Where its packets wait",
            ),
            field(
                "burst",
                Size,
                "What it may send at once beyond its guaranteed rate",
            ),
            field(
                "objective",
                Integer(0, 5),
                "The class of ITU-T Y.1541 whose delay it should have",
            ),
            field(
                "fair",
                <crate::Fair as crate::field::Word>::KIND,
                "Between whom it is shared",
            ),
            field(
                "delay",
                Time,
                "How long one packet of another class may be in the way upstream",
            ),
            field("default", Boolean, "Takes what no rule matches"),
            field("direction", DIRECTIONS, "In which directions"),
        ]],
    },
    Table {
        name: "queue",
        about: "A queue with its settings",
        rows: &[&KindField, &queue::FIELDS, &KitFields],
    },
    Table {
        name: "rule",
        about: "Which packets go into which class: all conditions must hold, of a list any element",
        rows: &[conditions![
            PURE_ACK,
            PAYLOAD,
            UID,
            GID,
            CGROUP,
            CONNECTION,
            field(
                "class",
                Text("interactive"),
                "The class that packets go into"
            ),
            field("direction", DIRECTIONS, "In which directions"),
            field("name", Text("voice"), "The name of its counter"),
            field("final", Boolean, "No later rule sees its packets"),
            field("set-dscp", Text("EF"), "Written into the packet"),
            field(
                "segment",
                Integer(536, 65_495),
                "The largest TCP segment that its SYNs and SYN-ACKs may ask for",
            ),
            field(
                "keep",
                Boolean,
                "Once it matched a packet of a connection, it matches all of them"
            ),
            field("service", List("ssh"), "Services; a packet of any of them"),
            field("during", Text("evening"), "A schedule"),
            field("rate", FieldKind::Table("rate"), "A rate as a condition"),
            field(
                "connections",
                FieldKind::Table("connections"),
                "A number of connections as a condition"
            ),
            field(
                "not",
                FieldKind::Table("not"),
                "Conditions none of which may hold"
            ),
        ]],
    },
    Table {
        name: "share",
        about: "A group's part of classes",
        rows: &[&[
            needed("group", Text("sales"), "A group of addresses"),
            needed("share", Share, "Its part of what each class is guaranteed"),
            field("ceiling", Amount, "The most that it gets in a class"),
            field(
                "classes",
                List("normal"),
                "Which classes; all but `ack` where none is named",
            ),
        ]],
    },
    Table {
        name: "cap",
        about: "A limit for each host of a group",
        rows: &[&[
            needed("group", Text("guests"), "A group of addresses"),
            needed(
                "class",
                Text("guest"),
                "The class in which they are limited",
            ),
            field(
                "up",
                Rate,
                "The most that a host gets upstream, in wire bits",
            ),
            field(
                "down",
                Rate,
                "The most that a host gets downstream, in wire bits",
            ),
        ]],
    },
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
    Table {
        name: "rate",
        about: "A rate as a condition",
        rows: &[&[
            field("over", List("20/s"), "Matches what is beyond the rate"),
            field("within", List("20/s"), "Matches what is not"),
            field(
                "per",
                Word(&["local", "remote", "connection", "all"]),
                "By what packets are told apart",
            ),
            field(
                "burst",
                Integer(1, MOST),
                "How much beyond the rate at once",
            ),
            field(
                "size",
                Integer(1, 262_144),
                "How many hosts or connections are remembered",
            ),
        ]],
    },
    Table {
        name: "connections",
        about: "A number of connections as a condition",
        rows: &[&[
            field("over", List("200"), "Matches what is beyond"),
            field("within", List("200"), "Matches what is not"),
            field(
                "per",
                Word(&["local", "remote", "all"]),
                "By what packets are told apart",
            ),
            field("size", Integer(1, 262_144), "How many hosts are remembered"),
        ]],
    },
    Table {
        name: "ruleset",
        about: "Rules that are switched on and off as one",
        rows: &[&[
            needed("name", Text("syn-limit"), "Its name"),
            field(
                "enabled",
                Boolean,
                "Whether it is on when the policy is applied",
            ),
            field("final", Boolean, "For its rules"),
            needed("rule", Tables("rule"), "Its rules"),
        ]],
    },
    Table {
        name: "group",
        about: "What rules list by one name",
        rows: &[&[
            field(
                "addresses",
                List("192.0.2.80"),
                "Addresses and prefixes of both IP versions",
            ),
            field("ports", List("8000-8080"), "Ports and ranges"),
            field("macs", List("02:00:5e:10:00:80"), "MAC addresses"),
            field(
                "names",
                List("updates.example.org"),
                "DNS names, looked up again and again; not beside `addresses`",
            ),
            field("refresh", Time, "How often names are looked up: 30s to 24h"),
        ]],
    },
    Table {
        name: "service",
        about: "Conditions by one name",
        rows: &[&[
            field("about", Text("Telephones"), "What it is"),
            needed("match", Tables("match"), "One way to be of the service"),
        ]],
    },
    Table {
        name: "schedule",
        about: "Times of day and week",
        rows: &[&[
            field("hours", List("08:00-17:30"), "Parts of a day"),
            field(
                "days",
                Words(&["mon", "tue", "wed", "thu", "fri", "sat", "sun"]),
                "The days on which the hours begin",
            ),
            field(
                "utc-offset",
                Text("+01:00"),
                "How far the clock meant here is ahead of UTC",
            ),
            field(
                "zone",
                Text("Europe/Copenhagen"),
                "The zone whose clock is meant, with its summer time",
            ),
        ]],
    },
    DSCP,
    MARKS,
];
