// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fields of `[[conditioner]]`.

use crate::field::FieldKind::{Boolean, Integer, List, Number, Rate, Size, Text, Time, Word};
use crate::field::Table;
use crate::fields::{field, needed};

/// `[[conditioner]]`.
pub(crate) const CONDITIONER: Table = Table {
    name: "conditioner",
    about: "Which packets are measured, by what, and what is done with each colour",
    rows: &[&[
        needed("name", Text("gold"), "Its name, by which it is counted"),
        field(
            "at",
            Word(&["enter", "leave"]),
            "Whether packets that enter the device or those that leave it",
        ),
        field(
            "device",
            Text("wan"),
            "The device: that of the link, or one of `lan`",
        ),
        field(
            "class",
            List("interactive"),
            "Classes that it is about, where packets have one",
        ),
        field(
            "local-address",
            List("192.0.2.7"),
            "Addresses of the inside host, prefixes or @groups",
        ),
        field(
            "remote-address",
            List("198.51.100.0/24"),
            "Addresses of the outside host, prefixes or @groups",
        ),
        field(
            "protocol",
            List("udp"),
            "What packets carry: names or numbers",
        ),
        field(
            "local-port",
            List("5060"),
            "Ports of the inside host, ranges or @groups",
        ),
        field(
            "remote-port",
            List("10000-20000"),
            "Ports of the outside host, ranges or @groups",
        ),
        field("dscp", List("EF"), "Code points: names or numbers"),
        field(
            "meter",
            Word(&["bucket", "srtcm", "trtcm", "average", "moving"]),
            "What it measures by; without one every packet is green",
        ),
        field(
            "nominal",
            Rate,
            "DRT's nominal bit rate, of IP packets, in place of a meter and colours",
        ),
        field(
            "urgency",
            Word(&["real-time", "elastic"]),
            "With nominal: the delay class that packets get",
        ),
        field(
            "importance",
            Integer(1, 6),
            "With nominal: what packets within it get; beyond it less",
        ),
        field("rate", Rate, "The rate (CIR), of IP packets"),
        field("burst", Size, "What may come at once (CBS), in IP bytes"),
        field("excess", Size, "What may come beyond that (EBS); srtcm"),
        field("peak", Rate, "The peak rate (PIR); trtcm"),
        field(
            "peak-burst",
            Size,
            "What may come at once at the peak rate (PBS); trtcm",
        ),
        field(
            "smallest",
            Size,
            "What a smaller packet is measured as, in IP bytes",
        ),
        field("interval", Time, "What is averaged over; average, moving"),
        field("gain", Number, "The weight of the last interval; moving"),
        field(
            "aware",
            Boolean,
            "Whether the drop precedences that packets bring count",
        ),
        field("green", Text("AF11"), "`pass`, `drop` or a code point"),
        field("yellow", Text("AF12"), "`pass`, `drop` or a code point"),
        field("red", Text("drop"), "`pass`, `drop` or a code point"),
    ]],
};
