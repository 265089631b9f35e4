// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds a device's tree from the kernel's listings of qdiscs and classes.
//!
//! A qdisc whose settings the state cannot express (cake with three tins, RED in `sfq`, HTB with
//! its own link-layer sizes) is read as [`QdiscKind::Other`]. Reading it as the nearest expressible
//! one would lose its settings.

use super::encode::{ACK_FILTERS, ECN_MASK, ECT_1, FLOW_MODES, FRAMINGS, TINS};
use super::{LINKLAYER_ATM, RED_ADAPTIVE, RED_ECN, TC_H_ROOT, TCA_STAB_BASE, TCMSG};
use crate::netlink::wire::{self, Attrs};
use libc::{TCA_KIND, TCA_OPTIONS, TCA_STAB};
use nlink::netlink::types::tc::qdisc::cake::{
    TCA_CAKE_ACK_FILTER, TCA_CAKE_ATM, TCA_CAKE_AUTORATE, TCA_CAKE_BASE_RATE64,
    TCA_CAKE_DIFFSERV_MODE, TCA_CAKE_FLOW_MODE, TCA_CAKE_FWMARK, TCA_CAKE_INGRESS, TCA_CAKE_MEMORY,
    TCA_CAKE_MPU, TCA_CAKE_NAT, TCA_CAKE_OVERHEAD, TCA_CAKE_RAW, TCA_CAKE_RTT, TCA_CAKE_SPLIT_GSO,
    TCA_CAKE_WASH,
};
use nlink::netlink::types::tc::qdisc::fq::{
    TCA_FQ_BUCKETS_LOG, TCA_FQ_CE_THRESHOLD, TCA_FQ_FLOW_MAX_RATE, TCA_FQ_FLOW_PLIMIT,
    TCA_FQ_FLOW_REFILL_DELAY, TCA_FQ_HORIZON, TCA_FQ_INITIAL_QUANTUM, TCA_FQ_LOW_RATE_THRESHOLD,
    TCA_FQ_ORPHAN_MASK, TCA_FQ_PLIMIT, TCA_FQ_QUANTUM, TCA_FQ_RATE_ENABLE,
};
use nlink::netlink::types::tc::qdisc::fq_codel::{
    TCA_FQ_CODEL_CE_THRESHOLD, TCA_FQ_CODEL_CE_THRESHOLD_MASK, TCA_FQ_CODEL_CE_THRESHOLD_SELECTOR,
    TCA_FQ_CODEL_DROP_BATCH_SIZE, TCA_FQ_CODEL_ECN, TCA_FQ_CODEL_FLOWS, TCA_FQ_CODEL_INTERVAL,
    TCA_FQ_CODEL_LIMIT, TCA_FQ_CODEL_MEMORY_LIMIT, TCA_FQ_CODEL_QUANTUM, TCA_FQ_CODEL_TARGET,
};
use nlink::netlink::types::tc::qdisc::htb::{
    TCA_HTB_CEIL64, TCA_HTB_DIRECT_QLEN, TCA_HTB_INIT, TCA_HTB_OFFLOAD, TCA_HTB_PARMS,
    TCA_HTB_RATE64,
};
use nlink::netlink::types::tc::qdisc::red::{TCA_RED_FLAGS, TCA_RED_MAX_P, TCA_RED_PARMS};
use std::collections::BTreeSet;
use weirgate_plan::TICK_NANOS;
use weirgate_state::{
    Bfifo, Cake, CakeWire, Fq, FqCodel, Htb, HtbClass, Origin, Pfifo, Qdisc, QdiscKind, Red, Sfq,
    Stab,
};
use weirgate_units::{Arrange as _, Handle, Rate, Size, Span};

/// One entry of a listing, qdisc or class: `struct tcmsg` and attributes.
pub(crate) struct Entry<'a> {
    pub(crate) ifindex: u32,
    pub(crate) handle: u32,
    pub(crate) parent: u32,
    pub(crate) kind: String,
    pub(crate) attrs: Attrs<'a>,
}

