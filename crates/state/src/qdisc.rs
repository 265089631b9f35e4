// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queueing disciplines and their classes.

use crate::{CakeAckFilter, CakeFraming, Kit, Listed, Origin, Rows};
use serde::{Deserialize, Serialize};
use weirgate_units::{Handle, Rate, Size, Span, fnv1a_32};

/// A qdisc with everything below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Qdisc {
    /// Its handle, with minor number 0.
    pub handle: Handle,
    /// The size table, which the kernel accepts at the root only.
    pub stab: Option<Stab>,
    /// The discipline and its settings.
    pub kind: QdiscKind,
    /// The policy line that requires it.
    pub origin: Origin,
}

/// A discipline with its settings, all of them explicit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum QdiscKind {
    /// Hierarchical token bucket.
    Htb(Htb),
    /// Flow queueing with `CoDel`.
    FqCodel(FqCodel),
    /// Stochastic fairness queueing.
    Sfq(Sfq),
    /// Fair queueing that respects the departure time of a packet.
    Fq(Fq),
    /// First in, first out, limited in packets.
    Pfifo(Pfifo),
    /// First in, first out, limited in bytes.
    Bfifo(Bfifo),
    /// Random early detection.
    Red(Red),
    /// Common applications kept enhanced, as a leaf or a root.
    Cake(Cake),
    /// The kit's shaper with classes, at a root.
    Kit(Kit),
    /// The engine of rows, at a root.
    Rows(Rows),
    /// A tree at a root that another program created and that these types cannot describe. It can
    /// be restored as it was listed.
    Listed(Listed),
    /// Any other discipline, by name: only observed, never desired.
    Other(String),
}

/// HTB settings and classes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Htb {
    /// The minor number of the class for unclassified packets. With 0 these packets bypass the
    /// shaper, so a desired state never has 0.
    pub default_minor: u16,
    /// The divisor that computes the quantum of classes without one.
    pub r2q: u32,
    /// The queue limit, in packets, for packets that belong to no class and bypass the shaper;
    /// `None` is the length of the device's transmit queue. With 0 nothing bypasses the shaper, not
    /// even while its classes are being created.
    #[serde(default)]
    pub direct: Option<u32>,
    /// Classes, parents before children, then by id.
    pub classes: Vec<HtbClass>,
}

/// One HTB class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HtbClass {
    /// Its id; the major number is the qdisc's.
    pub id: Handle,
    /// The parent class, or the qdisc's own handle.
    pub parent: Handle,
    /// The guaranteed rate, in bytes as the root's size table counts them.
    pub rate: Rate,
    /// The greatest rate with borrowing, in the same bytes.
    pub ceil: Rate,
    /// The bucket of `rate`, as a time at that rate: the kernel's own unit.
    pub buffer: Span,
    /// The bucket of `ceil`, as a time at that rate.
    pub cbuffer: Span,
    /// Its priority, from 0 (first) to 7.
    pub prio: u8,
    /// The bytes per round among borrowing classes of equal priority.
    pub quantum: u32,
    /// The queue, for a class without children.
    pub leaf: Option<Box<Qdisc>>,
    /// The policy line that requires it.
    pub origin: Origin,
}

/// `fq_codel` settings (tc-`fq_codel`(8)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FqCodel {
    /// The maximum number of packets.
    pub limit: u32,
    /// The number of flow queues.
    pub flows: u32,
    /// The acceptable standing delay.
    pub target: Span,
    /// The time over which the delay must stay high.
    pub interval: Span,
    /// The bytes per round.
    pub quantum: u32,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
    /// The maximum number of bytes.
    pub memory_limit: u32,
    /// The delay beyond which ECT(1) packets are marked (`ce_threshold` with mask 3 and selector
    /// 1).
    #[serde(default)]
    pub ce_threshold: Option<Span>,
}

/// SFQ settings (tc-sfq(8)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sfq {
    /// The maximum number of packets.
    pub limit: u32,
    /// The seconds between changes of the hash; 0 for never.
    pub perturb: u32,
    /// The bytes per round; with 0 the kernel uses the device's MTU.
    pub quantum: u32,
}

/// fq settings (tc-fq(8)). It holds packets until the departure time that a program set, and does
/// no pacing of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fq {
    /// The maximum number of packets.
    pub limit: u32,
    /// The maximum number of packets of one flow.
    pub flow_limit: u32,
}

/// A FIFO limited in packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pfifo {
    /// The maximum number of packets.
    pub limit: u32,
}

/// A FIFO limited in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bfifo {
    /// The maximum number of bytes, as the root's size table counts them.
    pub limit: Size,
}

/// RED settings (tc-red(8)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Red {
    /// The hard limit in bytes.
    pub limit: Size,
    /// The average queue length below which nothing is dropped.
    pub min: Size,
    /// The average queue length at which the probability reaches its maximum.
    pub max: Size,
    /// The maximum probability, in millionths.
    pub probability_millionths: u32,
    /// `Wlog`: the newest queue length enters the average with weight 2^-n.
    pub wlog: u8,
    /// `Plog`, for uniform spacing of drops.
    pub plog: u8,
    /// `Scell_log`, for the decay during idle periods.
    pub scell_log: u8,
    /// Whether ECN-capable packets are marked.
    pub ecn: bool,
    /// Whether the probability is adapted (ARED).
    pub adaptive: bool,
    /// The bandwidth for the idle decay table.
    pub bandwidth: Rate,
    /// The average packet size for the idle decay table.
    pub avpkt: u32,
}

