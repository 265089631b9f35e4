// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kit's shaper as an engine: the classes of a scheduler behind one gate, with a discipline
//! of the kit as the queue of each.
//!
//! It serves classes like the tree: guarantees first, by priority, then the excess by priority,
//! and among equals in proportion to guarantees, one packet at a time. The bounds that `bounds`
//! derives therefore apply, with the same credit. [`queue`] selects the discipline that replaces
//! each of the kernel's queues; a discipline that a class names is used as stated
//! ([`completed`]).

use crate::engine;
use crate::engine::rows::wire;
use crate::scheduler::{Member, Scheduler, acks, bounds};
use crate::tree::leaf;
use weirgate_aqm::{Discipline, Row, Settings, WIRE_BYTES};
use weirgate_policy::{Class, Direction, KitQueue, Policy, Queue, in_kbit};
use weirgate_state::{Kit, KitClass, KitProgram, KitSetting, Origin, Qdisc, QdiscKind, Red};
use weirgate_units::{Arrange as _, Span};

/// The ratio 1 in fixed point: `AQM_ONE` (aqm/include/aqm.h).
const ONE: u64 = 1 << 32;

/// The value of `measure` for bytes on the wire, of drop tail and of RED.
const DROPTAIL_ON_WIRE: u64 = 1;
const RED_ON_WIRE: u64 = 2;

/// The default target of the kit's PIE (`aqm/pie.c`).
const PIE_TARGET: Span = Span::from_millis(15);

/// The discipline of the kit with a queue for L4S (`aqm/dualpi2.c`).
pub(crate) const DUAL: &str = "dualpi2";

/// The delay from which ECT(1) packets are marked (RFC 9332 section 4.1.2), unless the link
/// needs longer for [`FEWEST`].
const SHALLOW: Span = Span::from_millis(1);

/// The number of full packets whose time the L4S queue must allow before it marks by delay: the
/// packet itself, and one on the line before it (`step_packets` of `aqm/dualpi2.c`).
const FEWEST: u64 = 2;

/// `ce_threshold_for` of `aqm/fq_codel.c`.
const THRESHOLD_FOR_L4S: u64 = 1;

/// The limit of dualpi2 in time, and its smallest and largest value in packets; the latter is
/// its default (`aqm/dualpi2.c`).
const DUAL_HOLDS: Span = Span::from_millis(250);
const DUAL_LEAST: u64 = 100;
const DUAL_MOST: u64 = 10_000;

/// Returns what the kit's shaper lacks for a policy, and how to change the policy. A downstream
/// with an engine of its own does not matter.
#[must_use]
pub fn misfit(policy: &Policy) -> Option<(String, &'static str)> {
    let shaped = |direction: &Direction| engine::is_of_link(policy, *direction);
    for direction in Direction::BOTH.into_iter().filter(shaped) {
        let classes: Vec<&Class> = policy.classes_of(direction).collect();
        let ack = policy.ack.as_ref();
        let ack = ack.filter(|_| policy.ack_rate(direction).is_some());
        let count = classes.len() + usize::from(ack.is_some());
        if count > Kit::CLASSES {
            let most = Kit::CLASSES;
            let stream = direction.stream();
            return Some((
                format!("it has room for {most} classes, but {count} are {stream}"),
                "write `engine = \"htb\"`, or join classes",
            ));
        }
        let queues = classes
            .iter()
            .map(|class| (&class.queue, class.name.value.as_str()))
            .chain(ack.map(|ack| (&ack.queue, "ack")))
            .filter_map(|(queue, name)| Some((&queue.as_ref()?.value, name)));
        let of_kit = queues.clone().filter_map(|(queue, _)| match queue {
            Queue::Kit(own) => Some(own.discipline),
            _ => None,
        });
        let mut own: Vec<&str> = of_kit
            .filter(|name| Discipline::named(name).is_none())
            .collect();
        own.arrange();
        own.dedup();
        if let [one, other, ..] = own.as_slice() {
            return Some((
                format!(
                    "it takes one discipline of your own in each direction, but `{one}` and \
                     `{other}` are {}",
                    direction.stream()
                ),
                "give one of the classes a queue of the kit",
            ));
        }
        for (queue, name) in queues {
            if matches!(queue, Queue::Sfq(_) | Queue::Cake(_)) {
                return Some((
                    format!("it has no queue `{}`, which `{name}` names", queue.kind()),
                    "write `queue = \"fq_codel\"`, or leave `queue` out",
                ));
            }
        }
    }
    let link = policy.link.fair.as_ref();
    let fair = policy
        .classes
        .iter()
        .filter_map(|class| class.fair.as_ref());
    if let Some(fair) = fair.chain(link).find(|fair| fair.value.knows_hosts()) {
        let at = fair.line;
        return Some((
            format!("it does not share between hosts, which line {at} requires"),
            "write `fair = \"flows\"`",
        ));
    }
    if let Some(slack) = &policy.link.timer_slack {
        let at = slack.line;
        return Some((
            format!("its gate sets the timer slack itself, but line {at} states it"),
            "leave `timer-slack` out, or write `engine = \"htb\"`",
        ));
    }
    engine::only_a_tree_has(policy, |group| {
        format!("it has no classes within classes, which the share of `{group}` needs")
    })
}

