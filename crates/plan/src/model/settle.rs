// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The form in which a kernel will report the settings that it was given.
//!
//! Kernels round: bytes per second, ticks of 64 ns, CoDel times of 1.024 us. Some settings are left
//! to the kernel, or cannot be read back. A desired value is settled before it is compared, so that
//! rounding is not a difference, and no tolerance hides a real difference.

use crate::model::kit;
use weirgate_state::{
    Bfifo, Cake, Fq, FqCodel, Htb, HtbClass, Offloads, Pfifo, Qdisc, QdiscKind, Red, Rows,
    RowsNode, Sfq,
};
use weirgate_units::{Arrange as _, Rate, Span};

/// The length of a packet-scheduler tick in nanoseconds (`PSCHED_SHIFT` 6,
/// include/net/pkt_sched.h).
pub const TICK_NANOS: u64 = 64;

/// Returns the desired qdisc as the kernel will report it. Whatever is left to the kernel, or
/// hidden by it, is taken from `observed`.
pub fn qdisc(desired: &Qdisc, observed: Option<&Qdisc>) -> Qdisc {
    let seen = observed.map(|qdisc| &qdisc.kind);
    Qdisc {
        handle: desired.handle,
        stab: desired.stab.clone(),
        kind: kind(&desired.kind, seen),
        origin: desired.origin.clone(),
    }
}

/// Returns the offloads after a change: those that `desired` names, the rest as before.
pub fn offloads(desired: Option<Offloads>, observed: Option<Offloads>) -> Option<Offloads> {
    let before = observed.and_then(|own| own.segments);
    let after = desired.map(|own| Offloads {
        segments: own.segments.or(before),
        ..own
    });
    after.or(observed)
}

fn kind(desired: &QdiscKind, seen: Option<&QdiscKind>) -> QdiscKind {
    match desired {
        QdiscKind::Htb(htb) => QdiscKind::Htb(settled_htb(
            htb,
            match seen {
                Some(QdiscKind::Htb(seen)) => Some(seen),
                _ => None,
            },
        )),
        QdiscKind::FqCodel(own) => QdiscKind::FqCodel(FqCodel {
            limit: own.limit,
            flows: own.flows,
            target: codel_time(own.target),
            interval: codel_time(own.interval),
            quantum: own.quantum.max(256),
            ecn: own.ecn,
            memory_limit: own.memory_limit.min(1 << 31),
            ce_threshold: own.ce_threshold.map(codel_time),
        }),
        QdiscKind::Sfq(own) => {
            let quantum = match seen {
                Some(QdiscKind::Sfq(seen)) if own.quantum == 0 => seen.quantum,
                _ => own.quantum,
            };
            QdiscKind::Sfq(Sfq {
                limit: own.limit,
                perturb: own.perturb,
                quantum,
            })
        }
        QdiscKind::Fq(Fq { limit, flow_limit }) => QdiscKind::Fq(Fq {
            limit: *limit,
            flow_limit: *flow_limit,
        }),
        QdiscKind::Pfifo(Pfifo { limit }) => QdiscKind::Pfifo(Pfifo { limit: *limit }),
        QdiscKind::Bfifo(Bfifo { limit }) => QdiscKind::Bfifo(Bfifo { limit: *limit }),
        QdiscKind::Red(own) => QdiscKind::Red(settled_red(
            own,
            match seen {
                Some(QdiscKind::Red(seen)) => Some(seen),
                _ => None,
            },
        )),
        QdiscKind::Cake(own) => QdiscKind::Cake(Cake {
            bandwidth: own.bandwidth.map(rate),
            rtt: micros(own.rtt),
            ..own.clone()
        }),
        QdiscKind::Kit(own) => {
            let seen = match seen {
                Some(QdiscKind::Kit(seen)) => Some(seen),
                _ => None,
            };
            QdiscKind::Kit(kit::settled(own, seen))
        }
        QdiscKind::Rows(own) => QdiscKind::Rows(settled_rows(own)),
        QdiscKind::Listed(_) | QdiscKind::Other(_) => desired.clone(),
    }
}

fn settled_rows(own: &Rows) -> Rows {
    let node = |node: &RowsNode| RowsNode {
        guarantee: rate(node.guarantee),
        ceiling: node.ceiling.map(rate),
        ..node.clone()
    };
    let mut nodes: Vec<RowsNode> = own.nodes.iter().map(node).collect();
    nodes.arrange_by_key(|node| node.id);
    Rows {
        gate: rate(own.gate),
        nodes,
        ..own.clone()
    }
}

fn settled_htb(own: &Htb, seen: Option<&Htb>) -> Htb {
    let direct = own.direct.or(seen.and_then(|seen| seen.direct));
    // With other settings of its own it becomes another qdisc, with new classes.
    let settings = |htb: &Htb| (htb.default_minor, htb.r2q, htb.direct.or(direct));
    let stays = seen.filter(|seen| settings(own) == settings(seen));
    let twin = |class: &HtbClass| {
        let mut classes = stays?.classes.iter();
        classes.find(|seen| (seen.id, seen.parent) == (class.id, class.parent))
    };
    let classes = own
        .classes
        .iter()
        .map(|class| htb_class(class, twin(class), is_inner(own, class)))
        .collect();
    Htb {
        default_minor: own.default_minor,
        r2q: own.r2q,
        direct,
        classes,
    }
}

