// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests that add, change and delete qdiscs and classes, with the exact values of the state:
//! buckets in ticks, and size tables slot by slot.

use super::{
    HTB_VERSION, LINKLAYER_ETHERNET, RED_ADAPTIVE, RED_ECN, TC_H_ROOT, TCA_STAB_BASE, TCA_STAB_DATA,
};
use libc::{
    RTM_DELQDISC, RTM_DELTCLASS, RTM_NEWQDISC, RTM_NEWTCLASS, TCA_KIND, TCA_OPTIONS, TCA_STAB,
};
use nlink::netlink::MessageBuilder;
use nlink::netlink::message::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST};
use nlink::netlink::types::tc::qdisc::cake::{
    CAKE_DIFFSERV_BESTEFFORT, CAKE_DIFFSERV_DIFFSERV4, TCA_CAKE_ACK_FILTER, TCA_CAKE_ATM,
    TCA_CAKE_BASE_RATE64, TCA_CAKE_DIFFSERV_MODE, TCA_CAKE_FLOW_MODE, TCA_CAKE_INGRESS,
    TCA_CAKE_MEMORY, TCA_CAKE_MPU, TCA_CAKE_NAT, TCA_CAKE_OVERHEAD, TCA_CAKE_RAW, TCA_CAKE_RTT,
    TCA_CAKE_SPLIT_GSO, TCA_CAKE_TARGET,
};
use nlink::netlink::types::tc::qdisc::fq::{TCA_FQ_FLOW_PLIMIT, TCA_FQ_PLIMIT, TCA_FQ_RATE_ENABLE};
use nlink::netlink::types::tc::qdisc::fq_codel::{
    TCA_FQ_CODEL_CE_THRESHOLD, TCA_FQ_CODEL_CE_THRESHOLD_MASK, TCA_FQ_CODEL_CE_THRESHOLD_SELECTOR,
    TCA_FQ_CODEL_ECN, TCA_FQ_CODEL_FLOWS, TCA_FQ_CODEL_INTERVAL, TCA_FQ_CODEL_LIMIT,
    TCA_FQ_CODEL_MEMORY_LIMIT, TCA_FQ_CODEL_QUANTUM, TCA_FQ_CODEL_TARGET,
};
use nlink::netlink::types::tc::qdisc::htb::{
    TCA_HTB_CEIL64, TCA_HTB_DIRECT_QLEN, TCA_HTB_INIT, TCA_HTB_PARMS, TCA_HTB_RATE64,
};
use nlink::netlink::types::tc::qdisc::red::{TCA_RED_MAX_P, TCA_RED_PARMS, TCA_RED_STAB};
use weirgate_plan::{QdiscParent, TICK_NANOS};
use weirgate_state::{
    CakeAckFilter, CakeFlowMode, CakeFraming, CakeTins, HtbClass, Qdisc, QdiscKind, Red, Stab,
};
use weirgate_units::{Handle, Rate, Span};

/// fq_codel's threshold applies to packets with ECT(1) in the ECN field (RFC 9331 section 2): the
/// field's bits in the DS byte, and their value.
pub(super) const ECN_MASK: u8 = 3;
pub(super) const ECT_1: u8 = 1;

/// A threshold of this many microseconds means none: the least that the kernel stores as
/// `CODEL_DISABLED_THRESHOLD` (include/net/codel.h), 2^31 - 1 units of 1024 ns.
const NO_THRESHOLD: u32 = 2_199_023_255;

/// Returns a traffic-control request with its `struct tcmsg`.
pub(crate) fn message(
    kind: u16,
    flags: u16,
    ifindex: u32,
    handle: u32,
    parent: u32,
) -> MessageBuilder {
    let mut message = MessageBuilder::new(kind, NLM_F_REQUEST | flags);
    let mut header = Vec::with_capacity(super::TCMSG);
    header.extend([0_u8; 4]);
    header.extend((ifindex as i32).to_ne_bytes());
    header.extend(handle.to_ne_bytes());
    header.extend(parent.to_ne_bytes());
    header.extend([0_u8; 4]);
    message.append_bytes(&header);
    message
}

fn parent_of(parent: QdiscParent) -> u32 {
    match parent {
        QdiscParent::Root => TC_H_ROOT,
        QdiscParent::Class(id) => id.as_u32(),
    }
}

