// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queues of classes, with every setting explicit. Settings that a policy omits are chosen here by
//! the link's rate.

use crate::scheduler::bounds;
use crate::scheduler::parts::CappedHost;
use crate::scheduler::{Member, Scheduler};
use crate::tree::hosts;
use weirgate_policy::{CakeQueue, Direction, Fair, FqCodelQueue, Queue, RedQueue, SfqQueue};
use weirgate_state::{
    Bfifo, Cake, CakeAckFilter, CakeTins, Fq, FqCodel, Origin, Pfifo, Qdisc, QdiscKind, Red, Sfq,
};
use weirgate_units::{Handle, Rate, Span};

/// CoDel's target and interval (RFC 8289 sections 4.2 and 4.3).
const TARGET: Span = Span::from_millis(5);
const INTERVAL: Span = Span::from_millis(100);

/// The queue of a class, where it states none the usual one.
pub(crate) fn stated(member: &Member) -> Queue {
    hosts::queue(member.class.queue.as_ref(), member.class.fair)
}

/// The queue of a class.
pub(crate) fn qdisc(scheduler: &Scheduler, member: &Member) -> Qdisc {
    let queue = stated(member);
    let line = member
        .class
        .queue
        .as_ref()
        .map_or(member.class.line, |queue| queue.line);
    let kind = match &queue {
        _ if scheduler.holds && member.class.ack => QdiscKind::Fq(Fq {
            limit: HELD,
            flow_limit: HELD_OF_FLOW,
        }),
        Queue::Bfifo(limit) => QdiscKind::Bfifo(Bfifo { limit: *limit }),
        Queue::Pfifo(limit) => QdiscKind::Pfifo(Pfifo { limit: *limit }),
        Queue::Sfq(sfq) => QdiscKind::Sfq(self::sfq(sfq, scheduler)),
        Queue::Red(red) => QdiscKind::Red(self::red(red, member.class.rate)),
        Queue::FqCodel(codel) => QdiscKind::FqCodel(fq_codel(codel, scheduler, scheduler.gate)),
        Queue::Cake(cake) => {
            let class = &member.class;
            QdiscKind::Cake(Cake {
                ack_filter: scheduler.filter_of(class),
                ..self::cake(cake, scheduler, class.fair, class.ceiling)
            })
        }
        // A policy has one only where the kit is its engine, which asks `kit`.
        Queue::Kit(_) => {
            let usual = FqCodelQueue::default();
            QdiscKind::FqCodel(fq_codel(&usual, scheduler, scheduler.gate))
        }
    };
    let filters = matches!(&kind, QdiscKind::Cake(cake) if cake.ack_filter != CakeAckFilter::No);
    let also = if filters {
        ", which drops acknowledgements that a later one makes superfluous"
    } else {
        ""
    };
    let reason = format!("the queue of class {}{also}", member.class.name);
    Qdisc {
        // The same digits as the class, so that both read alike.
        handle: Handle::new(member.id.minor, 0),
        stab: None,
        kind,
        origin: Origin::new(line, reason),
    }
}

/// Acknowledgements that are held back, in all and of one connection: one for each
/// segment that may be owed.
const HELD: u32 = 10_000;
const HELD_OF_FLOW: u32 = 1_000;

/// Flow queues of a host with a limit; a thousand of them must not take much.
const HOST_FLOWS: u32 = 64;
/// Packets that wait for one host.
const HOST_LIMIT: u32 = 1_000;

/// The queue of a host with a limit: between its flows, with targets for the
/// host's own rate.
pub(crate) fn of_host(scheduler: &Scheduler, host: &CappedHost, origin: &Origin) -> Qdisc {
    let small = FqCodelQueue {
        flows: Some(HOST_FLOWS),
        limit: Some(HOST_LIMIT),
        ..FqCodelQueue::default()
    };
    let gate = host.ceil.min(scheduler.gate);
    let kind = FqCodel {
        memory_limit: 4 << 20,
        ..fq_codel(&small, scheduler, gate)
    };
    Qdisc {
        handle: Handle::new(host.id.minor, 0),
        stab: None,
        kind: QdiscKind::FqCodel(kind),
        origin: origin.clone(),
    }
}

fn sfq(queue: &SfqQueue, scheduler: &Scheduler) -> Sfq {
    Sfq {
        // The kernel's own default for both (tc-sfq(8)); a new hash now and
        // then would reorder packets.
        limit: queue.limit.unwrap_or(127),
        perturb: queue.perturb.unwrap_or(0),
        quantum: scheduler.full_packet,
    }
}

