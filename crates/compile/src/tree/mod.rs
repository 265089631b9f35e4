// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The two HTB qdiscs of a direction.
//!
//! The outer qdisc, at the root, is the gate: one class at the rate of the link, with a minimal
//! token bucket, counted in bytes on the wire by the root's size table. Its child is the inner
//! qdisc, the scheduler, which never limits the total rate. It gives each class a guarantee, a
//! ceiling, a priority and a quantum. It is asked for exactly one packet each time the gate
//! opens.
//!
//! In a single HTB tree, a leaf with tokens sends regardless of the root's tokens (`htb_dequeue`
//! examines leaves first). Several classes could then send at once, and the queue would form in
//! the modem.

pub(crate) mod hosts;
pub(crate) mod leaf;

use crate::scheduler::number::{INNER, OUTER};
use crate::scheduler::parts::{CappedHost, Parent};
use crate::scheduler::{Member, Scheduler, bounds};
use weirgate_policy::{Direction, Inbound, Policy, in_kbit};
use weirgate_state::{Htb, HtbClass, Origin, Pfifo, Qdisc, QdiscKind};
use weirgate_units::{Handle, Rate, Span};

/// How far the rate of the scheduler's root exceeds that of the gate. Ten packets could pass it
/// in the time of one, so it never limits.
const ABOVE: u64 = 10;

/// A token bucket that does not run dry at ten times the gate's rate.
const AMPLE: Span = Span::from_millis(100);

/// HTB's divisor for classes without a quantum; all classes here have one.
const R2Q: u32 = 10;

/// The class on a LAN device for packets that do not come from the link.
pub(crate) const LOCAL: Handle = Handle::new(OUTER, 2);

/// A rate above that of any LAN device, which still fits tc's 32 bits of bytes a second.
const UNLIMITED: Rate = Rate::bits_per_second(32_000_000_000);

/// The queue limit of a LAN device in packets, the kernel's own default.
const LOCAL_QUEUE: u32 = 1000;

/// Returns the root qdisc of a direction's device.
pub(crate) fn root(policy: &Policy, scheduler: &Scheduler) -> Qdisc {
    let link = &policy.link;
    let on_lan = scheduler.direction == Direction::Down && link.inbound.value == Inbound::Lan;
    let kind = if on_lan {
        link.lan_kind.value
    } else {
        link.device_kind.value
    };
    let mut classes = vec![gate(policy, scheduler)];
    // A bridge port to the inside carries only packets from the link.
    if on_lan && !link.bridge {
        classes.push(local(policy, scheduler));
    }
    Qdisc {
        handle: Handle::new(OUTER, 0),
        stab: Some(link.layer.value.stab(kind)),
        kind: QdiscKind::Htb(Htb {
            default_minor: 1,
            r2q: R2Q,
            direct: Some(0),
            classes,
        }),
        origin: Origin::new(
            link.layer.line,
            format!(
                "counts every {} packet as on the wire ({})",
                scheduler.direction.stream(),
                link.layer.value
            ),
        ),
    }
}

/// Returns the policy line that states the rate of the direction.
fn rate_line(policy: &Policy, scheduler: &Scheduler) -> u32 {
    match (scheduler.direction, &policy.link.down) {
        (Direction::Down, Some(down)) => down.line,
        _ => policy.link.up.line,
    }
}

fn gate(policy: &Policy, scheduler: &Scheduler) -> HtbClass {
    HtbClass {
        id: Handle::new(OUTER, 1),
        parent: Handle::new(OUTER, 0),
        rate: scheduler.gate,
        ceil: scheduler.gate,
        buffer: scheduler.gate_buffer,
        cbuffer: scheduler.gate_buffer,
        prio: 0,
        quantum: scheduler.full_packet,
        leaf: Some(Box::new(inner(policy, scheduler))),
        origin: Origin::new(
            rate_line(policy, scheduler),
            format!(
                "the gate that every {} packet passes: {} of a line of {}, next to no bucket",
                scheduler.direction.stream(),
                in_kbit(scheduler.gate),
                in_kbit(scheduler.line)
            ),
        ),
    }
}

/// Returns the class for packets that leave through the LAN device but did not come from the
/// link.
fn local(policy: &Policy, scheduler: &Scheduler) -> HtbClass {
    let reason = "what does not come from the link is not slowed; behind the gate in priority, \
                  which cannot fill a LAN";
    let origin = Origin::new(policy.link.inbound.line, reason);
    HtbClass {
        id: LOCAL,
        parent: Handle::new(OUTER, 0),
        rate: UNLIMITED,
        ceil: UNLIMITED,
        buffer: AMPLE,
        cbuffer: AMPLE,
        prio: 1,
        quantum: scheduler.full_packet,
        leaf: Some(Box::new(Qdisc {
            handle: Handle::new(3, 0),
            stab: None,
            kind: QdiscKind::Pfifo(Pfifo { limit: LOCAL_QUEUE }),
            origin: origin.clone(),
        })),
        origin,
    }
}

