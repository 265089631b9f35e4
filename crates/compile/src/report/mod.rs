// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The promises of a policy as plain values; `text` turns them into text.
//!
//! Every bound is the sum of its steps. What the steps mean is in [`bounds`].

mod bound;
mod l4s;
pub(crate) mod objective;
pub(crate) mod setup;
mod text;
mod wait;

use crate::check::own_traffic;
use crate::classify::segments;
use crate::engine;
use crate::engine::{kit, rows};
use crate::inbound::automatic;
use crate::inbound::conditioner;
use crate::inbound::order;
use crate::inbound::receive;
use crate::inbound::virtual_queue;
pub(crate) use crate::report::bound::ms;
pub use crate::report::bound::{Bound, FullQueue, Step};
use crate::report::objective::ObjectiveReport;
use crate::scheduler::acks;
use crate::scheduler::bounds;
use crate::scheduler::{self, Member, Scheduler};
use crate::tree::hosts;
use crate::tree::leaf;
use weirgate_document::{Problem, Problems};
use weirgate_linklayer::LinkLayer;
use weirgate_policy::{Direction, Engine, Policy, Queue};
use weirgate_state::Capabilities;
use weirgate_units::{Handle, Rate, Size, Span};

/// What a policy promises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// What shapes, and why, in a line.
    pub engine: String,
    /// The directions that it shapes, upstream first.
    pub directions: Vec<DirectionReport>,
    /// How arriving packets are policed without a queue: they have no classes and no bounds.
    pub policed: Option<String>,
    /// What its author should know: objectives that are not met.
    pub problems: Vec<Problem>,
}

/// One direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectionReport {
    /// The direction.
    pub direction: Direction,
    /// The device on which it is shaped.
    pub device: String,
    /// The line's rate.
    pub line: Rate,
    /// The gate's rate.
    pub gate: Rate,
    /// What a packet costs.
    pub layer: LinkLayer,
    /// The cost of some sizes.
    pub costs: Vec<Cost>,
    /// What the modem may hold besides the packet that it sends, in time.
    pub line_extra: Span,
    /// What `l4s` of the link does here.
    pub l4s: Option<String>,
    /// What was chosen, and why, one sentence or more each.
    pub notes: Vec<String>,
    /// The classes, in the order in which they are served.
    pub classes: Vec<ClassReport>,
}

/// What packets of one size cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Length of the IP packet, bytes.
    pub ip: u32,
    /// Bytes on the wire.
    pub wire: u32,
    /// How long one occupies the line.
    pub time: Span,
    /// How many fill the line, in thousandths per second.
    pub milli_packets_per_second: u64,
    /// Their IP rate then.
    pub ip_rate: Rate,
}

/// A rate as it is counted on the wire and in IP bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wire {
    /// Wire bits.
    pub wire: Rate,
    /// IP bits in packets of the link's MTU.
    pub ip: Rate,
}

/// One class in one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassReport {
    /// Its name.
    pub name: String,
    /// Its number in the scheduler's HTB.
    pub id: Handle,
    /// Its line in the policy, from 1.
    pub line: u32,
    /// Its priority.
    pub priority: u8,
    /// Takes what no rule matches.
    pub default: bool,
    /// What it has whatever the others do.
    pub guaranteed: Wire,
    /// What it has at most, when the others are silent.
    pub maximum: Wire,
    /// Wire bytes of its largest packet.
    pub largest: u32,
    /// The time of its largest packet on the line.
    pub own_time: Span,
    /// The queue in words.
    pub queue: String,
    /// A packet that finds none of its own class waiting, the class being
    /// within its guarantee: from its arrival until the gate lets it go. `None` where no
    /// bound has been derived for the engine; then `full` says why.
    pub lone: Option<Bound>,
    /// A packet of traffic that keeps to the rate `keeps` and to `burst`; as `lone`.
    pub within: Option<Bound>,
    /// The rate that traffic keeps to for that: what is guaranteed, or half of it
    /// where packets do not leave in order.
    pub keeps: Rate,
    /// Hosts that have a limit of their own in it: `within` is for those that are
    /// not held back by it.
    pub limited_hosts: u32,
    /// Whether packets leave in the order in which they came. Where they do not,
    /// `within` holds in whatever order they leave.
    pub in_order: bool,
    /// The rate at which it is served meanwhile, in turns with its equals.
    pub turns: Rate,
    /// Wire bytes at once that count as keeping to the rate, besides one
    /// packet of [`largest`](Self::largest).
    pub burst: Size,
    /// A packet that takes the last place in a full queue; the reason where
    /// there is no bound.
    pub full: FullQueue,
    /// Its objective, if it states one.
    pub objective: Option<ObjectiveReport>,
}

impl ClassReport {
    /// [`within`](Self::within) where no more than `before` wire bytes of the
    /// class's burst can be waiting, since the lines that bring it need time
    /// themselves.
    ///
    /// # Errors
    ///
    /// Why that is not known: packets do not leave in order, or there is no bound at all.
    pub fn within_of(&self, before: u64) -> Result<Bound, &str> {
        if let (FullQueue::NoHardBound { reason }, false) = (&self.full, self.in_order) {
            return Err(reason);
        }
        let Some(within) = &self.within else {
            return Err("its waits have no bound");
        };
        let burst = self.burst.as_bytes();
        let rest = within.steps.len() - usize::from(burst > 0);
        let mut steps = within.steps[..rest].to_vec();
        steps.push(wait::own_burst(before.min(burst), self.turns));
        Ok(Bound::of(steps))
    }
}

