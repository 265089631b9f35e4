// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sharing a class between inside hosts.
//!
//! The queue is cake without its shaper and with one tin: host first, then
//! flow, in turns of wire bytes (DRR++, `dual-srchost` upstream and
//! `dual-dsthost` downstream, net/sched/sch_cake.c). It needs no list of hosts.
//! Behind address translation, the packets of all hosts have one address by the
//! time a qdisc sees them. There cake asks connection tracking for the inside
//! address itself (`nat`). It does so for packets that arrive on an IFB before they
//! have been tracked, too: their connection is looked up. On the LAN device, where
//! packets have been translated back, `nat` must be off: it would put the outer
//! address in the inside host's place (measured: Jain 0.853 with, in the lab).
//!
//! Where a class is shared between hosts alone, all flows of a host are in one
//! queue (`srchost`, `dsthost`). That is for what has thousands of flows of a
//! packet each: port scans, floods of SYNs, P2P. DRR++ serves a flow's first
//! packets before all flows that have more, whosever they are, so that such a
//! flood takes all of a class. A full cake drops from the flow that holds the most
//! bytes, which is one with full packets (`cake_dequeue`, `cake_drop`).
//!
//! And cake keeps a flow's queue until its interval has passed since its last packet
//! (`cobalt_should_drop` notes that time, `cake_dequeue` heeds it). With the long
//! `rtt` of a class without AQM its 1024 queues are soon all taken, and transfers
//! share them. That was measured with `rtt = "200s"` and ten hosts with 1 to 100
//! connections beside a thousand quiet ones: four runs of six had Jain's index
//! below 0.91. By hosts alone it is 0.99 or more.
//! No figures stand here: those there were came from runs of different settings,
//! in which a sender's flows changed their queues with every timeout.
//!
//! # What is dropped downstream
//!
//! A packet that is dropped here has used the line already. The tree's gate
//! counts only what leaves, so with a loss of p the line carries 1 / (1 - p) times
//! the gate's rate. Where hundreds of connections with the least window of two
//! packets are more than the line and its queue hold, p is a fifth. Then the
//! far end's queue is full for good, which drops without regard to hosts
//! (measured with 242 connections on 8 Mbit/s: Jain 0.43, 12,600 packets lost
//! there and 1,050 here). So downstream cake has a shaper at its class's ceiling
//! and counts what it drops (`ingress`); it then also tolerates two packets of
//! each flow that has a queue (`cobalt_should_drop`), without which windows could
//! not be held here. The tree stays in charge: at equal rates cake's shaper waits
//! only after a drop.
//!
//! What was weighed and left: `fq_codel` with a `flow` filter on `nfct-src`
//! makes one queue for each host and mixes its flows in it, and the filter has
//! no look-up for packets on an IFB; an HTB class for each host needs a list.

use crate::scheduler::bounds;
use crate::scheduler::{Member, Scheduler};
use weirgate_document::Value;
use weirgate_policy::{CakeQueue, Direction, Fair, FqCodelQueue, Queue, SharedClass, in_kbit};
use weirgate_state::CakeFlowMode;
use weirgate_units::{Rate, Size, Span};

/// Below this, queues are kept short in packets and memory (as OpenWrt does).
pub(crate) const SMALL_LINK: Rate = Rate::kbit(10_000);

/// The queue of a class: what it states, or what its `fair` asks for.
pub(crate) fn queue(stated: Option<&Value<Queue>>, fair: Option<Fair>) -> Queue {
    match (stated, fair) {
        (Some(queue), _) => queue.value.clone(),
        (None, Some(Fair::Hosts | Fair::HostsOnly)) => Queue::Cake(CakeQueue::default()),
        (None, _) => Queue::FqCodel(FqCodelQueue::default()),
    }
}

/// Whether a class's queue is cake.
pub(crate) fn has_cake(class: &SharedClass) -> bool {
    let queue = queue(class.queue.as_ref(), class.fair);
    matches!(queue, Queue::Cake(_))
}

/// Between whom cake shares; between hosts where nothing else is asked for.
pub(crate) fn mode(fair: Option<Fair>, direction: Direction) -> CakeFlowMode {
    match (fair, direction) {
        (Some(Fair::Flows), _) => CakeFlowMode::Flows,
        (Some(Fair::HostsOnly), Direction::Up) => CakeFlowMode::SrcHost,
        (Some(Fair::HostsOnly), Direction::Down) => CakeFlowMode::DstHost,
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

/// How long a class takes, at its ceiling, for what its cake may hold.
///
/// Three seconds are the longest that TCP waits before it sends something again
/// that was not lost (RFC 6298 section 5.7): what waits longer is there twice.
/// Much less, and the memory limit drops where cake would have shared: with 242
/// connections of ten hosts and one second, Jain's index was 0.969 (in the lab).
const HELD: Span = Span::from_millis(3_000);

/// Packets that a cake may hold however slow its class is.
const LEAST_HELD: u64 = 32;

/// What a full packet takes of a cake's memory: its data's allocation of 2048
/// bytes and `struct sk_buff` (`skb->truesize`, which `cake_enqueue` adds up).
const TRUE_SIZE: u64 = 2_304;

/// What cake itself takes at most where nothing is set (`cake_reconfigure`),
/// on links below 10 Mbit/s and above.
const MOST_HELD: [u64; 2] = [4 << 20, 32 << 20];

/// Bytes of memory that a cake may hold: what its class sends in [`HELD`] in
/// full packets. Without a bound of time, cake's own is no limit on a slow link:
/// its AQM drops from flows that keep a queue, not from thousands with a packet
/// each, whose 4 MiB took 20 s in a class of 160 kbit/s (in the lab).
pub(crate) fn memory(stated: Option<Size>, scheduler: &Scheduler, ceiling: Rate) -> u32 {
    let bytes = stated.map_or_else(
        || {
            let most = MOST_HELD[usize::from(scheduler.gate >= SMALL_LINK)];
            let packet = bounds::time(u64::from(scheduler.full_packet), ceiling);
            let packets = HELD.as_nanos() / packet.as_nanos().max(1);
            (packets.max(LEAST_HELD) * TRUE_SIZE).min(most)
        },
        Size::as_bytes,
    );
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// In words, for a report.
pub(crate) fn described(fair: Option<Fair>) -> String {
    match fair {
        Some(Fair::Flows) => "cake, shared between flows".to_owned(),
        Some(Fair::HostsOnly) => "cake, shared between hosts".to_owned(),
        _ => "cake, shared between hosts, then between the flows of each".to_owned(),
    }
}

/// Why a cake has no bound, with what can be promised instead.
///
/// A packet of a flow that sends less than its part goes before those of flows
/// that send more (DRR++), but nothing limits how many such flows there are; and
/// COBALT drops what stays, never what only has to wait its turn. What is left
/// is the memory: no more than that is ever before a packet at one time.
pub(crate) fn unbounded(member: &Member, memory: u32) -> String {
    let who = match member.class.fair {
        Some(Fair::Flows) => "flows",
        Some(Fair::HostsOnly) => "hosts",
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
