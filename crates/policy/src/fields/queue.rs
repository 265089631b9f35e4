// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fields of a queue of the kernel's. Those of a discipline of the kit, and the
//! names of all queues, follow from the tables of disciplines (`queue/kit.rs`).

use crate::field::Field;
use crate::field::FieldKind::{Boolean, Integer, Number, Setting, Size, Time};
use crate::fields::{MOST, field};

pub(crate) const FIELDS: &[Field] = &[
    field(
        "limit",
        Size,
        "What it holds: bytes for bfifo and red, else packets",
    ),
    field(
        "perturb",
        Integer(0, MOST),
        "sfq: seconds between changes of the hash",
    ),
    field("min", Size, "red: below this average nothing is dropped"),
    field(
        "max",
        Size,
        "red: at this average the probability is greatest",
    ),
    field("probability", Number, "red: the greatest probability"),
    field("ecn", Setting("true"), "Marks instead of dropping"),
    field("adaptive", Boolean, "red: adapts the probability"),
    field(
        "flows",
        Setting("pairs"),
        "fq_codel: how many queues of flows; of the kit: what makes a flow",
    ),
    field("target", Time, "fq_codel: acceptable standing delay"),
    field(
        "interval",
        Time,
        "fq_codel: how long the delay must stay high",
    ),
    field("quantum", Integer(64, MOST), "fq_codel: bytes per round"),
    field("memory", Size, "The most that it holds"),
    field("rtt", Time, "cake: the round-trip time that it is for"),
    field("nat", Boolean, "cake: looks through address translation"),
];