fn inner(policy: &Policy, scheduler: &Scheduler) -> Qdisc {
    let top = Handle::new(INNER, 1);
    let above = above(scheduler);
    let line = rate_line(policy, scheduler);
    let mut classes = vec![HtbClass {
        id: top,
        parent: Handle::new(INNER, 0),
        rate: above,
        ceil: above,
        buffer: AMPLE,
        cbuffer: AMPLE,
        prio: 0,
        quantum: scheduler.full_packet,
        leaf: None,
        origin: Origin::new(
            line,
            "lends what guarantees leave; far above the gate, which alone limits",
        ),
    }];
    for parent in &scheduler.parents {
        classes.push(whole(scheduler, parent, top));
    }
    for member in &scheduler.members {
        classes.push(class(scheduler, member, member.parent.unwrap_or(top)));
    }
    for parent in &scheduler.parents {
        let hosts = parent.hosts.iter();
        classes.extend(hosts.map(|one| host(scheduler, parent, one)));
    }
    Qdisc {
        handle: Handle::new(INNER, 0),
        stab: None,
        kind: QdiscKind::Htb(Htb {
            default_minor: scheduler.unseen().minor,
            r2q: R2Q,
            direct: Some(0),
            classes,
        }),
        origin: Origin::new(
            line,
            "the scheduler: guarantees first, then the rest by priority and in turns",
        ),
    }
}

fn above(scheduler: &Scheduler) -> Rate {
    Rate::bits_per_second(scheduler.gate.as_bits_per_second().saturating_mul(ABOVE))
}

/// Returns a class that has children.
fn whole(scheduler: &Scheduler, parent: &Parent, top: Handle) -> HtbClass {
    let class = &parent.class;
    let limited = class.ceiling < scheduler.gate;
    let (ceil, cbuffer) = if limited {
        (class.ceiling, parent.buffer)
    } else {
        (above(scheduler), AMPLE)
    };
    let reason = parent.reason();
    HtbClass {
        id: parent.id,
        parent: top,
        rate: class.rate,
        ceil,
        buffer: parent.buffer,
        cbuffer,
        // The kernel ignores both for an inner class.
        prio: class.priority,
        quantum: scheduler.full_packet,
        leaf: None,
        origin: Origin::new(class.line, reason),
    }
}

/// A minimal rate: HTB needs one, and at one byte a second no packet is ever guaranteed.
const NOTHING: Rate = Rate::bits_per_second(8);

/// A minimal token bucket: one tick.
const TICK: Span = Span::from_nanos(64);

/// Returns the class of a host with a limit.
fn host(scheduler: &Scheduler, parent: &Parent, host: &CappedHost) -> HtbClass {
    let reason = format!(
        "{} in class {}: {} at most",
        host.address,
        parent.class.name,
        in_kbit(host.ceil)
    );
    let origin = Origin::new(host.line, reason);
    HtbClass {
        id: host.id,
        parent: parent.id,
        rate: NOTHING,
        ceil: host.ceil,
        buffer: TICK,
        // The bucket holds one full packet.
        cbuffer: bounds::time(u64::from(scheduler.full_packet), host.ceil),
        prio: parent.class.priority,
        quantum: scheduler.full_packet,
        leaf: Some(Box::new(leaf::of_host(scheduler, host, &origin))),
        origin,
    }
}

fn class(scheduler: &Scheduler, member: &Member, parent: Handle) -> HtbClass {
    let class = &member.class;
    // Leave a ceiling of the whole link to the gate. Here it could only make the scheduler
    // refuse a packet when the gate asks for one.
    let limited = class.ceiling < scheduler.gate;
    let (ceil, cbuffer) = if limited {
        // The ceiling's bucket is at least as long in time as the rate needs, so that a ceiling
        // equal to the guarantee does not reduce it.
        (class.ceiling, member.buffer)
    } else {
        (above(scheduler), AMPLE)
    };
    let most = if limited {
        format!(", {} at most", in_kbit(class.ceiling))
    } else {
        String::new()
    };
    let (rate, buffer, owed) = if member.capped > 0 {
        let owed = "hosts without a limit, in turn with the others".to_owned();
        (NOTHING, TICK, owed)
    } else {
        let owed = format!("{} guaranteed{most}", in_kbit(class.rate));
        (class.rate, member.buffer, owed)
    };
    let rest = match (&member.group, member.parent) {
        (None, Some(_)) if member.capped == 0 => ", hosts of no group",
        _ => "",
    };
    let reason = format!(
        "class {}{rest}: {owed}, priority {}",
        class.name, class.priority
    );
    HtbClass {
        id: member.id,
        parent,
        rate,
        ceil,
        buffer,
        cbuffer,
        prio: class.priority,
        quantum: member.quantum,
        leaf: Some(Box::new(leaf::qdisc(scheduler, member))),
        origin: Origin::new(class.line, reason),
    }
}