/// Returns the shaper at the root of a direction's device.
pub(crate) fn root(policy: &Policy, scheduler: &Scheduler) -> Qdisc {
    let link = &policy.link;
    let layer = &link.layer.value;
    let device = link.device_kind.value;
    let mtu = link.mtu.value + device.counted();
    let mut classes: Vec<KitClass> = scheduler
        .members
        .iter()
        .map(|member| class(scheduler, member, mtu))
        .collect();
    classes.arrange_by_key(|class| class.id);
    let reason = format!(
        "engine kit: {} of a line of {}, counted as on the wire ({layer}); one packet at a time{}",
        in_kbit(scheduler.gate),
        in_kbit(scheduler.line),
        acks::dropped(scheduler.ack_filter)
    );
    let own = classes.iter().find_map(own_program);
    let kit = Kit {
        gate: scheduler.gate,
        wire: wire(link),
        mtu,
        other: scheduler.unseen(),
        marks: classes.iter().any(marks),
        acks: scheduler.ack_filter,
        own,
        classes,
    };
    Qdisc {
        handle: kit.handle(),
        stab: None,
        kind: QdiscKind::Kit(kit),
        origin: Origin::new(
            link.engine
                .as_ref()
                .map_or(link.layer.line, |engine| engine.line),
            reason,
        ),
    }
}

/// Returns the program for a class's discipline, if that is not part of the kit.
fn own_program(class: &KitClass) -> Option<KitProgram> {
    let name = &class.discipline;
    if Discipline::named(name).is_some() {
        return None;
    }
    let own = Discipline::any_named(name)?;
    Some(KitProgram::new(name, own.shaper_number()))
}

/// Returns whether a class's discipline marks, with its explicit parameters and the defaults of
/// the others.
fn marks(class: &KitClass) -> bool {
    let Some(discipline) = Discipline::any_named(&class.discipline) else {
        return false;
    };
    let mut settings = Settings::new(discipline);
    let explicit = class.settings.iter();
    explicit.for_each(|one| _ = settings.set(&one.name, one.value));
    settings.marks()
}

fn class(scheduler: &Scheduler, member: &Member, mtu: u32) -> KitClass {
    let class = &member.class;
    let limited = class.ceiling < scheduler.gate;
    let (discipline, settings) = queue(scheduler, member, mtu);
    let most = if limited {
        format!(", {} at most", in_kbit(class.ceiling))
    } else {
        String::new()
    };
    KitClass {
        id: member.id,
        guarantee: class.rate,
        ceiling: limited.then_some(class.ceiling),
        credit: member.buffer,
        weight: member.quantum.max(1),
        prio: class.priority,
        discipline: discipline.to_owned(),
        settings: settings
            .into_iter()
            .map(|(name, value)| KitSetting {
                name: name.to_owned(),
                value,
                usual: false,
            })
            .collect(),
        origin: Origin::new(
            class.line,
            format!(
                "class {}: {} guaranteed{most}, priority {}",
                class.name,
                in_kbit(class.rate),
                class.priority
            ),
        ),
    }
}

