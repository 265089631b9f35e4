// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sharing a class between inside hosts.
//!
//! The queue is cake without its shaper and with one tin: host first, then
//! flow, in turns of wire bytes (DRR++, `dual-srchost` upstream and
//! `dual-dsthost` downstream, net/sched/sch_cake.c). It needs no list of hosts.
//! Behind address translation, where the packets of all hosts have one address
//! by the time a qdisc sees them, cake asks connection tracking for the inside
//! address itself (`nat`), also for packets that arrive on an IFB before they
//! have been tracked: their connection is looked up. On the LAN device, where
//! packets have been translated back, `nat` must be off: it would put the outer
//! address in the inside host's place (measured: Jain 0.853 with, in the lab).
//!
//! What was weighed and left: `fq_codel` with a `flow` filter on `nfct-src`
//! makes one queue for each host and mixes its flows in it, and the filter has
//! no look-up for packets on an IFB; an HTB class for each host needs a list.

use crate::bounds;
use crate::scheduler::{Member, Scheduler};
use weirgate_document::Value;
use weirgate_policy::{CakeQueue, Direction, Fair, FqCodelQueue, Queue, in_kbit};
use weirgate_state::CakeFlowMode;
use weirgate_units::{Rate, Size, Span};

/// The queue of a class: what it states, or what its `fair` asks for.
pub(crate) fn queue(stated: Option<&Value<Queue>>, fair: Option<Fair>) -> Queue {
    match (stated, fair) {
        (Some(queue), _) => queue.value.clone(),
        (None, Some(Fair::Hosts)) => Queue::Cake(CakeQueue::default()),
        (None, _) => Queue::FqCodel(FqCodelQueue::default()),
    }
}

/// Between whom cake shares; between hosts where nothing else is asked for.
pub(crate) fn mode(fair: Option<Fair>, direction: Direction) -> CakeFlowMode {
    match (fair, direction) {
        (Some(Fair::Flows), _) => CakeFlowMode::Flows,
        (_, Direction::Up) => CakeFlowMode::DualSrcHost,
        (_, Direction::Down) => CakeFlowMode::DualDstHost,
    }
}

/// The round-trip time from which cake takes its target, a twentieth: at least
/// the time of a full packet, since a target below it would drop what cannot be
/// helped (RFC 8289 section 4.4). A cake without a rate does not know that time
/// (`cake_set_rate`), and tc cannot state the target alone.
pub(crate) fn round_trip(scheduler: &Scheduler, usual: Span) -> Span {
    let packet = bounds::time(u64::from(scheduler.full_packet), scheduler.gate);
    let whole = Span::from_micros(packet.as_nanos().div_ceil(1_000) * 20);
    usual.max(whole)
}

/// Bytes that a cake may hold: as much as an `fq_codel` of the same link.
pub(crate) fn memory(stated: Option<Size>, small: bool) -> u32 {
    let usual = if small { 4 << 20 } else { 32 << 20 };
    stated.map_or(usual, |memory| {
        u32::try_from(memory.as_bytes()).unwrap_or(u32::MAX)
    })
}

/// In words, for a report.
pub(crate) fn described(fair: Option<Fair>) -> String {
    match fair {
        Some(Fair::Flows) => "cake, shared between flows".to_owned(),
        _ => "cake, shared between hosts, then between the flows of each".to_owned(),
    }
}

/// Why a cake has no bound, with what can be said.
///
/// A packet of a flow that sends less than its part goes before those of flows
/// that send more (DRR++), but nothing limits how many such flows there are; and
/// COBALT drops what stays, never what only has to wait its turn. What is left
/// is the memory: no more than that is ever before a packet at one time.
pub(crate) fn unbounded(member: &Member, memory: u32) -> String {
    let who = match member.class.fair {
        Some(Fair::Flows) => "flows",
        _ => "hosts and flows",
    };
    let all = bounds::time(u64::from(memory), member.class.rate);
    let rate: Rate = member.class.rate;
    format!(
        "cake serves {who} in turn: a packet waits for every one that is active, and a flow that \
         does not slow down fills its own queue; all that it may hold, {} KiB, takes {:.1} s at \
         the guaranteed {}",
        memory >> 10,
        all.as_millis_f64() / 1e3,
        in_kbit(rate)
    )
}