/// Adds a qdisc; the kernel refuses this if there is one other than its default.
pub(crate) fn add_qdisc(ifindex: u32, parent: QdiscParent, qdisc: &Qdisc) -> MessageBuilder {
    add_of_kind(ifindex, parent, qdisc, qdisc.kind.name())
}

/// Replaces any qdisc by one with a new handle.
pub(crate) fn replace_qdisc(ifindex: u32, parent: QdiscParent, qdisc: &Qdisc) -> MessageBuilder {
    replace_of_kind(ifindex, parent, qdisc, qdisc.kind.name())
}

/// Changes an existing qdisc.
pub(crate) fn change_qdisc(ifindex: u32, parent: QdiscParent, qdisc: &Qdisc) -> MessageBuilder {
    whole_qdisc(0, ifindex, parent, qdisc, qdisc.kind.name())
}

/// Does the same as [`add_qdisc`] for a kind that has another name in the kernel.
pub(crate) fn add_of_kind(
    ifindex: u32,
    parent: QdiscParent,
    qdisc: &Qdisc,
    kind: &str,
) -> MessageBuilder {
    whole_qdisc(NLM_F_CREATE | NLM_F_EXCL, ifindex, parent, qdisc, kind)
}

/// Does the same as [`replace_qdisc`] for a kind that has another name in the kernel.
pub(crate) fn replace_of_kind(
    ifindex: u32,
    parent: QdiscParent,
    qdisc: &Qdisc,
    kind: &str,
) -> MessageBuilder {
    whole_qdisc(NLM_F_CREATE | NLM_F_REPLACE, ifindex, parent, qdisc, kind)
}

fn whole_qdisc(
    flags: u16,
    ifindex: u32,
    parent: QdiscParent,
    qdisc: &Qdisc,
    kind: &str,
) -> MessageBuilder {
    let handle = qdisc.handle.as_u32();
    let mut message = message(RTM_NEWQDISC, flags, ifindex, handle, parent_of(parent));
    message.append_attr_str(TCA_KIND, kind);
    options(&mut message, &qdisc.kind, flags & NLM_F_CREATE == 0);
    if let Some(stab) = &qdisc.stab {
        size_table(&mut message, stab);
    }
    message
}

/// Replaces the size table of the root. Without `TCA_OPTIONS` the kernel does not call the qdisc,
/// so this works for HTB too (`qdisc_change`, net/sched/sch_api.c).
pub(crate) fn change_stab(ifindex: u32, handle: Handle, stab: Option<&Stab>) -> MessageBuilder {
    let mut message = message(RTM_NEWQDISC, 0, ifindex, handle.as_u32(), TC_H_ROOT);
    if let Some(stab) = stab {
        size_table(&mut message, stab);
    }
    message
}

/// Deletes a qdisc.
pub(crate) fn delete_qdisc(ifindex: u32, parent: QdiscParent, handle: Handle) -> MessageBuilder {
    message(RTM_DELQDISC, 0, ifindex, handle.as_u32(), parent_of(parent))
}

/// Adds an HTB class.
pub(crate) fn add_class(ifindex: u32, class: &HtbClass) -> MessageBuilder {
    htb_class(NLM_F_CREATE | NLM_F_EXCL, ifindex, class)
}

/// Changes an existing HTB class.
pub(crate) fn change_class(ifindex: u32, class: &HtbClass) -> MessageBuilder {
    htb_class(0, ifindex, class)
}

/// Deletes an HTB class.
pub(crate) fn delete_class(ifindex: u32, id: Handle) -> MessageBuilder {
    message(RTM_DELTCLASS, 0, ifindex, id.as_u32(), 0)
}