/// Returns the discipline for a class's queue, and the explicit values of its parameters. They
/// are the tree's values, with bytes on the wire. `mtu` is in bytes as the device counts them.
fn queue(
    scheduler: &Scheduler,
    member: &Member,
    mtu: u32,
) -> (&'static str, Vec<(&'static str, u64)>) {
    let nanos = |span: Span| span.as_nanos();
    if let Queue::Kit(own) = leaf::stated(member) {
        return (own.discipline, completed(&own, scheduler, member, mtu));
    }
    match leaf::qdisc(scheduler, member).kind {
        QdiscKind::Bfifo(fifo) => (
            "droptail",
            vec![
                ("limit_packets", 1 << 20),
                ("limit_bytes", fifo.limit.as_bytes()),
                ("measure", DROPTAIL_ON_WIRE),
            ],
        ),
        QdiscKind::Pfifo(fifo) => ("droptail", vec![("limit_packets", u64::from(fifo.limit))]),
        QdiscKind::Red(own) if own.adaptive => ("ared", red(&own)),
        QdiscKind::Red(own) => ("red", red(&own)),
        QdiscKind::FqCodel(own) => {
            let stated = match leaf::stated(member) {
                Queue::FqCodel(stated) => stated.quantum,
                _ => None,
            };
            let mut settings = vec![
                ("target_ns", nanos(own.target)),
                ("interval_ns", nanos(own.interval)),
                ("limit_packets", u64::from(own.limit.min(1 << 20))),
                ("ecn", u64::from(own.ecn)),
                ("mtu_bytes", no_queue(mtu, scheduler.full_packet)),
            ];
            // The default is one MTU, as the device counts.
            let quantum = stated.map(|bytes| ("quantum_bytes", u64::from(bytes.min(1 << 20))));
            settings.extend(quantum);
            settings.extend(own.ce_threshold.into_iter().flat_map(shallow));
            ("fq_codel", settings)
        }
        // `misfit` has reported these, so the result is not used.
        _ => ("fq_codel", Vec::new()),
    }
}

