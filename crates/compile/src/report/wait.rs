// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The waits of a class: for a lone packet, within the guarantee, and in a full queue.

use crate::engine::kit;
use crate::report::bound::{Bound, FullQueue, Step};
use crate::scheduler::bounds::{self, HOST};
use crate::scheduler::wait::{self, Ahead, AnyOrder, Own};
use crate::scheduler::{Member, Scheduler, rows};
use crate::tree::{hosts, leaf};
use weirgate_linklayer::LinkLayer;
use weirgate_policy::{Policy, Queue};
use weirgate_state::QdiscKind;
use weirgate_units::{Rate, Span};

/// The reason why a class whose hosts have limits has no bound in a full queue.
const CAPPED: &str = "each of its hosts waits for the turns of the others, and for its own limit";

/// The reason why a full queue of the engine of rows has no bound.
const IN_TURN: &str = "its queues are served in turn, so a packet waits for every active flow, \
    and a flow that does not slow down fills its own queue";

/// The reason why a queue that holds acknowledgements back has no bound if it is full.
const HELD_BACK: &str = "fq serves connections in turn, so an acknowledgement waits for those of \
    every active connection";

/// The size of an IPv4 header without data.
const SMALLEST_IP: u32 = 20;

/// The waits of a class.
pub(super) struct Waits {
    pub(super) lone: Option<Bound>,
    pub(super) within: Option<Bound>,
    pub(super) keeps: Rate,
    pub(super) turns: Rate,
    pub(super) full: FullQueue,
}

/// Calculates the waits with the tree or the kit's shaper, with their derivations if `derived`.
pub(super) fn of(
    policy: &Policy,
    scheduler: &Scheduler,
    at: usize,
    queue: &Queue,
    derived: bool,
) -> Waits {
    let mut within = within(policy, scheduler, at, queue, derived);
    let lone = lone(scheduler, at, derived);
    // A lone packet also keeps to the rate. Without a burst, the other bound assumes a
    // continuous flow of bits, but packets arrive as a whole.
    if within.bound.wait < lone.wait {
        within.bound = lone.clone();
    }
    Waits {
        lone: Some(lone),
        within: Some(within.bound),
        keeps: within.keeps,
        turns: within.turns,
        full: full(scheduler, at, queue, &policy.link.layer.value),
    }
}

/// Calculates the waits with the engine of rows.
pub(super) fn in_rows(scheduler: &Scheduler, at: usize, layer: &LinkLayer) -> Waits {
    let member = &scheduler.members[at];
    let bound =
        |steps: Vec<Ahead>| Bound::of(steps.into_iter().map(step).chain([host()]).collect());
    match rows::waits(scheduler, at, layer.wire_bytes(SMALLEST_IP)) {
        Ok(waits) => {
            let reason = if member.capped > 0 { CAPPED } else { IN_TURN };
            Waits {
                lone: Some(bound(waits.lone)),
                within: Some(bound(waits.within)),
                keeps: waits.keeps,
                turns: waits.rate,
                full: FullQueue::NoHardBound {
                    reason: reason.to_owned(),
                },
            }
        }
        Err(reason) => Waits {
            lone: None,
            within: None,
            keeps: wait::kept(member),
            turns: Rate::default(),
            full: FullQueue::NoHardBound { reason },
        },
    }
}

/// The longest wait of traffic that keeps to a rate.
struct Within {
    bound: Bound,
    keeps: Rate,
    turns: Rate,
}

fn step(ahead: Ahead) -> Step {
    Step {
        what: ahead.what,
        time: ahead.time,
    }
}

/// Returns the time of the host itself. The text names the condition, because `check` does not
/// know what else the processor does.
fn host() -> Step {
    Step {
        what: "timers and processing in the kernel, on an idle processor".to_owned(),
        time: HOST,
    }
}

pub(super) fn own_burst(burst: u64, rate: Rate) -> Step {
    Step {
        what: format!("its own class's burst of {burst} B before it"),
        time: bounds::time(burst, rate),
    }
}

/// Returns the bound for a packet that finds no other packet of its class.
fn lone(scheduler: &Scheduler, at: usize, derived: bool) -> Bound {
    let wait = wait::longest(scheduler, at, Own::Nothing, derived);
    Bound::of(wait.steps.into_iter().map(step).chain([host()]).collect())
}

/// Returns whether packets leave a class in the order of arrival.
pub(super) fn in_order(scheduler: &Scheduler, member: &Member, queue: &Queue) -> bool {
    let held = scheduler.holds_back(&member.class);
    let fifo = match queue {
        Queue::Bfifo(_) | Queue::Pfifo(_) | Queue::Red(_) => true,
        Queue::Kit(own) => kit::in_order(own),
        Queue::FqCodel(_) | Queue::Sfq(_) | Queue::Cake(_) => false,
    };
    fifo && !held && member.capped == 0
}