fn htb_class(flags: u16, ifindex: u32, class: &HtbClass) -> MessageBuilder {
    let id = class.id.as_u32();
    let mut message = message(RTM_NEWTCLASS, flags, ifindex, id, class.parent.as_u32());
    message.append_attr_str(TCA_KIND, "htb");
    let nest = message.nest_start(TCA_OPTIONS);
    let (rate, ceil) = (
        class.rate.as_bytes_per_second(),
        class.ceil.as_bytes_per_second(),
    );
    // The 32-bit fields of struct tc_ratespec end at 34.36 Gbit/s.
    for (bytes, kind) in [(rate, TCA_HTB_RATE64), (ceil, TCA_HTB_CEIL64)] {
        if u32::try_from(bytes).is_err() {
            message.append_attr_u64(kind, bytes);
        }
    }
    let mut parms = Vec::with_capacity(44);
    parms.extend(rate_spec(rate));
    parms.extend(rate_spec(ceil));
    for value in [
        ticks(class.buffer),
        ticks(class.cbuffer),
        class.quantum,
        0,
        u32::from(class.prio),
    ] {
        parms.extend(value.to_ne_bytes());
    }
    message.append_attr(TCA_HTB_PARMS, &parms);
    message.nest_end(nest);
    message
}

/// Returns `struct tc_ratespec` without overhead and minimum, which the size table includes
/// already.
fn rate_spec(bytes: u64) -> Vec<u8> {
    let mut spec = vec![0, LINKLAYER_ETHERNET, 0, 0, 0, 0, 0, 0];
    spec.extend(u32::try_from(bytes).unwrap_or(u32::MAX).to_ne_bytes());
    spec
}

/// Converts a time to ticks of 64 ns, rounded up.
fn ticks(span: Span) -> u32 {
    u32::try_from(span.as_nanos().div_ceil(TICK_NANOS)).unwrap_or(u32::MAX)
}

fn micros(span: Span) -> u32 {
    u32::try_from(span.as_nanos() / 1_000).unwrap_or(u32::MAX)
}

/// Appends `struct tc_sizespec` and its data. The link layer field carries the table's fingerprint:
/// the kernel returns that field, and never the table.
fn size_table(message: &mut MessageBuilder, stab: &Stab) {
    let nest = message.nest_start(TCA_STAB);
    let mut base = vec![stab.cell_log, stab.size_log];
    base.extend(stab.cell_align.to_ne_bytes());
    base.extend(stab.overhead.to_ne_bytes());
    for value in [
        stab.fingerprint(),
        stab.mpu,
        stab.mtu,
        stab.data.len() as u32,
    ] {
        base.extend(value.to_ne_bytes());
    }
    message.append_attr(TCA_STAB_BASE, &base);
    if !stab.data.is_empty() {
        let data: Vec<u8> = stab.data.iter().flat_map(|s| s.to_ne_bytes()).collect();
        message.append_attr(TCA_STAB_DATA, &data);
    }
    message.nest_end(nest);
}