/// Returns the parameters that a policy states for a discipline, and further ones whose defaults
/// do not suit this link: targets must allow for a full packet.
fn completed(
    own: &KitQueue,
    scheduler: &Scheduler,
    member: &Member,
    mtu: u32,
) -> Vec<(&'static str, u64)> {
    let stated = own.value("target_ns").map(Span::from_nanos);
    let (target, interval) = if own.discipline == "fq_codel" {
        leaf::codel_in_turns(scheduler.full_packet, scheduler.gate, stated)
    } else {
        leaf::codel(scheduler, stated)
    };
    let mut chosen: Vec<(&'static str, u64)> = match own.discipline {
        "codel" | "fq_codel" => vec![
            ("target_ns", target.as_nanos()),
            ("interval_ns", interval.as_nanos()),
            ("mtu_bytes", no_queue(mtu, scheduler.full_packet)),
        ],
        // Its base probability is that of PIE, with the same target (RFC 9332 appendix A.1).
        DUAL => vec![
            ("limit_packets", dual_limit(scheduler)),
            ("target_ns", target.max(PIE_TARGET).as_nanos()),
            ("step_ns", step(scheduler, member).as_nanos()),
        ],
        // RFC 8033's target is 15 ms.
        "pie" if target > PIE_TARGET => vec![("target_ns", target.as_nanos())],
        _ => Vec::new(),
    };
    if own.discipline == "fq_codel" && scheduler.l4s && own.value("ce_threshold_ns").is_none() {
        chosen.extend(shallow(leaf::shallow(
            scheduler.full_packet,
            scheduler.gate,
        )));
    }
    let unsaid = chosen
        .into_iter()
        .filter(|(name, _)| own.value(name).is_none());
    let mut all: Vec<(&'static str, u64)> = own.explicit.clone();
    all.extend(unsaid);
    all
}

/// Returns the delay from which the dual queue of a class marks ECT(1). Beside other classes, a
/// class receives packets at its guaranteed rate. If the step were shorter than two packets at
/// that rate, all would be marked, and L4S senders would leave their guarantee to others.
pub(crate) fn step(scheduler: &Scheduler, member: &Member) -> Span {
    let packets = u64::from(scheduler.full_packet) * FEWEST;
    SHALLOW.max(bounds::time(packets, member.class.rate))
}

/// Returns the parameters for fq_codel's ECT(1) threshold.
fn shallow(threshold: Span) -> [(&'static str, u64); 2] {
    [
        ("ce_threshold_ns", threshold.as_nanos()),
        ("ce_threshold_for", THRESHOLD_FOR_L4S),
    ]
}

/// Returns the limit of both queues of dualpi2: a quarter of a second of full packets at the
/// gate's rate (`limit` of RFC 9332 appendix A.1), and enough small ones on a slow link.
fn dual_limit(scheduler: &Scheduler) -> u64 {
    let packet = bounds::time(u64::from(scheduler.full_packet), scheduler.gate);
    (DUAL_HOLDS.as_nanos() / packet.as_nanos().max(1)).clamp(DUAL_LEAST, DUAL_MOST)
}

/// Returns the limit in packets of a first-in first-out queue if it is known.
pub(crate) fn packets_held(own: &KitQueue) -> Option<u64> {
    let limit = in_force(own, "limit_packets").map(|(value, _)| value);
    limit.filter(|most| *most > 0)
}

/// Returns the limit in bytes on the wire of such a queue if it is known. If it is counted in
/// other bytes, small packets may take far more on the wire.
pub(crate) fn bytes_held(own: &KitQueue) -> Option<u64> {
    let measured = in_force(own, "measure").is_some_and(|(value, row)| row.format(value) == "wire");
    let limit = in_force(own, "limit_bytes").filter(|(_, row)| measured || row.unit == WIRE_BYTES);
    limit.map(|(value, _)| value).filter(|most| *most > 0)
}

/// Returns the value of a parameter of a first-in first-out queue, with the parameter's row.
fn in_force(own: &KitQueue, name: &str) -> Option<(u64, Row)> {
    let kit = Discipline::named(own.discipline).filter(|_| in_order(own))?;
    let row = kit.params().into_iter().find(|row| row.name == name)?;
    Some((own.value(name).unwrap_or(row.default), row))
}

/// Returns whether packets leave the queue in the order of arrival: a discipline of the kit with
/// one queue serves it in that order. All disciplines of the kit are work-conserving; nothing is
/// known about a user's own.
pub(crate) fn in_order(own: &KitQueue) -> bool {
    Discipline::named(own.discipline).is_some_and(|kit| kit.queues() == 1)
}

/// Explains why the wait in a full queue has no bound; returns `None` if it has one.
pub(crate) fn unordered(own: &KitQueue) -> Option<&'static str> {
    if packets_held(own).is_some() || bytes_held(own).is_some() {
        return None;
    }
    if Discipline::named(own.discipline).is_none() {
        return Some("a discipline of your own decides how much it holds and in which order");
    }
    Some(match own.discipline {
        "droptail" => "it holds as many packets as the device's queue; set `limit_packets`",
        "mered" | "meredt" => {
            "short flows go first, so a packet of a long flow waits as long as there are short ones"
        }
        DUAL => {
            "packets with ECT(1) or NQB go first, unless another packet has waited for 50 ms \
             longer, and a flow that does not slow down fills its own queue"
        }
        "fq_codel" => {
            "fq_codel serves flows in turn, so a packet waits for every active flow, and a flow \
             that does not slow down fills its own queue"
        }
        _ => {
            "how much it holds follows from thresholds that the discipline chooses; set \
             `limit_bytes` and `measure = \"wire\"`"
        }
    })
}

/// Describes the queue for a report.
pub(crate) fn described(own: &KitQueue) -> String {
    if Discipline::named(own.discipline).is_none() {
        return format!("{}, a discipline of your own", own.discipline);
    }
    match (packets_held(own), bytes_held(own)) {
        (None, None) => format!("the kit's {}", own.discipline),
        (None, Some(bytes)) => format!("the kit's {} of {bytes} B on the wire", own.discipline),
        (Some(packets), _) => format!("the kit's {} of {packets} packets", own.discipline),
    }
}

/// Returns the backlog that CoDel tolerates, in bytes as the device counts them. The kernel's
/// CoDel tolerates one MTU. It compares that with bytes on the wire, as the tree's size table
/// counts them, so that a single full packet can exceed it.
fn no_queue(mtu: u32, full_packet: u32) -> u64 {
    let (mtu, wire) = (u64::from(mtu), u64::from(full_packet).max(1));
    (mtu * mtu / wire).clamp(1, mtu)
}

/// Returns RED's parameters under the kit's names. Like the kernel's RED, it drops every packet
/// above the upper threshold.
fn red(own: &Red) -> Vec<(&'static str, u64)> {
    vec![
        ("limit_bytes", own.limit.as_bytes()),
        ("min_bytes", own.min.as_bytes()),
        ("max_bytes", own.max.as_bytes()),
        ("weight", ONE >> own.wlog.min(24)),
        (
            "max_p",
            (ONE * u64::from(own.probability_millionths) / 1_000_000).max(1 << 12),
        ),
        ("measure", RED_ON_WIRE),
        ("gentle", 0),
        ("ecn", u64::from(own.ecn)),
    ]
}

#[cfg(test)]
mod tests {
    use super::no_queue;

    /// With ATM cells, a full packet of 1,514 bytes takes 1,696 bytes and exceeds the limit.
    /// Where both counts are equal, it does not.
    #[test]
    fn a_full_packet_is_a_queue_behind_a_size_table() {
        assert_eq!(no_queue(1_514, 1_696), 1_351);
        assert_eq!(no_queue(1_514, 1_514), 1_514);
        assert_eq!(no_queue(1_514, 0), 1_514);
    }
}