/// CoDel's target and interval for one queue, where nothing is set or its target
/// alone. RFC 8289 section 4.4: a target below the time of a full packet would
/// drop what cannot be helped.
pub(crate) fn codel(scheduler: &Scheduler, target: Option<Span>) -> (Span, Span) {
    let packet = bounds::time(u64::from(scheduler.full_packet), scheduler.gate);
    timed(target, Span::from_nanos(packet.as_nanos() * 3 / 2))
}

/// Packets that may wait in a queue of a flow before CoDel takes it for too long,
/// where flows are served in turn, and as few as that may be.
const TURNS: u64 = 8;
const FEWEST_TURNS: u64 = 4;

/// The same for queues that are served in turn. A packet waits for the turns of the
/// other flows as well, which its own flow can do nothing about. fq_codel drops even
/// a flow's only packet while others have any (`codel_should_drop` gets the bytes of
/// all queues). With a target of one turn who backs off at a loss, as reno does, then
/// misses turns, and who does not, as bbr, takes them. With as many as there are
/// flows, nobody does (`experiments/fair-controls.toml`). A queue of more than the
/// round trip that CoDel assumes helps nobody. cake allows for four packets
/// (`cobalt_should_drop`, net/sched/sch_cake.c).
pub(crate) fn codel_in_turns(full_packet: u32, gate: Rate, target: Option<Span>) -> (Span, Span) {
    timed(target, turns_allowed(full_packet, gate))
}

/// The delay from which ECT(1) is marked where flows are served in turn: a millisecond
/// (RFC 9332 section 4.1.2), or as much as CoDel allows for turns. Below that every
/// packet would be marked beside so many flows, and a sender of L4S would give up its
/// turns.
pub(crate) fn shallow(full_packet: u32, gate: Rate) -> Span {
    micros(Span::from_millis(1).max(turns_allowed(full_packet, gate)))
}

/// What a packet may wait for the turns of others.
fn turns_allowed(full_packet: u32, gate: Rate) -> Span {
    let turns = |count| bounds::time(u64::from(full_packet) * count, gate);
    turns(TURNS).min(INTERVAL).max(turns(FEWEST_TURNS))
}

fn timed(target: Option<Span>, least: Span) -> (Span, Span) {
    let target = target.unwrap_or_else(|| micros(TARGET.max(least)));
    (target, micros(INTERVAL - TARGET + target))
}

fn fq_codel(queue: &FqCodelQueue, scheduler: &Scheduler, gate: Rate) -> FqCodel {
    let full_packet = scheduler.full_packet;
    let small = gate < hosts::SMALL_LINK;
    let (target, interval) = codel_in_turns(full_packet, gate, queue.target);
    FqCodel {
        limit: queue.limit.unwrap_or(if small { 1024 } else { 10_240 }),
        flows: queue.flows.unwrap_or(1024),
        target,
        interval: queue.interval.unwrap_or(interval),
        quantum: queue.quantum.unwrap_or(full_packet),
        ecn: queue.ecn.unwrap_or(true),
        memory_limit: queue
            .memory
            .map_or(if small { 4 << 20 } else { 32 << 20 }, |memory| {
                u32::try_from(memory.as_bytes()).unwrap_or(u32::MAX)
            }),
        ce_threshold: queue
            .ce_threshold
            .or_else(|| scheduler.l4s.then(|| shallow(full_packet, gate))),
    }
}

fn micros(span: Span) -> Span {
    Span::from_micros(span.as_nanos() / 1000)
}

/// The cake of a class. Upstream it has no shaper; downstream it has one at the
/// class's ceiling, where the tree has it too, for the sake of what it drops
/// (`hosts`).
pub(crate) fn cake(
    queue: &CakeQueue,
    scheduler: &Scheduler,
    fair: Option<Fair>,
    ceiling: Rate,
) -> Cake {
    let usual = || hosts::round_trip(scheduler, INTERVAL);
    let down = scheduler.direction == Direction::Down;
    Cake {
        bandwidth: down.then(|| ceiling.min(scheduler.gate)),
        rtt: queue.rtt.unwrap_or_else(usual),
        flow_mode: hosts::mode(fair, scheduler.direction),
        // Of a packet that has been translated back, cake would take the
        // address that it had before (`nf_ct_get_tuple_skb`): everyone's.
        nat: queue.nat.unwrap_or(!scheduler.inside),
        ack_filter: scheduler.ack_filter,
        ingress: down,
        split_gso: true,
        memory_limit: hosts::memory(queue.memory, scheduler, ceiling),
        tins: CakeTins::BestEffort,
        wire: None,
    }
}