/// What a policy promises on a kernel that has everything.
#[must_use]
pub fn check_report(policy: &Policy) -> CheckReport {
    check_report_for(policy, &Capabilities::all())
}

/// What a policy promises on a kernel that has this.
#[must_use]
pub fn check_report_for(policy: &Policy, kernel: &Capabilities) -> CheckReport {
    let problems = Problems::default();
    let settled = automatic::settled(policy, kernel, "", &Problems::default());
    let settled = rows::settled(settled, kernel);
    let settled = engine::l4s::settled(settled, kernel, &Problems::default());
    let policy = settled.as_ref();
    let directions = Direction::BOTH
        .into_iter()
        .filter_map(|direction| {
            // Its problems belong to `compile`.
            let scheduler = scheduler::of(policy, direction, &Problems::default())?;
            Some(direction_report(policy, &scheduler, &problems))
        })
        .collect();
    CheckReport {
        engine: engine::reason(policy, l4s::engine(policy)),
        directions,
        policed: policed(policy),
        problems: problems.into_sorted(),
    }
}

/// Every note on what is policed without a queue, a line each.
fn policed(policy: &Policy) -> Option<String> {
    let notes: Vec<String> = automatic::note(policy)
        .into_iter()
        .chain(virtual_queue::note(policy))
        .chain(receive::notes(policy))
        .chain(conditioner::notes(policy))
        .collect();
    (!notes.is_empty()).then(|| notes.join("\n"))
}

fn direction_report(
    policy: &Policy,
    scheduler: &Scheduler,
    problems: &Problems,
) -> DirectionReport {
    let link = &policy.link;
    let layer = link.layer.value;
    let device = setup::device(policy, scheduler.direction);
    let sizes = [link.mtu.value, 576, 40];
    DirectionReport {
        direction: scheduler.direction,
        device,
        line: scheduler.line,
        gate: scheduler.gate,
        layer,
        costs: sizes
            .into_iter()
            .map(|ip| cost(&layer, scheduler.line, ip))
            .collect(),
        line_extra: bounds::line_extra(scheduler),
        l4s: l4s::note(policy, scheduler),
        notes: acknowledgements(policy, scheduler.direction)
            .into_iter()
            .chain(segments::note(policy, scheduler))
            .chain(own_traffic::note(policy, scheduler.direction))
            .chain(order::note(policy, scheduler.direction))
            .collect(),
        classes: (0..scheduler.members.len())
            .map(|at| class_report(policy, scheduler, at, problems))
            .collect(),
    }
}

/// What acknowledgements take of the upstream, and what becomes of them.
fn acknowledgements(policy: &Policy, direction: Direction) -> Option<String> {
    let up = (direction == Direction::Up).then_some(policy)?;
    acks::note(up, engine::filtered(up, None))
}

fn cost(layer: &LinkLayer, line: Rate, ip: u32) -> Cost {
    Cost {
        ip,
        wire: layer.wire_bytes(ip),
        time: layer.serialisation(line, ip).unwrap_or_default(),
        milli_packets_per_second: (layer.packets_per_second(line, ip) * 1000.0) as u64,
        ip_rate: layer.ip_ceiling(line, ip),
    }
}

fn class_report(
    policy: &Policy,
    scheduler: &Scheduler,
    at: usize,
    problems: &Problems,
) -> ClassReport {
    let member = &scheduler.members[at];
    let class = &member.class;
    let layer = &policy.link.layer.value;
    let ip = |wire: Rate| {
        let bits = u128::from(wire.as_bits_per_second()) * u128::from(policy.link.mtu.value)
            / u128::from(scheduler.full_packet.max(1));
        Wire {
            wire,
            ip: Rate::bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX)),
        }
    };
    let queue = leaf::stated(member);
    let own_time = bounds::time(u64::from(member.largest), scheduler.line);
    let in_rows = engine::chosen(policy, None) == Engine::Rows;
    let waits = if in_rows {
        wait::in_rows(scheduler, at, layer)
    } else {
        wait::of(policy, scheduler, at, &queue)
    };
    let objective = class.objective.as_ref().and_then(|objective| {
        objective::judged(member, objective, waits.within.as_ref(), own_time, problems)
    });
    ClassReport {
        name: class.name.clone(),
        id: member.id,
        line: class.line,
        priority: class.priority,
        default: class.default,
        guaranteed: ip(class.rate),
        maximum: ip(class.ceiling),
        largest: member.largest,
        own_time,
        queue: if in_rows {
            rows::described(member)
        } else {
            described(&queue, member)
        },
        full: waits.full,
        lone: waits.lone,
        within: waits.within,
        keeps: waits.keeps,
        limited_hosts: member.capped,
        in_order: !in_rows && wait::in_order(scheduler, member, &queue),
        turns: waits.turns,
        burst: class.burst,
        objective,
    }
}

fn described(queue: &Queue, member: &Member) -> String {
    if member.capped > 0 {
        return format!(
            "one queue for each of {} hosts with a limit, and {} for the others",
            member.capped,
            queue.kind()
        );
    }
    match queue {
        Queue::Bfifo(limit) => format!("bfifo of {} bytes on the wire", limit.as_bytes()),
        Queue::Pfifo(limit) => format!("pfifo of {limit} packets"),
        Queue::Red(red) => format!("red of {} bytes on the wire", red.limit.as_bytes()),
        Queue::Cake(_) => hosts::described(member.class.fair),
        Queue::Kit(own) => kit::described(own),
        other => other.kind().to_owned(),
    }
}