/// Appends `TCA_OPTIONS`. A change omits what cannot change, because the kernel refuses even the
/// present value.
fn options(message: &mut MessageBuilder, kind: &QdiscKind, change: bool) {
    match kind {
        QdiscKind::Htb(htb) => {
            let nest = message.nest_start(TCA_OPTIONS);
            let glob: Vec<u8> = [HTB_VERSION, htb.r2q, u32::from(htb.default_minor), 0, 0]
                .into_iter()
                .flat_map(u32::to_ne_bytes)
                .collect();
            message.append_attr(TCA_HTB_INIT, &glob);
            if let Some(packets) = htb.direct {
                message.append_attr_u32(TCA_HTB_DIRECT_QLEN, packets);
            }
            message.nest_end(nest);
        }
        QdiscKind::FqCodel(q) => {
            let nest = message.nest_start(TCA_OPTIONS);
            for (kind, value) in [
                (TCA_FQ_CODEL_LIMIT, q.limit),
                (TCA_FQ_CODEL_QUANTUM, q.quantum),
                (TCA_FQ_CODEL_TARGET, micros(q.target)),
                (TCA_FQ_CODEL_INTERVAL, micros(q.interval)),
                (TCA_FQ_CODEL_ECN, u32::from(q.ecn)),
                (TCA_FQ_CODEL_MEMORY_LIMIT, q.memory_limit),
            ] {
                message.append_attr_u32(kind, value);
            }
            if !change {
                message.append_attr_u32(TCA_FQ_CODEL_FLOWS, q.flows);
            }
            if let Some(threshold) = q.ce_threshold {
                message.append_attr_u32(TCA_FQ_CODEL_CE_THRESHOLD, micros(threshold));
                message.append_attr(TCA_FQ_CODEL_CE_THRESHOLD_SELECTOR, &[ECT_1]);
                message.append_attr(TCA_FQ_CODEL_CE_THRESHOLD_MASK, &[ECN_MASK]);
            } else if change {
                message.append_attr_u32(TCA_FQ_CODEL_CE_THRESHOLD, NO_THRESHOLD);
            }
            message.nest_end(nest);
        }
        QdiscKind::Sfq(q) => {
            // struct tc_sfq_qopt: quantum, perturb_period, limit, divisor, flows.
            let words: Vec<u8> = [q.quantum, q.perturb, q.limit, 0, 0]
                .into_iter()
                .flat_map(u32::to_ne_bytes)
                .collect();
            message.append_attr(TCA_OPTIONS, &words);
        }
        QdiscKind::Fq(q) => {
            let nest = message.nest_start(TCA_OPTIONS);
            message.append_attr_u32(TCA_FQ_PLIMIT, q.limit);
            message.append_attr_u32(TCA_FQ_FLOW_PLIMIT, q.flow_limit);
            message.append_attr_u32(TCA_FQ_RATE_ENABLE, 0);
            message.nest_end(nest);
        }
        QdiscKind::Pfifo(q) => message.append_attr_u32(TCA_OPTIONS, q.limit),
        QdiscKind::Bfifo(q) => {
            let limit = u32::try_from(q.limit.as_bytes()).unwrap_or(u32::MAX);
            message.append_attr_u32(TCA_OPTIONS, limit);
        }
        QdiscKind::Red(q) => red(message, q),
        QdiscKind::Cake(q) => {
            let nest = message.nest_start(TCA_OPTIONS);
            let rate = q.bandwidth.map_or(0, Rate::as_bytes_per_second);
            let rtt = micros(q.rtt).max(1);
            message.append_attr_u64(TCA_CAKE_BASE_RATE64, rate);
            for (kind, value) in [
                (TCA_CAKE_DIFFSERV_MODE, tins(q.tins)),
                (TCA_CAKE_FLOW_MODE, flow_mode(q.flow_mode)),
                (TCA_CAKE_RTT, rtt),
                // The target that tc derives from an `rtt`.
                (TCA_CAKE_TARGET, (rtt / 20).max(1)),
                (TCA_CAKE_NAT, u32::from(q.nat)),
                (TCA_CAKE_INGRESS, u32::from(q.ingress)),
                (TCA_CAKE_ACK_FILTER, ack_filter(q.ack_filter)),
                (TCA_CAKE_SPLIT_GSO, u32::from(q.split_gso)),
                (TCA_CAKE_MEMORY, q.memory_limit),
            ] {
                message.append_attr_u32(kind, value);
            }
            match q.wire {
                None => message.append_attr_u32(TCA_CAKE_RAW, 0),
                Some(wire) => {
                    message.append_attr_u32(TCA_CAKE_OVERHEAD, wire.overhead as u32);
                    message.append_attr_u32(TCA_CAKE_MPU, wire.mpu);
                    message.append_attr_u32(TCA_CAKE_ATM, framing(wire.framing));
                }
            }
            message.nest_end(nest);
        }
        // A BPF qdisc takes no options. A listed one has its own requests.
        QdiscKind::Kit(_) | QdiscKind::Rows(_) | QdiscKind::Listed(_) | QdiscKind::Other(_) => {}
    }
}

/// `CAKE_FLOW_*` (net/sched/sch_cake.c).
pub(super) const FLOW_MODES: [(CakeFlowMode, u32); 7] = [
    (CakeFlowMode::FlowBlind, 0),
    (CakeFlowMode::SrcHost, 1),
    (CakeFlowMode::DstHost, 2),
    (CakeFlowMode::Flows, 4),
    (CakeFlowMode::DualSrcHost, 5),
    (CakeFlowMode::DualDstHost, 6),
    (CakeFlowMode::Triple, 7),
];

/// `CAKE_ACK_*` (net/sched/sch_cake.c).
pub(super) const ACK_FILTERS: [(CakeAckFilter, u32); 3] = [
    (CakeAckFilter::No, 0),
    (CakeAckFilter::Filter, 1),
    (CakeAckFilter::Aggressive, 2),
];

/// `CAKE_DIFFSERV_*` (linux/pkt_sched.h).
pub(super) const TINS: [(CakeTins, u32); 2] = [
    (CakeTins::BestEffort, CAKE_DIFFSERV_BESTEFFORT),
    (CakeTins::Diffserv4, CAKE_DIFFSERV_DIFFSERV4),
];

