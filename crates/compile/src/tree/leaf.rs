// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The queues of classes, with every parameter explicit. Parameters that a policy omits are
//! derived here from the rate of the link.

use crate::scheduler::parts::CappedHost;
use crate::scheduler::{Member, Scheduler, bounds};
use crate::tree::hosts;
use weirgate_policy::{CakeQueue, Direction, Fair, FqCodelQueue, Queue, RedQueue, SfqQueue};
use weirgate_state::{
    Bfifo, Cake, CakeAckFilter, CakeTins, Fq, FqCodel, Origin, Pfifo, Qdisc, QdiscKind, Red, Sfq,
};
use weirgate_units::{Handle, Rate, Span};

/// The target and interval of CoDel (RFC 8289 sections 4.2 and 4.3).
const TARGET: Span = Span::from_millis(5);
const INTERVAL: Span = Span::from_millis(100);

/// Returns the queue that a class states, or else the default.
pub(crate) fn stated(member: &Member) -> Queue {
    hosts::queue(member.class.queue.as_ref(), member.class.fair)
}

/// Returns the qdisc for the queue of a class.
pub(crate) fn qdisc(scheduler: &Scheduler, member: &Member) -> Qdisc {
    let queue = stated(member);
    let line = member
        .class
        .queue
        .as_ref()
        .map_or(member.class.line, |queue| queue.line);
    let kind = match &queue {
        _ if scheduler.holds_back(&member.class) => QdiscKind::Fq(Fq {
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
        // Such a queue exists only with the engine `kit`, which does not call this function.
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
        // The minor number of the class, so that both handles look alike.
        handle: Handle::new(member.id.minor, 0),
        stab: None,
        kind,
        origin: Origin::new(line, reason),
    }
}

/// The largest number of delayed acknowledgements, in total and per connection: one for each
/// segment that may be owed.
const HELD: u32 = 10_000;
const HELD_OF_FLOW: u32 = 1_000;

/// The number of flow queues of a host with a limit. Memory must suffice for a thousand hosts.
const HOST_FLOWS: u32 = 64;
/// The largest backlog of one host in packets.
const HOST_LIMIT: u32 = 1_000;

/// Returns the queue of a host with a limit. It shares between the host's flows, and its target
/// suits the host's own rate.
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
        // The defaults of the kernel (tc-sfq(8)). Periodic rehashing would reorder packets.
        limit: queue.limit.unwrap_or(127),
        perturb: queue.perturb.unwrap_or(0),
        quantum: scheduler.full_packet,
    }
}

/// Returns CoDel's target and interval for a single queue; `target` is the stated one. A target
/// below the time of a full packet would drop packets that no sender can avoid (RFC 8289 section
/// 4.4).
pub(crate) fn codel(scheduler: &Scheduler, target: Option<Span>) -> (Span, Span) {
    let packet = bounds::time(u64::from(scheduler.full_packet), scheduler.gate);
    timed(target, Span::from_nanos(packet.as_nanos() * 3 / 2))
}

/// The backlog of a flow, in full packets, that CoDel tolerates where flows are served in turn,
/// and its minimum.
const TURNS: u64 = 8;
const FEWEST_TURNS: u64 = 4;

/// Returns CoDel's target and interval for queues that are served in turn. A packet also waits
/// for the turns of other flows, which its own sender cannot influence. fq_codel even drops the
/// only packet of a flow while others have some (`codel_should_drop` gets the bytes of all
/// queues). With a target of one turn, a sender that backs off at a loss, like Reno, misses
/// turns, and one that does not, like BBR, takes them. With as many turns as flows, none of them
/// gains (`experiments/fair-controls.toml`). A target above the round trip that CoDel assumes
/// does not help. cake allows for four packets (`cobalt_should_drop`, net/sched/sch_cake.c).
pub(crate) fn codel_in_turns(full_packet: u32, gate: Rate, target: Option<Span>) -> (Span, Span) {
    timed(target, turns_allowed(full_packet, gate))
}

/// Returns the delay from which ECT(1) is marked where flows are served in turn. It is a
/// millisecond (RFC 9332 section 4.1.2), or the delay that CoDel allows for turns if that is
/// longer. With a shorter one and many flows, every packet would be marked, and an L4S sender
/// would give up its turns.
pub(crate) fn shallow(full_packet: u32, gate: Rate) -> Span {
    micros(Span::from_millis(1).max(turns_allowed(full_packet, gate)))
}

/// Returns how long a packet may wait for the turns of other flows.
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

/// Returns the cake of a class. Upstream it does not shape. Downstream it shapes at the class's
/// ceiling, like the tree, so that it also counts dropped packets (`hosts`).
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
        // For a packet whose translation was already reversed, cake would take the former
        // address (`nf_ct_get_tuple_skb`), which is the same for all hosts.
        nat: queue.nat.unwrap_or(!scheduler.inside),
        ack_filter: scheduler.ack_filter,
        ingress: down,
        split_gso: true,
        memory_limit: hosts::memory(queue.memory, scheduler, ceiling),
        tins: CakeTins::BestEffort,
        wire: None,
    }
}

/// The average packet size in bytes that tc-red(8) recommends.
const AVPKT: u32 = 1000;

/// Returns RED's derived parameters, by the formulas of tc (`tc_red_eval_ewma`, `tc_red_eval_P`,
/// `tc_red_eval_idle_damping` of iproute2's tc/tc_red.c).
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

/// Returns the exponent n of the smallest weight 2^-n that accepts a burst of this many packets.
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

/// Returns the power of two by which probability over distance is scaled.
fn spacing(distance: f64, probability: f64) -> Option<u8> {
    if distance <= 0.0 {
        return None;
    }
    let per_byte = probability / distance;
    (0..32_u8).find(|plog| per_byte * 2.0_f64.powi(i32::from(*plog)) > 1.0)
}

/// Returns the power of two of microseconds in which idle time is counted. A table of 512 steps
/// must cover the time after which the average is forgotten.
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

    /// RED of Mylonas, scenario 4, calculated by hand. A burst of (2*15+45)/3 = 25 packets over
    /// a minimum of 15 needs (1 - (1-W)^25) / W >= 11. W = 1/16 is the first weight that fulfils
    /// it (12.8; 1/8 gives 7.7). A probability of 0.1 over 30000 bytes exceeds 1 after 19
    /// doublings.
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
