// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kit's shaper with classes: a BPF qdisc, which must be a root and takes
//! no options, so that its whole configuration goes through maps (`bpf/qdisc/shaper.bpf.c`).

use crate::{KitWire, Origin};
use serde::{Deserialize, Serialize};
use weirgate_units::{Handle, Rate, Span};

/// The shaper: one gate, and classes behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kit {
    /// The gate's rate, on the wire.
    pub gate: Rate,
    /// What a packet costs there.
    pub wire: KitWire,
    /// Bytes of the largest packet, as the device counts.
    pub mtu: u32,
    /// The class of packets whose `skb->priority` names none.
    pub other: Handle,
    /// Whether ECN marks of its classes are made, by a program at the device's
    /// egress: none of the shaper's own may write to a packet.
    #[serde(default)]
    pub marks: bool,
    /// The program, where it is not that of the kit alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<KitProgram>,
    /// Classes by id, up to [`Kit::CLASSES`].
    pub classes: Vec<KitClass>,
}

/// A program of the shaper that has a discipline of one's own beside those of the kit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KitProgram {
    /// The discipline.
    pub discipline: String,
    /// The number of the program: another version of the discipline has another.
    pub number: u64,
    /// The kind's name for the kernel, which follows from the number.
    pub kind: String,
}

impl KitProgram {
    /// What the names of kinds begin with. No discipline's name has a capital.
    pub const KIND: &'static str = "weir_S";

    /// That of a discipline, whose program has this number.
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
    /// The kind's name for the kernel.
    pub const KIND: &'static str = "weir_shaper";
    /// The most classes (`SHAPER_CLASSES`, aqm/host/shaper.h).
    pub const CLASSES: usize = 8;

    /// The kind's name for the kernel, with this program.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.own.as_ref().map_or(Self::KIND, |own| &own.kind)
    }

    /// Whether the kernel calls a shaper so.
    #[must_use]
    pub fn is_kind(kind: &str) -> bool {
        kind == Self::KIND || kind.starts_with(KitProgram::KIND)
    }

    /// The qdisc's handle. The kernel puts no other kind in the place of one of the same
    /// handle (`tc_modify_qdisc`, net/sched/sch_api.c), so each program has its own.
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
    /// Packets with this `skb->priority` are its own.
    pub id: Handle,
    /// What it has before others get any excess, on the wire.
    pub guarantee: Rate,
    /// What it never exceeds; `None` is the link.
    pub ceiling: Option<Rate>,
    /// How far it may fall behind its guarantee and still get it.
    pub credit: Span,
    /// Its share of the excess among equals, from 1.
    pub weight: u32,
    /// 0 (first) to 7.
    pub prio: u8,
    /// Its discipline of the kit, by name.
    pub discipline: String,
    /// The explicit parameters of the discipline, in their order.
    pub settings: Vec<KitSetting>,
    /// Which policy line wants it.
    pub origin: Origin,
}

/// A parameter of a discipline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KitSetting {
    /// Its name in the discipline's table.
    pub name: String,
    /// Its value, in the table's unit.
    pub value: u64,
    /// Observed only: this is what the discipline has where nothing is set.
    #[serde(default)]
    pub usual: bool,
}
