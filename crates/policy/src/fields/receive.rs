// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fields of `[receive]`, `[receive.udp]`, `[receive.announced]` and
//! `[track]`.

use crate::field::FieldKind::{
    Amount, Boolean, Integer, List, Map, Rate, Setting, Size, Text, Time, Word,
};
use crate::field::{FieldKind, Table};
use crate::fields::{field, needed};

/// `[receive]`.
pub(crate) const RECEIVE: Table = Table {
    name: "receive",
    about: "How senders are held to a rate from the receiving side",
    rows: &[&[
        field(
            "rate",
            Amount,
            "What all connections of no class of their own may have together, of TCP's payload",
        ),
        field(
            "class",
            Map,
            "Classes with a rate of their own, which their connections share",
        ),
        field(
            "protect",
            List("interactive"),
            "Classes whose connections are not limited",
        ),
        field(
            "protect-mark",
            Text("0x100/0xf00"),
            "The mark of packets, coming or going, of what is not limited",
        ),
        field(
            "algorithm",
            Word(&["ours", "shah-1", "shah-2"]),
            "How receive windows are chosen",
        ),
        field("window", Size, "This receive window and no other"),
        field(
            "segment",
            Setting("auto"),
            "The largest segment that those outside are asked for, in bytes, or by what a \
             connection may have",
        ),
        field(
            "round-trip",
            Time,
            "Of segments that are chosen: the round trip to ends of whom none is known",
        ),
        field(
            "horizon",
            Time,
            "The most that is offered, earned or owed, as a time at the rate",
        ),
        field(
            "hold",
            Time,
            "For how long an acknowledgement is held back at most",
        ),
        field(
            "initial",
            Size,
            "What is on offer before anything came: what a sender may send at once",
        ),
        field("limit", Size, "The largest window of any connection"),
        field("chunk", Time, "The length of a chunk of the measured rate"),
        field("chunks", Integer(1, 64), "How many of them are averaged"),
        field(
            "age",
            Time,
            "The silence after which the measured rate is forgotten",
        ),
        field(
            "udp",
            FieldKind::Table("udp"),
            "How streams of datagrams are held",
        ),
        field(
            "announced",
            FieldKind::Table("announced"),
            "What makes room while a session of high priority is announced",
        ),
    ]],
};

/// `[receive.announced]`.
pub(crate) const ANNOUNCED: Table = Table {
    name: "announced",
    about: "What makes room while a session of high priority is announced",
    rows: &[&[
        field(
            "segment",
            Integer(88, 9000),
            "The largest segment that new connections ask for, in bytes",
        ),
        field(
            "reset",
            Boolean,
            "Whether older connections that have received much are reset",
        ),
    ]],
};

/// `[receive.udp]`.
pub(crate) const UDP: Table = Table {
    name: "udp",
    about: "How streams of datagrams are held to a rate",
    rows: &[&[
        needed("rate", Amount, "What each stream may have, of IP packets"),
        field(
            "mode",
            Word(&["states", "bucket"]),
            "By states, of which the last refuses, or by a token bucket",
        ),
        field("burst", Size, "What the token bucket lets through at once"),
        field(
            "drop-time",
            Time,
            "How long a stream above the rate is discarded",
        ),
        field(
            "warn-time",
            Time,
            "How long it is then delivered before it is judged",
        ),
        field(
            "mark",
            Text("0x08000000"),
            "The bits of a packet's mark that say that it is to be refused",
        ),
        field("chunk", Time, "The length of a chunk of the measured rate"),
        field("chunks", Integer(1, 64), "How many of them are averaged"),
        field("age", Time, "The silence after which a stream begins anew"),
    ]],
};

/// `[track]`.
pub(crate) const TRACK: Table = Table {
    name: "track",
    about: "How the rate of a line is followed that changes",
    rows: &[&[
        field(
            "reflectors",
            List("192.0.2.1"),
            "Addresses of hosts beyond the line that are asked for echoes; nobody else is",
        ),
        field(
            "passive",
            Boolean,
            "Whether round trips of the traffic itself are looked at",
        ),
        field(
            "up-floor",
            Rate,
            "The upstream is never taken below, and here while nothing can be known",
        ),
        field("up-ceiling", Rate, "The upstream is never taken above"),
        field(
            "down-floor",
            Rate,
            "The downstream is never taken below, and here while nothing can be known",
        ),
        field("down-ceiling", Rate, "The downstream is never taken above"),
        field(
            "interval",
            Time,
            "The time between two probes, whoever they go to",
        ),
        field(
            "delay",
            Time,
            "A queue before the line, beside the packet in transmission, that is too long",
        ),
        field(
            "dscp",
            Text("EF"),
            "The code point of probes, by which a rule finds them",
        ),
    ]],
};