impl<'a> Entry<'a> {
    /// Reads an entry; `None` if there are too few bytes.
    pub(crate) fn of(payload: &'a [u8]) -> Option<Self> {
        let attrs = Attrs::after(payload, TCMSG);
        Some(Self {
            ifindex: wire::u32_at(payload, 4)?,
            handle: wire::u32_at(payload, 8)?,
            parent: wire::u32_at(payload, 12)?,
            kind: attrs.text(TCA_KIND)?,
            attrs,
        })
    }
}

/// Returns the root qdisc of a device with everything below it; `None` for the kernel's default,
/// which has no handle. `known` are size tables that may be recognised.
pub(crate) fn tree(qdiscs: &[Entry<'_>], classes: &[Entry<'_>], known: &[Stab]) -> Option<Qdisc> {
    let root = qdiscs
        .iter()
        .find(|entry| entry.parent == TC_H_ROOT && entry.handle >> 16 != 0)?;
    let mut seen = BTreeSet::new();
    Some(qdisc(root, qdiscs, classes, known, &mut seen))
}

/// Returns whether the state can describe the whole tree.
pub(crate) fn is_expressible(qdisc: &Qdisc) -> bool {
    match &qdisc.kind {
        QdiscKind::Other(_) => false,
        QdiscKind::Htb(htb) => {
            let mut leaves = htb.classes.iter().filter_map(|class| class.leaf.as_ref());
            leaves.all(|leaf| is_expressible(leaf))
        }
        _ => true,
    }
}

