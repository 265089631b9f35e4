// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The promises of a policy as plain values; `text` formats them.
//!
//! Every bound is the sum of its steps, which [`bounds`] explains.

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
use crate::inbound::{automatic, conditioner, order, receive, virtual_queue};
pub(crate) use crate::report::bound::ms;
pub use crate::report::bound::{Bound, FullQueue, Step};
use crate::report::objective::ObjectiveReport;
use crate::scheduler::{self, Member, Scheduler, acks, bounds};
use crate::tree::{hosts, leaf};
use weirgate_document::{Problem, Problems};
use weirgate_linklayer::LinkLayer;
use weirgate_policy::{CakeQueue, Direction, Engine, Policy, Queue};
use weirgate_state::Capabilities;
use weirgate_units::{Handle, Rate, Size, Span};

/// The promises of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// The engine that shapes, and the reason, in one line.
    pub engine: String,
    /// The shaped directions, upstream first.
    pub directions: Vec<DirectionReport>,
    /// How arriving packets are policed without a queue; they have no classes and no bounds.
    pub policed: Option<String>,
    /// Problems that the author should know, such as objectives that are not met.
    pub problems: Vec<Problem>,
}

/// The promises for one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectionReport {
    /// The direction.
    pub direction: Direction,
    /// The device on which it is shaped.
    pub device: String,
    /// The rate of the line.
    pub line: Rate,
    /// The rate of the gate.
    pub gate: Rate,
    /// The overhead and framing of packets.
    pub layer: LinkLayer,
    /// The cost of some packet sizes.
    pub costs: Vec<Cost>,
    /// The time of data that the modem may hold besides the packet in transmission.
    pub line_extra: Span,
    /// Why acknowledgements that take much of the rate are not filtered, as a sentence.
    pub unfiltered: Option<String>,
    /// The effect of `l4s` on this direction.
    pub l4s: Option<String>,
    /// The choices that were made, with their reasons, as one or more sentences each.
    pub notes: Vec<String>,
    /// The classes in the order of service.
    pub classes: Vec<ClassReport>,
}

/// The cost of packets of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// The length of the IP packet in bytes.
    pub ip: u32,
    /// Its bytes on the wire.
    pub wire: u32,
    /// The time that it occupies the line.
    pub time: Span,
    /// The packet rate that fills the line, in thousandths per second.
    pub milli_packets_per_second: u64,
    /// The corresponding IP rate.
    pub ip_rate: Rate,
}

/// A rate in bits on the wire and in bits of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wire {
    /// The rate on the wire.
    pub wire: Rate,
    /// The rate of IP in packets of the link's MTU.
    pub ip: Rate,
}

/// The promises for one class in one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassReport {
    /// Its name.
    pub name: String,
    /// Its class identifier in the scheduler's HTB.
    pub id: Handle,
    /// Its line in the policy, counted from 1.
    pub line: u32,
    /// Its priority.
    pub priority: u8,
    /// Whether it takes packets that no rule matches.
    pub default: bool,
    /// The rate that it gets regardless of other classes.
    pub guaranteed: Wire,
    /// The rate that it gets while the others are idle.
    pub maximum: Wire,
    /// The size of its largest packet on the wire in bytes.
    pub largest: u32,
    /// The time of its largest packet on the line.
    pub own_time: Span,
    /// A description of its queue.
    pub queue: String,
    /// The wait of a packet that finds no other of its class, while the class is within its
    /// guarantee: from arrival until the gate releases it. `None` if no bound was derived for
    /// the engine; `full` then states the reason.
    pub lone: Option<Bound>,
    /// The wait of traffic that keeps to the rate `keeps` and to `burst`; `None` as for `lone`.
    pub within: Option<Bound>,
    /// The rate to which that traffic keeps: the guarantee, or half of it if packets do not
    /// leave in order.
    pub keeps: Rate,
    /// The number of hosts with their own limit in this class: `within` excludes waits caused by
    /// these limits.
    pub limited_hosts: u32,
    /// Whether packets leave in the order of arrival. If not, `within` applies in whatever order
    /// they leave.
    pub in_order: bool,
    /// The rate at which the class is served then, in turn with classes of equal priority.
    pub turns: Rate,
    /// Bytes on the wire that may arrive at once while the traffic still keeps to the rate,
    /// besides one packet of [`largest`](Self::largest).
    pub burst: Size,
    /// The wait of a packet that takes the last place in a full queue, or the reason why it has
    /// no bound.
    pub full: FullQueue,
    /// Its objective, if it states one.
    pub objective: Option<ObjectiveReport>,
}