/// Calculates the bound for traffic that keeps to its rate and burst.
fn within(
    policy: &Policy,
    scheduler: &Scheduler,
    at: usize,
    queue: &Queue,
    derived: bool,
) -> Within {
    let member = &scheduler.members[at];
    let burst = member.class.burst.as_bytes();
    if in_order(scheduler, member, queue) {
        let wait = wait::longest(scheduler, at, Own::InOrder(burst), derived);
        let mut steps: Vec<Step> = wait.steps.into_iter().map(step).collect();
        let behind = steps.len() - usize::from(burst > 0);
        steps.insert(behind, host());
        return Within {
            bound: Bound::of(steps),
            keeps: member.class.rate.min(wait.rate),
            turns: wait.rate,
        };
    }
    let shaper = match leaf::qdisc(scheduler, member).kind {
        QdiscKind::Cake(cake) if member.capped == 0 => cake.bandwidth,
        _ => None,
    };
    let keeps = wait::kept(member);
    let held = held(policy, scheduler, member);
    let largest = u64::from(member.largest);
    // The packet itself does not count as traffic before it.
    let smallest = u64::from(policy.link.layer.value.wire_bytes(SMALLEST_IP));
    let packet = largest.saturating_sub(smallest) + shaper.map_or(0, |_| largest);
    let excess = packet + bounds::earned(keeps, held);
    let own = AnyOrder {
        kept: keeps,
        before: burst + excess,
        excess,
        shaper,
    };
    let wait = wait::longest(scheduler, at, Own::AnyOrder(own), derived);
    let mut steps: Vec<Step> = wait.steps.into_iter().map(step).collect();
    if held > Span::ZERO {
        let what = "the longest time that `[receive]` holds back an acknowledgement".to_owned();
        steps.push(Step { what, time: held });
    }
    steps.push(host());
    Within {
        bound: Bound::of(steps),
        keeps,
        turns: wait.rate,
    }
}

/// Returns how long the queue of acknowledgements delays one.
fn held(policy: &Policy, scheduler: &Scheduler, member: &Member) -> Span {
    let receive = policy.receive.as_ref();
    let stated = receive.and_then(|receive| receive.max_ack_delay.as_ref());
    stated
        .filter(|_| scheduler.holds_back(&member.class))
        .map_or(Span::ZERO, |delay| delay.value)
}

/// Explains why the wait in a full queue has no bound.
fn unbounded(scheduler: &Scheduler, member: &Member, queue: &Queue) -> Option<String> {
    if member.capped > 0 {
        return Some(CAPPED.to_owned());
    }
    if scheduler.holds_back(&member.class) {
        return Some(HELD_BACK.to_owned());
    }
    let reason = match queue {
        Queue::Bfifo(_) | Queue::Pfifo(_) | Queue::Red(_) => None,
        Queue::Kit(own) => kit::unordered(own),
        Queue::FqCodel(_) => Some(
            "fq_codel serves flows in turn, so a packet waits for every active flow, and a flow \
             that does not slow down fills its own queue",
        ),
        Queue::Sfq(_) => Some("sfq serves flows in turn, so a packet waits for every active flow"),
        Queue::Cake(cake) => {
            let memory = hosts::memory(cake.memory, scheduler, member.class.ceiling);
            return Some(hosts::unbounded(member, memory));
        }
    };
    reason.map(str::to_owned)
}

/// Calculates the wait of a packet that takes the last place in a full queue.
fn full(scheduler: &Scheduler, at: usize, queue: &Queue, layer: &LinkLayer) -> FullQueue {
    let member = &scheduler.members[at];
    if let Some(reason) = unbounded(scheduler, member, queue) {
        return FullQueue::NoHardBound { reason };
    }
    let (rate, largest) = (member.class.rate, u64::from(member.largest));
    let smallest = u64::from(layer.wire_bytes(SMALLEST_IP));
    let before = match queue {
        Queue::Pfifo(limit) => u64::from(limit.saturating_sub(1)).saturating_mul(largest),
        Queue::Bfifo(limit) => limit.as_bytes().saturating_sub(smallest),
        Queue::Red(red) => red.limit.as_bytes().saturating_sub(smallest),
        Queue::Kit(own) => {
            let packets = kit::packets_held(own).map(|most| (most - 1).saturating_mul(largest));
            let bytes = kit::bytes_held(own).map(|most| most.saturating_sub(smallest));
            packets.into_iter().chain(bytes).min().unwrap_or(0)
        }
        Queue::Sfq(_) | Queue::FqCodel(_) | Queue::Cake(_) => 0,
    };
    let at_rate = weirgate_policy::in_kbit(rate);
    let mut steps = vec![Step {
        what: format!("{before} B before it in the queue, at the guaranteed {at_rate}"),
        time: bounds::time(before, rate),
    }];
    let credit = bounds::credit(scheduler, at);
    if credit > Span::ZERO {
        let spared = if credit < bounds::time(largest, rate) {
            ", less the bucket of the class that borrows in that time"
        } else {
            ""
        };
        steps.push(Step {
            what: format!(
                "a packet of {largest} B beyond its tokens just before, at the same rate{spared}"
            ),
            time: credit,
        });
    }
    steps.push(Step {
        what: "until the class is served again".to_owned(),
        time: wait::longest(scheduler, at, Own::Always, false).total(),
    });
    let guaranteed = Bound::of(steps);
    let anyway = wait::borrowing(scheduler, at, before);
    let anyway = anyway.map(|wait| Bound::of(wait.steps.into_iter().map(step).collect()));
    let mut least = match anyway {
        Some(anyway) if anyway.wait < guaranteed.wait => anyway,
        _ => guaranteed,
    };
    least.steps.push(host());
    FullQueue::Bound(Bound::of(least.steps))
}