/// Bytes of an average packet, as tc-red(8) recommends.
const AVPKT: u32 = 1000;

/// RED's own parameters, by the formulas that tc uses (`tc_red_eval_ewma`,
/// `tc_red_eval_P`, `tc_red_eval_idle_damping` of iproute2's tc/tc_red.c).
fn red(queue: &RedQueue, rate: Rate) -> Red {
    let (min, max) = (queue.min.as_bytes() as f64, queue.max.as_bytes() as f64);
    let packet = f64::from(AVPKT).min(min);
    // tc-red(8): burst = (2 min + max) / (3 avpkt).
    let burst = ((2.0 * min + max) / (3.0 * packet)).max(1.0).round();
    let wlog = weight(burst, min / packet).unwrap_or(9);
    let probability = f64::from(queue.probability_millionths) / 1e6;
    Red {
        limit: queue.limit,
        min: queue.min,
        max: queue.max,
        probability_millionths: queue.probability_millionths,
        wlog,
        plog: spacing(max - min, probability).unwrap_or(31),
        scell_log: idle_scale(wlog, packet, rate),
        ecn: queue.ecn,
        adaptive: queue.adaptive,
        bandwidth: rate,
        avpkt: packet as u32,
    }
}

/// The smallest weight 2^-n for which a burst of so many packets is taken.
fn weight(burst: f64, min_packets: f64) -> Option<u8> {
    let wanted = burst + 1.0 - min_packets;
    if wanted < 1.0 {
        return None;
    }
    (1..32_u8).find(|wlog| {
        let weight = 0.5_f64.powi(i32::from(*wlog));
        wanted <= (1.0 - (1.0 - weight).powf(burst)) / weight
    })
}

/// The power of two by which probability over distance is scaled.
fn spacing(distance: f64, probability: f64) -> Option<u8> {
    if distance <= 0.0 {
        return None;
    }
    let per_byte = probability / distance;
    (0..32_u8).find(|plog| per_byte * 2.0_f64.powi(i32::from(*plog)) > 1.0)
}

/// The power of two of microseconds in which idle time is counted: a table of
/// 512 steps must reach the time after which the average is forgotten.
fn idle_scale(wlog: u8, packet: f64, rate: Rate) -> u8 {
    let micros = packet * 8e6 / (rate.as_bits_per_second() as f64).max(1.0);
    let weight = 0.5_f64.powi(i32::from(wlog));
    let forgotten = 31.0 * micros / -(1.0 - weight).ln();
    (0..31_u8)
        .find(|log| forgotten / 2.0_f64.powi(i32::from(*log)) < 512.0)
        .unwrap_or(31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_units::Size;

    /// RED of Mylonas, scenario 4, by hand. A burst of (2*15+45)/3 = 25 packets
    /// over a minimum of 15 needs (1 - (1-W)^25) / W >= 11. W = 1/16 is the first
    /// to give that (12.8; 1/8 gives 7.7). A probability of 0.1 over 30000 bytes first
    /// passes 1 when doubled 19 times.
    #[test]
    fn red_as_tc_sets_it() {
        let queue = RedQueue {
            limit: Size::bytes(60_000),
            min: Size::bytes(15_000),
            max: Size::bytes(45_000),
            probability_millionths: 100_000,
            ecn: false,
            adaptive: false,
        };
        let red = red(&queue, Rate::kbit(10_000));
        assert_eq!((red.wlog, red.plog, red.avpkt), (4, 19, 1000));
    }

    #[test]
    fn red_never_gives_up() {
        for (min, max) in [(1, 2), (100, 101), (1_000_000, 4_000_000_000)] {
            let queue = RedQueue {
                limit: Size::bytes(max),
                min: Size::bytes(min),
                max: Size::bytes(max),
                probability_millionths: 1,
                ecn: true,
                adaptive: true,
            };
            let red = red(&queue, Rate::kbit(1));
            assert!(
                red.wlog < 32 && red.plog < 32 && red.scell_log < 32,
                "{red:?}"
            );
        }
    }
}
