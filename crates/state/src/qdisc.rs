// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queueing disciplines and their classes.

use crate::{CakeFraming, Kit, Listed, Origin, Rows};
use serde::{Deserialize, Serialize};
use weirgate_units::{Handle, Rate, Size, Span, fnv1a_32};

/// A qdisc with everything below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Qdisc {
    /// Its handle; minor 0.
    pub handle: Handle,
    /// The size table; the kernel takes one at the root only.
    pub stab: Option<Stab>,
    /// The discipline and its settings.
    pub kind: QdiscKind,
    /// Which policy line wants it.
    pub origin: Origin,
}

/// A discipline with its settings, every one explicit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum QdiscKind {
    /// Hierarchical token bucket.
    Htb(Htb),
    /// Flow queueing with `CoDel`.
    FqCodel(FqCodel),
    /// Stochastic fairness queueing.
    Sfq(Sfq),
    /// Flow queues that heed the time at which a packet is to leave.
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
    /// A tree that somebody else made and that has no words here, at a root: it can be
    /// put back as it was listed.
    Listed(Listed),
    /// Any other discipline, by name: observed only, never desired.
    Other(String),
}

/// HTB settings and classes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Htb {
    /// Minor number of the class for unclassified packets; 0 sends them
    /// around the shaper, so a desired state never holds 0.
    pub default_minor: u16,
    /// Divisor that gives a quantum to classes without one.
    pub r2q: u32,
    /// How many packets may wait that belong to no class and go around the
    /// shaper; `None` is as many as the device's transmit queue. With 0 there
    /// is no way around it, not even while its classes are being made.
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
    /// Guaranteed rate, in bytes as the root's size table counts them.
    pub rate: Rate,
    /// Greatest rate with borrowing, counted alike.
    pub ceil: Rate,
    /// Bucket of `rate`, in time at that rate: the kernel's own unit.
    pub buffer: Span,
    /// Bucket of `ceil`, in time at that rate.
    pub cbuffer: Span,
    /// 0 (first) to 7.
    pub prio: u8,
    /// Bytes per round among classes of equal priority that borrow.
    pub quantum: u32,
    /// The queue, for a class without children.
    pub leaf: Option<Box<Qdisc>>,
    /// Which policy line wants it.
    pub origin: Origin,
}

/// `fq_codel` settings (tc-`fq_codel`(8)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FqCodel {
    /// Most packets held.
    pub limit: u32,
    /// Number of flow queues.
    pub flows: u32,
    /// Acceptable standing delay.
    pub target: Span,
    /// Time over which the delay must stay high.
    pub interval: Span,
    /// Bytes per round.
    pub quantum: u32,
    /// Marks ECN-capable packets instead of dropping.
    pub ecn: bool,
    /// Most bytes held.
    pub memory_limit: u32,
    /// ECT(1) packets that have waited longer are marked (`ce_threshold` with mask 3
    /// and selector 1).
    #[serde(default)]
    pub ce_threshold: Option<Span>,
}

/// SFQ settings (tc-sfq(8)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sfq {
    /// Most packets held.
    pub limit: u32,
    /// Seconds between changes of the hash; 0 is never.
    pub perturb: u32,
    /// Bytes per round; 0 lets the kernel take the device's MTU.
    pub quantum: u32,
}

/// fq settings (tc-fq(8)): it holds packets until the time that a program gave
/// them, and paces nobody by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fq {
    /// Most packets held.
    pub limit: u32,
    /// Most packets held of one flow.
    pub flow_limit: u32,
}

/// FIFO limited in packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pfifo {
    /// Most packets held.
    pub limit: u32,
}

/// FIFO limited in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bfifo {
    /// Most bytes held, counted as the root's size table counts them.
    pub limit: Size,
}