fn qdisc(
    entry: &Entry<'_>,
    qdiscs: &[Entry<'_>],
    classes: &[Entry<'_>],
    known: &[Stab],
    seen: &mut BTreeSet<u32>,
) -> Qdisc {
    // Do not recurse without end if a listing names a qdisc twice.
    let first = seen.insert(entry.handle);
    let kind = if entry.kind == "htb" && first {
        htb(entry, qdiscs, classes, seen)
    } else {
        leaf(&entry.kind, &entry.attrs)
    };
    Qdisc {
        handle: Handle::from_u32(entry.handle),
        stab: stab(&entry.attrs, known),
        kind: kind.unwrap_or_else(|| QdiscKind::Other(entry.kind.clone())),
        origin: Origin::default(),
    }
}

fn htb(
    entry: &Entry<'_>,
    qdiscs: &[Entry<'_>],
    classes: &[Entry<'_>],
    seen: &mut BTreeSet<u32>,
) -> Option<QdiscKind> {
    let options = entry.attrs.nest(TCA_OPTIONS);
    if options.has(TCA_HTB_OFFLOAD) {
        return None;
    }
    let glob = options.bytes(TCA_HTB_INIT)?;
    let mut own = Vec::new();
    for class in classes {
        if class.handle >> 16 != entry.handle >> 16 || class.kind != "htb" {
            continue;
        }
        let mut read = htb_class(class)?;
        read.leaf = qdiscs
            .iter()
            .find(|leaf| leaf.parent == class.handle && leaf.handle >> 16 != 0)
            .map(|leaf| Box::new(qdisc(leaf, qdiscs, classes, &[], seen)));
        own.push(read);
    }
    own.arrange_by_key(|class| class.id);
    Some(QdiscKind::Htb(Htb {
        r2q: wire::u32_at(glob, 4)?,
        default_minor: wire::u32_at(glob, 8)? as u16,
        direct: options.u32(TCA_HTB_DIRECT_QLEN),
        classes: own,
    }))
}

/// Reads an HTB class; `None` for a class that computes sizes itself, which weirgate's never do.
pub(crate) fn htb_class(entry: &Entry<'_>) -> Option<HtbClass> {
    let options = entry.attrs.nest(TCA_OPTIONS);
    let parms = options.bytes(TCA_HTB_PARMS)?;
    let rate = |spec: usize, wide: u16| -> Option<Rate> {
        let own_sizes = wire::u8_at(parms, spec + 1)? == LINKLAYER_ATM
            || wire::u16_at(parms, spec + 2)? != 0
            || wire::u16_at(parms, spec + 6)? != 0;
        let narrow = u64::from(wire::u32_at(parms, spec + 8)?);
        let bytes = options.u64(wide).unwrap_or(narrow);
        (!own_sizes).then(|| Rate::bits_per_second(bytes.saturating_mul(8)))
    };
    let span = |offset| -> Option<Span> {
        let ticks = u64::from(wire::u32_at(parms, offset)?);
        Some(Span::from_nanos(ticks * TICK_NANOS))
    };
    let id = Handle::from_u32(entry.handle);
    Some(HtbClass {
        id,
        parent: match entry.parent {
            TC_H_ROOT => Handle::new(id.major, 0),
            parent => Handle::from_u32(parent),
        },
        rate: rate(0, TCA_HTB_RATE64)?,
        ceil: rate(12, TCA_HTB_CEIL64)?,
        buffer: span(24)?,
        cbuffer: span(28)?,
        quantum: wire::u32_at(parms, 32)?,
        prio: wire::u32_at(parms, 40)?.min(7) as u8,
        leaf: None,
        origin: Origin::default(),
    })
}

/// Reads a qdisc without classes; `None` for one that the state cannot express.
fn leaf(kind: &str, attrs: &Attrs<'_>) -> Option<QdiscKind> {
    let raw = attrs.bytes(TCA_OPTIONS).unwrap_or_default();
    let options = attrs.nest(TCA_OPTIONS);
    match kind {
        "fq_codel" => fq_codel(&options).map(QdiscKind::FqCodel),
        "sfq" => sfq(raw).map(QdiscKind::Sfq),
        "fq" => fq(&options).map(QdiscKind::Fq),
        "pfifo" => Some(QdiscKind::Pfifo(Pfifo {
            limit: wire::u32_at(raw, 0)?,
        })),
        "bfifo" => Some(QdiscKind::Bfifo(Bfifo {
            limit: Size::bytes(u64::from(wire::u32_at(raw, 0)?)),
        })),
        "red" => red(&options).map(QdiscKind::Red),
        "cake" => cake(&options).map(QdiscKind::Cake),
        _ => None,
    }
}

/// Reads fq. Settings that the state cannot express must have the kernel's defaults (`fq_init`,
/// net/sched/sch_fq.c). The quanta followed from the device's MTU at creation.
fn fq(options: &Attrs<'_>) -> Option<Fq> {
    const OWN: [(u16, u32); 8] = [
        (TCA_FQ_RATE_ENABLE, 0),
        (TCA_FQ_FLOW_MAX_RATE, u32::MAX),
        (TCA_FQ_FLOW_REFILL_DELAY, 40_000),
        (TCA_FQ_ORPHAN_MASK, 1_023),
        (TCA_FQ_LOW_RATE_THRESHOLD, 550_000 / 8),
        (TCA_FQ_CE_THRESHOLD, u32::MAX),
        (TCA_FQ_BUCKETS_LOG, 10),
        (TCA_FQ_HORIZON, 10_000_000),
    ];
    // Older kernels do not list all of these.
    let other = |(kind, own): (u16, u32)| options.u32(kind).is_some_and(|value| value != own);
    let quantum = options.u32(TCA_FQ_QUANTUM)?;
    let first = options.u32(TCA_FQ_INITIAL_QUANTUM)?;
    if options.u32(TCA_FQ_RATE_ENABLE)? != 0
        || OWN.into_iter().any(other)
        || u64::from(first) != u64::from(quantum) * 5
    {
        return None;
    }
    Some(Fq {
        limit: options.u32(TCA_FQ_PLIMIT)?,
        flow_limit: options.u32(TCA_FQ_FLOW_PLIMIT)?,
    })
}

fn fq_codel(options: &Attrs<'_>) -> Option<FqCodel> {
    // `fq_codel_init`, net/sched/sch_fq_codel.c.
    const DROP_BATCH: u32 = 64;
    let batch = options.u32(TCA_FQ_CODEL_DROP_BATCH_SIZE);
    if batch.is_some_and(|own| own != DROP_BATCH) {
        return None;
    }
    // The kernel stores units of 1024 ns and lists whole microseconds, rounded down. The shortest
    // time that it stores in the same way is what was written.
    let span = |kind| -> Option<Span> {
        let units = (u64::from(options.u32(kind)?) * 1_000).div_ceil(1_024);
        Some(Span::from_micros((units * 1_024).div_ceil(1_000)))
    };
    let ce_threshold = if options.has(TCA_FQ_CODEL_CE_THRESHOLD) {
        let field = |kind| options.bytes(kind).and_then(|bytes| bytes.first().copied());
        // A threshold for anything but ECT(1) is not weirgate's.
        let whom = (
            field(TCA_FQ_CODEL_CE_THRESHOLD_SELECTOR)?,
            field(TCA_FQ_CODEL_CE_THRESHOLD_MASK)?,
        );
        if whom != (ECT_1, ECN_MASK) {
            return None;
        }
        Some(span(TCA_FQ_CODEL_CE_THRESHOLD)?)
    } else {
        None
    };
    Some(FqCodel {
        limit: options.u32(TCA_FQ_CODEL_LIMIT)?,
        flows: options.u32(TCA_FQ_CODEL_FLOWS)?,
        target: span(TCA_FQ_CODEL_TARGET)?,
        interval: span(TCA_FQ_CODEL_INTERVAL)?,
        quantum: options.u32(TCA_FQ_CODEL_QUANTUM)?,
        ecn: options.u32(TCA_FQ_CODEL_ECN)? != 0,
        memory_limit: options.u32(TCA_FQ_CODEL_MEMORY_LIMIT)?,
        ce_threshold,
    })
}

/// Reads `struct tc_sfq_qopt_v1`; RED inside `sfq` and head drop are not weirgate's.
fn sfq(raw: &[u8]) -> Option<Sfq> {
    let head_drop = wire::u32_at(raw, 24).unwrap_or(0) != 0;
    let red = wire::u32_at(raw, 32).unwrap_or(0) != 0;
    // `sfq_init`, net/sched/sch_sfq.c: 1,024 buckets, 128 flows of 127 packets, fewer with a lower
    // limit.
    let limit = wire::u32_at(raw, 8)?;
    let other = |at, own: u32| wire::u32_at(raw, at).is_some_and(|value| value != own);
    if head_drop || red || other(12, 1_024) || other(16, limit.min(128)) || other(20, 127) {
        return None;
    }
    Some(Sfq {
        quantum: wire::u32_at(raw, 0)?,
        perturb: wire::u32_at(raw, 4)?,
        limit: wire::u32_at(raw, 8)?,
    })
}

fn red(options: &Attrs<'_>) -> Option<Red> {
    let parms = options.bytes(TCA_RED_PARMS)?;
    let size = |offset| Some(Size::bytes(u64::from(wire::u32_at(parms, offset)?)));
    let flags = wire::u8_at(parms, 15)?;
    // Newer flags have an attribute of their own.
    let all = options.u32(TCA_RED_FLAGS).unwrap_or(0) | u32::from(flags);
    if all & !u32::from(RED_ECN | RED_ADAPTIVE) != 0 {
        return None;
    }
    let fraction = u64::from(options.u32(TCA_RED_MAX_P)?);
    Some(Red {
        limit: size(0)?,
        min: size(4)?,
        max: size(8)?,
        probability_millionths: ((fraction * 1_000_000 + (1 << 31)) >> 32) as u32,
        wlog: wire::u8_at(parms, 12)?,
        plog: wire::u8_at(parms, 13)?,
        scell_log: wire::u8_at(parms, 14)?,
        ecn: flags & RED_ECN != 0,
        adaptive: flags & RED_ADAPTIVE != 0,
        // The kernel lists neither: they are in the idle table.
        bandwidth: Rate::default(),
        avpkt: 0,
    })
}

fn cake(options: &Attrs<'_>) -> Option<Cake> {
    let unsaid = [TCA_CAKE_WASH, TCA_CAKE_FWMARK, TCA_CAKE_AUTORATE];
    if unsaid
        .into_iter()
        .any(|kind| options.u32(kind).unwrap_or(0) != 0)
    {
        return None;
    }
    let mode = options.u32(TCA_CAKE_DIFFSERV_MODE)?;
    let tins = TINS.iter().find(|pair| pair.1 == mode)?.0;
    let wire = if options.has(TCA_CAKE_RAW) {
        None
    } else {
        let framing = options.u32(TCA_CAKE_ATM)?;
        Some(CakeWire {
            overhead: options.u32(TCA_CAKE_OVERHEAD)? as i32,
            mpu: options.u32(TCA_CAKE_MPU)?,
            framing: FRAMINGS.iter().find(|pair| pair.1 == framing)?.0,
        })
    };
    let flow_mode = options.u32(TCA_CAKE_FLOW_MODE)?;
    let ack_filter = options.u32(TCA_CAKE_ACK_FILTER)?;
    let rate = options.u64(TCA_CAKE_BASE_RATE64)?;
    Some(Cake {
        bandwidth: (rate != 0).then(|| Rate::bits_per_second(rate.saturating_mul(8))),
        rtt: Span::from_micros(u64::from(options.u32(TCA_CAKE_RTT)?)),
        flow_mode: FLOW_MODES.iter().find(|pair| pair.1 == flow_mode)?.0,
        nat: options.u32(TCA_CAKE_NAT)? != 0,
        ack_filter: ACK_FILTERS.iter().find(|pair| pair.1 == ack_filter)?.0,
        ingress: options.u32(TCA_CAKE_INGRESS)? != 0,
        split_gso: options.u32(TCA_CAKE_SPLIT_GSO)? != 0,
        memory_limit: options.u32(TCA_CAKE_MEMORY)?,
        tins,
        wire,
    })
}

/// Returns the rate of a cake at a device's root, if it shapes.
pub(crate) fn cake_rate(entry: &Entry<'_>) -> Option<Rate> {
    if entry.kind != "cake" || entry.parent != TC_H_ROOT {
        return None;
    }
    let bytes = entry.attrs.nest(TCA_OPTIONS).u64(TCA_CAKE_BASE_RATE64)?;
    (bytes != 0).then(|| Rate::bits_per_second(bytes.saturating_mul(8)))
}

/// Reads the size table: its numbers from the kernel, and its slots from a known table with the
/// same numbers and fingerprint. An unknown table has no slots.
fn stab(attrs: &Attrs<'_>, known: &[Stab]) -> Option<Stab> {
    let nest = attrs.nest(TCA_STAB);
    let base = nest.bytes(TCA_STAB_BASE)?;
    let fingerprint = wire::u32_at(base, 8)?;
    let slots = wire::u32_at(base, 20)?;
    let numbers = Stab {
        cell_log: wire::u8_at(base, 0)?,
        size_log: wire::u8_at(base, 1)?,
        cell_align: wire::i16_at(base, 2)?,
        overhead: wire::i32_at(base, 4)?,
        mpu: wire::u32_at(base, 12)?,
        mtu: wire::u32_at(base, 16)?,
        data: Vec::new(),
    };
    let same = |table: &&Stab| {
        table.data.len() == slots as usize
            && table.fingerprint() == fingerprint
            && Stab {
                data: Vec::new(),
                ..(*table).clone()
            } == numbers
    };
    Some(known.iter().find(same).cloned().unwrap_or(numbers))
}