/// The cake settings that weirgate uses (tc-cake(8)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cake {
    /// The shaped rate; `None` is unlimited.
    pub bandwidth: Option<Rate>,
    /// The round-trip time for which its AQM is tuned.
    pub rtt: Span,
    /// What a flow is.
    pub flow_mode: CakeFlowMode,
    /// Whether it looks up the inside host behind NAT.
    pub nat: bool,
    /// The filter of pure ACKs.
    pub ack_filter: CakeAckFilter,
    /// Whether dropped packets count against the shaped rate.
    pub ingress: bool,
    /// Whether GSO packets are split.
    pub split_gso: bool,
    /// The maximum number of bytes; with 0 cake chooses.
    pub memory_limit: u32,
    /// The tins into which packets are divided.
    #[serde(default)]
    pub tins: CakeTins,
    /// The overhead of a packet on the wire; `None` counts like the qdisc above, or like the device
    /// (`raw`).
    #[serde(default)]
    pub wire: Option<CakeWire>,
}

/// cake's classes, called tins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum CakeTins {
    /// One tin, which suffices for a class's own queue.
    #[default]
    BestEffort,
    /// Four tins, by code point.
    Diffserv4,
}

/// The overhead that cake adds to each IP packet (`cake_calc_overhead`, net/sched/sch_cake.c).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CakeWire {
    /// The bytes added to the IP packet, -64 to 256.
    pub overhead: i32,
    /// The minimum size after that, 0 to 256.
    pub mpu: u32,
    /// The framing on the line.
    pub framing: CakeFraming,
}

/// cake's isolation of hosts and flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CakeFlowMode {
    /// No isolation.
    FlowBlind,
    /// By flow.
    Flows,
    /// By host pair, source, destination, then flow (`triple-isolate`).
    Triple,
    /// By source host alone.
    SrcHost,
    /// By destination host alone.
    DstHost,
    /// By source host, then flow.
    DualSrcHost,
    /// By destination host, then flow.
    DualDstHost,
}

/// A size table (`struct tc_sizespec` and its data, linux/pkt_sched.h): the size of a packet on the
/// wire, looked up by its length on the device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stab {
    /// The bytes added to the device's length before the look-up; may be negative.
    pub overhead: i32,
    /// Added after `overhead`, before the shift (tc uses -1 with cells).
    pub cell_align: i16,
    /// The right shift that converts a length to a slot.
    pub cell_log: u8,
    /// The left shift of the value that was looked up.
    pub size_log: u8,
    /// The minimum size; informative, because the table includes it.
    pub mpu: u32,
    /// The largest length that the table covers.
    pub mtu: u32,
    /// The wire size of each slot, shifted right by `size_log`. It is empty in an observed state
    /// whose table is not remembered: the kernel never returns it (`qdisc_dump_stab`,
    /// net/sched/sch_api.c), only its fingerprint.
    pub data: Vec<u16>,
}

impl Stab {
    /// Returns a hash of the whole table (32-bit FNV-1a over the slots, little endian). It is
    /// stored in `tc_sizespec.linklayer`, which the kernel neither reads nor changes, so that a
    /// table can be recognised again.
    #[must_use]
    pub fn fingerprint(&self) -> u32 {
        let bytes = self.data.iter().flat_map(|slot| slot.to_le_bytes());
        // The values 0 to 2 are used by tc: unaware, ethernet, atm.
        fnv1a_32(bytes).max(3)
    }

    /// Returns the size that the kernel charges for a packet of `length` device bytes
    /// (`__qdisc_calculate_pkt_len`, net/sched/sch_api.c).
    #[must_use]
    pub fn charge(&self, length: u32) -> u32 {
        let size = i64::from(length) + i64::from(self.overhead);
        if self.data.is_empty() {
            return u32::try_from(size.max(1)).unwrap_or(u32::MAX);
        }
        // The kernel refuses logarithms above 30 (`STAB_SIZE_LOG_MAX`).
        let (cell_log, size_log) = (self.cell_log.min(30), self.size_log.min(30));
        let slot = (size + i64::from(self.cell_align)).max(0) as usize >> cell_log;
        let slots = self.data.len();
        let value = match self.data.get(slot) {
            Some(value) => u64::from(*value),
            None => {
                u64::from(self.data[slots - 1]) * (slot / slots) as u64
                    + u64::from(self.data[slot % slots])
            }
        };
        u32::try_from((u128::from(value) << size_log).max(1)).unwrap_or(u32::MAX)
    }
}

impl QdiscKind {
    /// Returns the kernel's name of the discipline (`TCA_KIND`).
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Htb(_) => "htb",
            Self::FqCodel(_) => "fq_codel",
            Self::Sfq(_) => "sfq",
            Self::Fq(_) => "fq",
            Self::Pfifo(_) => "pfifo",
            Self::Bfifo(_) => "bfifo",
            Self::Red(_) => "red",
            Self::Cake(_) => "cake",
            Self::Kit(kit) => kit.kind(),
            Self::Rows(_) => Rows::KIND,
            Self::Listed(Listed { name, .. }) | Self::Other(name) => name,
        }
    }
}
