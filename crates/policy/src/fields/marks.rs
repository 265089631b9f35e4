// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fields of `[dscp]` and `[marks]`.

use crate::field::FieldKind::{List, Map, Text};
use crate::field::Table;
use crate::fields::{DIRECTIONS, field};

/// `[dscp]`.
pub(crate) const DSCP: Table = Table {
    name: "dscp",
    about: "What is done with code points",
    rows: &[&[
        field("distrust", DIRECTIONS, "Cleared before any rule sees them"),
        field("wash", DIRECTIONS, "Cleared after the rules"),
        field(
            "map",
            Map,
            "Written in place of others before any rule sees them",
        ),
        field("except", List("NQB"), "Code points that clearing leaves"),
    ]],
};

/// `[marks]`.
pub(crate) const MARKS: Table = Table {
    name: "marks",
    about: "The bits of marks that are weirgate's",
    rows: &[&[
        field("mask", Text("0x0000ff00"), "The bits, which stand together"),
        field(
            "payload",
            Text("0x07000000"),
            "Three bits of a packet's mark that say what its payload betrays",
        ),
        field(
            "cgroup",
            Text("0xf0000000"),
            "Those that number its sender's control group",
        ),
        field("inside", Text("0x0000ff00"), "The same for its inside host"),
    ]],
};