impl ClassReport {
    /// Returns [`within`](Self::within) for the case that at most `before` bytes of the class's
    /// burst can be waiting, because the lines that deliver the burst take time themselves.
    ///
    /// # Errors
    ///
    /// Returns the reason why it is unknown: packets do not leave in order, or there is no bound
    /// at all.
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

/// Returns the promises of a policy on a kernel that supports everything.
#[must_use]
pub fn check_report(policy: &Policy) -> CheckReport {
    check_report_for(policy, &Capabilities::all())
}

/// Returns the promises of a policy, without the parts of `inbound = "auto"` that a kernel with
/// these capabilities lacks, and with the engine that it gets there for `l4s` and for limits of
/// hosts over all classes. Other lacks change nothing here: [`compile`](crate::compile) reports
/// them, and which queues replace missing ones.
#[must_use]
pub fn check_report_for(policy: &Policy, kernel: &Capabilities) -> CheckReport {
    report(policy, kernel, true)
}

/// Returns the same promises without their derivations: the steps of a wait are one or few, and
/// most have no text. For 200 classes this takes a fraction of the time.
#[must_use]
pub fn check_waits_for(policy: &Policy, kernel: &Capabilities) -> CheckReport {
    report(policy, kernel, false)
}

fn report(policy: &Policy, kernel: &Capabilities, derived: bool) -> CheckReport {
    let problems = Problems::default();
    let settled = automatic::settled(policy, kernel, "", &Problems::default());
    let settled = rows::settled(settled, kernel);
    let settled = engine::l4s::settled(settled, kernel, &Problems::default());
    let policy = settled.as_ref();
    let directions = Direction::BOTH
        .into_iter()
        .filter_map(|direction| {
            let policy = engine::direction::policy_in(policy, direction);
            // `compile` reports its problems.
            let scheduler = scheduler::of(&policy, direction, &Problems::default())?;
            Some(direction_report(&policy, &scheduler, derived, &problems))
        })
        .collect();
    CheckReport {
        engine: engine::reason(policy, l4s::engine(policy)),
        directions,
        policed: policed(&engine::direction::policy_in(policy, Direction::Down)),
        problems: problems.into_sorted(),
    }
}

/// Returns the notes on policing without a queue, one per line.
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
    derived: bool,
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
        unfiltered: acknowledgements(policy, scheduler.direction, acks::unfiltered),
        l4s: l4s::note(policy, scheduler),
        notes: acknowledgements(policy, scheduler.direction, acks::note)
            .into_iter()
            .chain(segments::note(policy, scheduler))
            .chain(own_traffic::note(policy, scheduler.direction))
            .chain(order::note(policy, scheduler.direction))
            .collect(),
        classes: (0..scheduler.members.len())
            .map(|at| class_report(policy, scheduler, at, derived, problems))
            .collect(),
    }
}

/// Returns what `of` says about acknowledgements upstream.
fn acknowledgements(
    policy: &Policy,
    direction: Direction,
    of: fn(&Policy, bool) -> Option<String>,
) -> Option<String> {
    let up = (direction == Direction::Up).then_some(policy)?;
    of(up, engine::filtered(up, None))
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
    derived: bool,
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
    let queue = queue(policy, member);
    let own_time = layer.serialisation_of(scheduler.line, member.largest);
    let own_time = own_time.unwrap_or_default();
    let in_rows = engine::chosen(policy, None) == Engine::Rows;
    let waits = if in_rows {
        wait::in_rows(scheduler, at, layer)
    } else {
        wait::of(policy, scheduler, at, &queue, derived)
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
            described(scheduler, &queue, member)
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

/// Returns the queue of a class in the tree or the kit's shaper, or cake at the root.
fn queue(policy: &Policy, member: &Member) -> Queue {
    let stated = leaf::stated(member);
    let at_root = engine::chosen(policy, None) == Engine::Cake;
    if at_root && !matches!(stated, Queue::Cake(_)) {
        return Queue::Cake(CakeQueue::default());
    }
    stated
}

fn described(scheduler: &Scheduler, queue: &Queue, member: &Member) -> String {
    if scheduler.holds_back(&member.class) {
        return "fq, which holds acknowledgements back".to_owned();
    }
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