/// `CAKE_ATM_*` (net/sched/sch_cake.c).
pub(super) const FRAMINGS: [(CakeFraming, u32); 3] = [
    (CakeFraming::None, 0),
    (CakeFraming::Atm, 1),
    (CakeFraming::Ptm, 2),
];

fn tins(tins: CakeTins) -> u32 {
    let found = TINS.iter().find(|pair| pair.0 == tins);
    found.map_or(CAKE_DIFFSERV_BESTEFFORT, |pair| pair.1)
}

fn framing(framing: CakeFraming) -> u32 {
    let found = FRAMINGS.iter().find(|pair| pair.0 == framing);
    found.map_or(0, |pair| pair.1)
}

fn flow_mode(mode: CakeFlowMode) -> u32 {
    let found = FLOW_MODES.iter().find(|pair| pair.0 == mode);
    found.map_or(7, |pair| pair.1)
}

fn ack_filter(filter: CakeAckFilter) -> u32 {
    let found = ACK_FILTERS.iter().find(|pair| pair.0 == filter);
    found.map_or(0, |pair| pair.1)
}

/// Appends `struct tc_red_qopt`, the idle table and the probability as a fraction of 2^32.
fn red(message: &mut MessageBuilder, red: &Red) {
    let nest = message.nest_start(TCA_OPTIONS);
    let mut parms = Vec::with_capacity(16);
    for size in [red.limit, red.min, red.max] {
        let bytes = u32::try_from(size.as_bytes()).unwrap_or(u32::MAX);
        parms.extend(bytes.to_ne_bytes());
    }
    let ecn = if red.ecn { RED_ECN } else { 0 };
    let adaptive = if red.adaptive { RED_ADAPTIVE } else { 0 };
    parms.extend([red.wlog, red.plog, red.scell_log, ecn | adaptive]);
    message.append_attr(TCA_RED_PARMS, &parms);
    message.append_attr(TCA_RED_STAB, &idle_table(red));
    message.append_attr_u32(TCA_RED_MAX_P, probability(red.probability_millionths));
    message.nest_end(nest);
}

/// Converts a probability in millionths to the kernel's fraction of 2^32, rounded.
fn probability(millionths: u32) -> u32 {
    let fraction = ((u64::from(millionths) << 32) + 500_000) / 1_000_000;
    u32::try_from(fraction).unwrap_or(u32::MAX)
}

/// Returns the idle table: for each slot of `1 << scell_log` microseconds, how many times the
/// average is halved while the queue is idle. It follows `tc_red_eval_idle_damping` of iproute2;
/// the kernel looks it up by microseconds (`red_calc_qavg_from_idle_time`, include/net/red.h).
pub(super) fn idle_table(red: &Red) -> [u8; 256] {
    let weight = 1.0 / 2_f64.powi(i32::from(red.wlog));
    let packet = u64::from(red.avpkt.max(1));
    let rate = red.bandwidth.as_bits_per_second().max(8);
    let packet_micros = packet as f64 * 8e6 / rate as f64;
    let per_micro = -(1.0 - weight).log2() / packet_micros;
    let mut table = [31_u8; 256];
    for (slot, entry) in table.iter_mut().enumerate() {
        let micros = slot as f64 * 2_f64.powi(i32::from(red.scell_log));
        *entry = (micros * per_micro).min(31.0) as u8;
    }
    table[255] = 31;
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_ticks_rounded_up() {
        assert_eq!(ticks(Span::from_nanos(0)), 0);
        assert_eq!(ticks(Span::from_nanos(64)), 1);
        assert_eq!(ticks(Span::from_nanos(65)), 2);
        assert_eq!(ticks(Span::from_secs(1000)), u32::MAX);
    }

    #[test]
    fn probabilities_fill_the_kernels_range() {
        assert_eq!(probability(0), 0);
        assert_eq!(probability(500_000), 1 << 31);
        assert_eq!(probability(1_000_000), u32::MAX);
        assert_eq!(probability(20_000), 85_899_346);
    }

    #[test]
    fn sixty_four_bit_rates_are_whole() {
        let spec = rate_spec(10_000_000_000);
        assert_eq!(spec[8..], u32::MAX.to_ne_bytes());
    }
}
