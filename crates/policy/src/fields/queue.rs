// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fields of a queue: of the kernel's by kind, then those that disciplines
//! of the kit have, which `weirgate aqm list` tells in full.

use crate::field::Field;
use crate::field::FieldKind::{Boolean, Integer, Number, Setting, Size, Text, Time, Word};
use crate::fields::{MOST, field, needed};

pub(crate) const FIELDS: &[Field] = &[
    needed(
        "kind",
        Word(&[
            "bfifo",
            "pfifo",
            "sfq",
            "red",
            "fq_codel",
            "cake",
            "droptail",
            "ared",
            "mered",
            "meredt",
            "codel",
            "pie",
            "wred",
            "fuzzy",
            "drt",
            "weir_droptail",
            "weir_red",
            "weir_ared",
            "weir_mered",
            "weir_meredt",
            "weir_codel",
            "weir_fq_codel",
            "weir_pie",
            "weir_wred",
            "weir_fuzzy",
            "weir_drt",
        ]),
        "The queue",
    ),
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
    // Of the kit.
    field(
        "preset",
        Text("sjf"),
        "Of the kit: settings that belong together",
    ),
    field(
        "limit_packets",
        Setting("50"),
        "Of the kit: how many packets it holds",
    ),
    field(
        "limit_bytes",
        Setting("60kB"),
        "Of the kit: how many bytes it holds",
    ),
    field(
        "min_bytes",
        Setting("5kB"),
        "Of the kit: the lower threshold of the average",
    ),
    field(
        "max_bytes",
        Setting("15kB"),
        "Of the kit: the upper threshold of the average",
    ),
    field(
        "delay_ns",
        Setting("5ms"),
        "Of the kit: the mean delay aimed at where thresholds are automatic",
    ),
    field(
        "weight",
        Setting("0.002"),
        "Of the kit: the weight of one arrival in the average",
    ),
    field(
        "max_p",
        Setting("0.1"),
        "Of the kit: the probability at the upper threshold",
    ),
    field(
        "measure",
        Setting("wire"),
        "Of the kit: what the queue is measured in",
    ),
    field(
        "gentle",
        Setting("limit"),
        "Of the kit: how the probability rises above the upper threshold",
    ),
    field(
        "idle",
        Setting("exact"),
        "Of the kit: how the average falls while the link is idle",
    ),
    field(
        "middle_min_bytes",
        Setting("20kB"),
        "Of the kit: wred: the lower threshold of middle drop precedence",
    ),
    field(
        "middle_max_bytes",
        Setting("30kB"),
        "Of the kit: wred: its upper threshold",
    ),
    field(
        "middle_p",
        Setting("0.1"),
        "Of the kit: wred: the probability there",
    ),
    field(
        "high_min_bytes",
        Setting("10kB"),
        "Of the kit: wred: the lower threshold of high drop precedence",
    ),
    field(
        "high_max_bytes",
        Setting("15kB"),
        "Of the kit: wred: its upper threshold",
    ),
    field(
        "high_p",
        Setting("0.1"),
        "Of the kit: wred: the probability there",
    ),
    field(
        "other",
        Setting("low"),
        "Of the kit: wred: the drop precedence of packets of no assured forwarding class; drt: the importance of packets that tell none",
    ),
    field(
        "rule",
        Setting("middle"),
        "Of the kit: where ARED keeps the average",
    ),
    field(
        "interval_ns",
        Setting("100ms"),
        "Of the kit: ARED: between steps of the probability; CoDel: how long the delay must stay high",
    ),
    field(
        "alpha",
        Setting("0.01"),
        "Of the kit: ARED: a step up; PIE: the weight of the delay",
    ),
    field(
        "beta",
        Setting("0.9"),
        "Of the kit: ARED: a step down; PIE: the weight of its change",
    ),
    field(
        "most_p",
        Setting("0.5"),
        "Of the kit: the greatest probability that ARED takes",
    ),
    field("least_p", Setting("0.01"), "Of the kit: the least"),
    field(
        "queue_bytes",
        Setting("20kB"),
        "Of the kit: a flow that has sent this no longer goes first",
    ),
    field(
        "drop_bytes",
        Setting("20kB"),
        "Of the kit: a flow that has sent this may lose packets",
    ),
    field(
        "age_ns",
        Setting("1min"),
        "Of the kit: a flow silent for this long is forgotten",
    ),
    field("bands", Setting("8"), "Of the kit: queues served in order"),
    field(
        "knot1_bytes",
        Setting("0B"),
        "Of the kit: up to this a flow has weight1",
    ),
    field(
        "knot2_bytes",
        Setting("100kB"),
        "Of the kit: from knot1 to here the weight goes to weight2",
    ),
    field(
        "knot3_bytes",
        Setting("1MB"),
        "Of the kit: from knot2 to here it goes to weight3",
    ),
    field("weight1", Setting("0"), "Of the kit: the weight at knot1"),
    field("weight2", Setting("0.1"), "Of the kit: the weight at knot2"),
    field("weight3", Setting("1"), "Of the kit: the weight at knot3"),
    field(
        "fairness",
        Setting("0.25"),
        "Of the kit: how much of its share of the link a flow's size loses",
    ),
    field(
        "averaged",
        Setting("all"),
        "Of the kit: whose queue is averaged",
    ),
    field(
        "most_loss",
        Setting("0.0625"),
        "Of the kit: how much of a flow is dropped by chance at most",
    ),
    field(
        "mark",
        Setting("drop"),
        "Of the kit: what happens to packets that are chosen",
    ),
    field(
        "spare_ns",
        Setting("1s"),
        "Of the kit: a flow silent for this long gets a packet through",
    ),
    field(
        "reference_bytes",
        Setting("18kB"),
        "Of the kit: fuzzy: the queue to be held",
    ),
    field(
        "gain",
        Setting("0.125"),
        "Of the kit: fuzzy: the largest change of the probability, as a part of it",
    ),
    field(
        "span",
        Setting("0.25"),
        "Of the kit: fuzzy: what movement of the queue is big, as a part of the reference",
    ),
    field(
        "target_ns",
        Setting("5ms"),
        "Of the kit: the delay aimed at",
    ),
    field(
        "ce_threshold_ns",
        Setting("1ms"),
        "Of the kit: what waits for longer is marked",
    ),
    field("mtu_bytes", Setting("1514"), "Of the kit: what is no queue"),
    field(
        "quantum_bytes",
        Setting("1514"),
        "Of the kit: what a flow may send in its turn",
    ),
    field(
        "drop_batch_packets",
        Setting("64"),
        "Of the kit: packets taken from the longest queue at once",
    ),
    field(
        "update_ns",
        Setting("15ms"),
        "Of the kit: between updates of the probability",
    ),
    field(
        "burst_ns",
        Setting("150ms"),
        "Of the kit: a burst of this long is let alone",
    ),
    field(
        "by_size",
        Setting("true"),
        "Of the kit: small packets are dropped less often",
    ),
];