/// RED settings (tc-red(8)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Red {
    /// Hard limit in bytes.
    pub limit: Size,
    /// Average below which nothing is dropped.
    pub min: Size,
    /// Average at which the probability reaches its maximum.
    pub max: Size,
    /// The maximum probability, in millionths.
    pub probability_millionths: u32,
    /// `Wlog`: weight 2^-n of the newest queue length in the average.
    pub wlog: u8,
    /// `Plog` of the uniform spacing.
    pub plog: u8,
    /// `Scell_log` of the idle decay.
    pub scell_log: u8,
    /// Marks ECN-capable packets.
    pub ecn: bool,
    /// Adapts the probability (ARED).
    pub adaptive: bool,
    /// Bandwidth for the idle decay table.
    pub bandwidth: Rate,
    /// Average packet size for the idle decay table.
    pub avpkt: u32,
}

/// cake settings used by weirgate (tc-cake(8)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cake {
    /// The shaped rate; `None` is unlimited.
    pub bandwidth: Option<Rate>,
    /// Round-trip time for which its AQM is tuned.
    pub rtt: Span,
    /// What a flow is.
    pub flow_mode: CakeFlowMode,
    /// Looks through NAT for the inside host.
    pub nat: bool,
    /// Thins out pure ACKs.
    pub ack_filter: CakeAckFilter,
    /// Counts drops against the shaped rate.
    pub ingress: bool,
    /// Splits GSO packets.
    pub split_gso: bool,
    /// Most bytes held; 0 lets cake choose.
    pub memory_limit: u32,
    /// Into which tins packets go.
    #[serde(default)]
    pub tins: CakeTins,
    /// What a packet costs on the wire; `None` counts as the qdisc above does,
    /// or as the device (`raw`).
    #[serde(default)]
    pub wire: Option<CakeWire>,
}

/// cake's classes, which it calls tins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum CakeTins {
    /// One: what a class's own queue needs.
    #[default]
    BestEffort,
    /// Four, by code point.
    Diffserv4,
}

/// What cake adds to each IP packet (`cake_calc_overhead`, net/sched/sch_cake.c).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CakeWire {
    /// Bytes added to the IP packet, -64 to 256.
    pub overhead: i32,
    /// Smallest size after that, 0 to 256.
    pub mpu: u32,
    /// How bytes travel.
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

/// cake's ACK filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CakeAckFilter {
    /// Off.
    No,
    /// Keeps what fast retransmit needs.
    Filter,
    /// Keeps less.
    Aggressive,
}

/// A size table (`struct tc_sizespec` and its data, linux/pkt_sched.h):
/// what a packet costs on the wire, looked up by its length on the device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stab {
    /// Bytes added to the device's length before the look-up; may be negative.
    pub overhead: i32,
    /// Added after `overhead`, before the shift (tc uses -1 with cells).
    pub cell_align: i16,
    /// Right shift that turns a length into a slot.
    pub cell_log: u8,
    /// Left shift of the value found.
    pub size_log: u8,
    /// Smallest size; informative, the table already holds it.
    pub mpu: u32,
    /// Largest length the table covers.
    pub mtu: u32,
    /// The wire size of each slot, shifted right by `size_log`. Empty in an
    /// observed state whose table nobody remembers: the kernel never shows it
    /// (`qdisc_dump_stab`, net/sched/sch_api.c), only its fingerprint.
    pub data: Vec<u16>,
}

impl Stab {
    /// A hash of the whole table (32-bit FNV-1a over the slots, little
    /// endian). The kernel keeps it for us in `tc_sizespec.linklayer`, which
    /// it neither reads nor changes, so that a table can be recognised again.
    #[must_use]
    pub fn fingerprint(&self) -> u32 {
        let bytes = self.data.iter().flat_map(|slot| slot.to_le_bytes());
        // 0 to 2 are tc's own names: unaware, ethernet, atm.
        fnv1a_32(bytes).max(3)
    }

    /// What the kernel charges for a packet of `length` device bytes
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
    /// The name by which the kernel knows the discipline (`TCA_KIND`).
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