/// Returns whether another class of the tree has this one as its parent.
pub fn is_inner(htb: &Htb, class: &HtbClass) -> bool {
    htb.classes.iter().any(|other| other.parent == class.id)
}

/// Returns one class as the kernel will report it, including its leaf. For an inner class the
/// kernel neither uses nor updates `prio` and `quantum` (`htb_change_class`, net/sched/sch_htb.c).
pub fn htb_class(own: &HtbClass, seen: Option<&HtbClass>, inner: bool) -> HtbClass {
    let (prio, quantum) = match seen {
        Some(seen) if inner => (seen.prio, seen.quantum),
        Some(seen) if own.quantum == 0 => (own.prio.min(7), seen.quantum),
        _ => (own.prio.min(7), own.quantum),
    };
    let seen_leaf = seen.and_then(|seen| seen.leaf.as_deref());
    HtbClass {
        id: own.id,
        parent: own.parent,
        rate: rate(own.rate),
        ceil: rate(own.ceil),
        buffer: ticks(own.buffer),
        cbuffer: ticks(own.cbuffer),
        prio,
        quantum,
        leaf: own
            .leaf
            .as_ref()
            .map(|leaf| Box::new(qdisc(leaf, seen_leaf))),
        origin: own.origin.clone(),
    }
}

/// Returns RED as the kernel will report it: the parameters of its idle table are hidden, and
/// adaptive RED changes its probability by itself.
fn settled_red(own: &Red, seen: Option<&Red>) -> Red {
    let mut red = own.clone();
    if let Some(seen) = seen {
        red.bandwidth = seen.bandwidth;
        red.avpkt = seen.avpkt;
        if own.adaptive {
            red.probability_millionths = seen.probability_millionths;
        }
    }
    red
}

/// Returns a rate as the kernel stores it: whole bytes per second.
pub fn rate(own: Rate) -> Rate {
    Rate::bits_per_second(own.as_bytes_per_second().saturating_mul(8))
}

/// Returns a time in whole ticks, rounded up so that a bucket is never smaller than requested.
pub fn ticks(own: Span) -> Span {
    let ticks = own.as_nanos().div_ceil(TICK_NANOS).min(u64::from(u32::MAX));
    Span::from_nanos(ticks * TICK_NANOS)
}

/// Returns a time in whole microseconds, as fq_codel and cake accept it.
pub fn micros(own: Span) -> Span {
    Span::from_micros(own.as_nanos() / 1_000)
}

/// Returns the lowest number of whole microseconds that CoDel stores like this time, in units of
/// 1024 ns (include/net/codel.h). The kernel lists one microsecond less. The kernel crate corrects
/// observed values, so that a value that is read and written back does not change.
fn codel_time(own: Span) -> Span {
    let units = (own.as_nanos() / 1_000).saturating_mul(1_000) >> 10;
    Span::from_micros((units << 10).div_ceil(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_state::Origin;
    use weirgate_units::Handle;

    /// A bucket that is settled to less than what the kernel is given would differ from what is
    /// read back, and be changed by every plan.
    #[test]
    fn buckets_are_whole_ticks_and_never_smaller() {
        for (asked, held) in [(0, 0), (1, 64), (64, 64), (65, 128), (1_000, 1_024)] {
            assert_eq!(ticks(Span::from_nanos(asked)), Span::from_nanos(held));
        }
        let longest = Span::from_nanos(u64::from(u32::MAX) * TICK_NANOS);
        assert_eq!(ticks(Span::from_secs(1_000)), longest);
    }

    /// The quantum of an inner class stays as it was if the class stays. A new class gets its own,
    /// which takes effect once it has no children any more.
    #[test]
    fn an_inner_class_of_another_qdisc_keeps_its_quantum() {
        let class = |minor, parent, quantum| HtbClass {
            id: Handle::new(1, minor),
            parent: Handle::new(1, parent),
            rate: Rate::kbit(80),
            ceil: Rate::kbit(80),
            buffer: Span::from_micros(64),
            cbuffer: Span::from_micros(64),
            prio: 0,
            quantum,
            leaf: None,
            origin: Origin::default(),
        };
        let htb = |default_minor, quantum| Htb {
            default_minor,
            r2q: 10,
            direct: Some(0),
            classes: vec![class(1, 0, quantum), class(2, 1, 1_486)],
        };
        let quantum = |seen: &Htb| settled_htb(&htb(2, 1_000), Some(seen)).classes[0].quantum;
        assert_eq!(quantum(&htb(2, 1_500)), 1_500);
        assert_eq!(quantum(&htb(1, 1_500)), 1_000);
        let elsewhere = Htb {
            classes: vec![class(1, 3, 1_500), class(3, 0, 1_486)],
            ..htb(2, 0)
        };
        assert_eq!(quantum(&elsewhere), 1_000);
    }

    #[test]
    fn rates_are_whole_bytes() {
        assert_eq!(rate(Rate::bits_per_second(15)), Rate::bits_per_second(8));
        assert_eq!(rate(Rate::bits_per_second(16)), Rate::bits_per_second(16));
    }
}
