// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kit's shaper with classes: a BPF qdisc. It must be a root qdisc, and takes no options, so
//! its whole configuration is in maps (`bpf/qdisc/shaper.bpf.c`).

use crate::{CakeAckFilter, KitWire, Origin};
use serde::{Deserialize, Serialize};
use weirgate_units::{Handle, Rate, Span};

/// The shaper: one gate, and classes behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kit {
    /// The gate's rate, on the wire.
    pub gate: Rate,
    /// The overhead of a packet on the wire.
    pub wire: KitWire,
    /// The size of the largest packet in bytes, as the device counts.
    pub mtu: u32,
    /// The class of packets whose `skb->priority` names none.
    pub other: Handle,
    /// Whether ECN marks are made, by a program at the device's egress, because a BPF qdisc may not
    /// write to a packet.
    #[serde(default)]
    pub marks: bool,
    /// Which acknowledgements that wait are dropped, in all classes.
    #[serde(default)]
    pub acks: CakeAckFilter,
    /// The program, if it has a discipline beside those of the kit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<KitProgram>,
    /// Classes by id, up to [`Kit::CLASSES`].
    pub classes: Vec<KitClass>,
}

/// A shaper program that contains a discipline of the user's beside those of the kit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KitProgram {
    /// The discipline.
    pub discipline: String,
    /// The number of the program; another version of the discipline has another number.
    pub number: u64,
    /// The kernel's name of the qdisc kind, which follows from the number.
    pub kind: String,
}

impl KitProgram {
    /// The beginning of the kinds' names. No discipline's name has a capital letter.
    pub const KIND: &'static str = "weir_S";

    /// Returns the program of a discipline with this number.
    #[must_use]
    pub fn new(discipline: &str, number: u64) -> Self {
        Self {
            discipline: discipline.to_owned(),
            number,
            kind: format!("{}{:08x}", Self::KIND, number as u32),
        }
    }
}

impl Kit {
    /// The kernel's name of the qdisc kind.
    pub const KIND: &'static str = "weir_shaper";
    /// The most classes (`SHAPER_CLASSES`, aqm/host/shaper.h).
    pub const CLASSES: usize = 8;

    /// Returns the kernel's name of the qdisc kind of this program.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.own.as_ref().map_or(Self::KIND, |own| &own.kind)
    }

    /// Returns whether this is the kernel's name of a shaper.
    #[must_use]
    pub fn is_kind(kind: &str) -> bool {
        kind == Self::KIND || kind.starts_with(KitProgram::KIND)
    }

    /// Returns the qdisc's handle. The kernel does not replace a qdisc by one of another kind with
    /// the same handle (`tc_modify_qdisc`, net/sched/sch_api.c). So each program has a handle of
    /// its own.
    #[must_use]
    pub fn handle(&self) -> Handle {
        let major = self
            .own
            .as_ref()
            .map_or(1, |own| 1 << 14 | (own.number >> 32) as u16 & 0x3fff);
        Handle::new(major, 0)
    }
}

/// A class of the shaper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KitClass {
    /// Its packets have this `skb->priority`.
    pub id: Handle,
    /// The rate that it gets before others get any excess, on the wire.
    pub guarantee: Rate,
    /// The rate that it never exceeds; `None` is the rate of the link.
    pub ceiling: Option<Rate>,
    /// How much credit it may collect while it sends below its guarantee, as a time.
    pub credit: Span,
    /// Its weight among classes of equal priority that share the excess, at least 1.
    pub weight: u32,
    /// Its priority, from 0 (first) to 7.
    pub prio: u8,
    /// The name of its discipline, one of the kit.
    pub discipline: String,
    /// The explicit parameters of the discipline, in order.
    pub settings: Vec<KitSetting>,
    /// The policy line that requires it.
    pub origin: Origin,
}

/// A parameter of a discipline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KitSetting {
    /// Its name in the discipline's table.
    pub name: String,
    /// Its value, in the table's unit.
    pub value: u64,
    /// Only observed: whether this is the discipline's default.
    #[serde(default)]
    pub usual: bool,
}
