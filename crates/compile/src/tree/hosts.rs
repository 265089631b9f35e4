// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sharing a class between inside hosts.
//!
//! The queue is cake without its shaper and with one tin. It shares by host, then by flow, in
//! turns of bytes on the wire (DRR++, `dual-srchost` upstream and `dual-dsthost` downstream,
//! net/sched/sch_cake.c). It needs no list of hosts. Behind address translation, the packets of
//! all hosts have the same address when a qdisc sees them. There, cake looks up the inside
//! address in connection tracking (`nat`). It also does so for packets that arrive on an IFB
//! before connection tracking. On the LAN device the translation has already been reversed, and
//! `nat` must be off. It would replace the inside address by the outer one (measured in the lab:
//! Jain's index 0.853 with it).
//!
//! If a class is shared by hosts only, all flows of a host are in one queue (`srchost`,
//! `dsthost`). This is for traffic with thousands of flows of one packet each: port scans, SYN
//! floods, P2P. DRR++ serves the first packets of any flow before flows with more packets,
//! regardless of the host, so that a flood takes the whole class. A full cake drops from the
//! flow with the most bytes, which is one with full packets (`cake_dequeue`, `cake_drop`).
//!
//! Moreover, cake keeps a flow's queue until one interval after its last packet
//! (`cobalt_should_drop` records that time, `cake_dequeue` checks it). With the long `rtt` of a
//! class without AQM, its 1024 queues are soon all in use, and transfers share them. This was
//! measured with `rtt = "200s"`, ten hosts with 1 to 100 connections, and a thousand idle hosts:
//! in four of six runs Jain's index was below 0.91. When sharing by hosts only, it is at least
//! 0.99.
//!
//! # What is dropped downstream
//!
//! A packet that is dropped here has already used the line. The tree's gate counts only packets
//! that leave, so with a loss rate of p the line carries 1 / (1 - p) times the gate's rate. With
//! hundreds of connections, even the minimum window of two packets exceeds what the line and its
//! queue hold, and p reaches a fifth. The queue at the far end is then always full, and it drops
//! without regard to hosts. With 242 connections on 8 Mbit/s, Jain's index was 0.43; 12,600
//! packets were lost there and 1,050 here. Downstream, cake therefore has a shaper at its
//! class's ceiling and counts the packets that it drops (`ingress`). It then also tolerates two
//! packets of each flow that has a queue (`cobalt_should_drop`), without which small windows
//! could not be sustained. The tree remains in control: at equal rates, cake's shaper waits only
//! after a drop.
//!
//! Rejected alternatives: `fq_codel` with a `flow` filter on `nfct-src` has one queue for each
//! host and mixes its flows, and the filter cannot look up packets on an IFB. An HTB class for
//! each host needs a list of hosts.

use crate::scheduler::{Member, Scheduler, bounds};
use weirgate_document::Value;
use weirgate_policy::{CakeQueue, Direction, Fair, FqCodelQueue, Queue, SharedClass, in_kbit};
use weirgate_state::CakeFlowMode;
use weirgate_units::{Rate, Size, Span};

/// Below this rate, queues get fewer packets and less memory (as in OpenWrt).
pub(crate) const SMALL_LINK: Rate = Rate::kbit(10_000);

/// Returns the queue that a class states, or the one that its `fair` implies.
pub(crate) fn queue(stated: Option<&Value<Queue>>, fair: Option<Fair>) -> Queue {
    match (stated, fair) {
        (Some(queue), _) => queue.value.clone(),
        (None, Some(Fair::Hosts | Fair::HostsOnly)) => Queue::Cake(CakeQueue::default()),
        (None, _) => Queue::FqCodel(FqCodelQueue::default()),
    }
}

/// Returns whether a class's queue is cake.
pub(crate) fn has_cake(class: &SharedClass) -> bool {
    let queue = queue(class.queue.as_ref(), class.fair);
    matches!(queue, Queue::Cake(_))
}

/// Returns the flow mode of cake; the default is sharing between hosts.
pub(crate) fn mode(fair: Option<Fair>, direction: Direction) -> CakeFlowMode {
    match (fair, direction) {
        (Some(Fair::Flows), _) => CakeFlowMode::Flows,
        (Some(Fair::HostsOnly), Direction::Up) => CakeFlowMode::SrcHost,
        (Some(Fair::HostsOnly), Direction::Down) => CakeFlowMode::DstHost,
        (_, Direction::Up) => CakeFlowMode::DualSrcHost,
        (_, Direction::Down) => CakeFlowMode::DualDstHost,
    }
}

/// Returns the round-trip time for cake, whose target is a twentieth of it. The target must be
/// at least the time of a full packet, because a lower one would drop packets that no sender can
/// avoid (RFC 8289 section 4.4). A cake without a rate does not know that time
/// (`cake_set_rate`), and tc cannot set the target alone.
pub(crate) fn round_trip(scheduler: &Scheduler, usual: Span) -> Span {
    let packet = bounds::time(u64::from(scheduler.full_packet), scheduler.gate);
    let whole = Span::from_micros(packet.as_nanos().div_ceil(1_000) * 20);
    usual.max(whole)
}

/// The time that a class at its ceiling needs for its cake's largest backlog.
///
/// Three seconds are the longest that TCP waits before it retransmits a segment that was not
/// lost (RFC 6298 section 5.7). With more, the queue would contain the same data twice. With
/// much less, the memory limit drops packets where cake would have shared. With 242 connections
/// of ten hosts and one second, Jain's index was 0.969 (in the lab).
const HELD: Span = Span::from_millis(3_000);

/// The number of full packets that a cake may always hold, however slow its class is.
const LEAST_HELD: u64 = 32;

/// Bytes of memory that a full packet takes: the allocation of 2048 bytes for its data, and
/// `struct sk_buff` (`skb->truesize`, which `cake_enqueue` adds up).
const TRUE_SIZE: u64 = 2_304;

/// The default memory limits of cake (`cake_reconfigure`), on links below 10 Mbit/s and above.
const MOST_HELD: [u64; 2] = [4 << 20, 32 << 20];

/// Returns the memory limit of a cake in bytes: what its class sends in [`HELD`], in full
/// packets. cake's own limit does not suffice on a slow link. Its AQM drops from flows that keep
/// a queue, but not from thousands of flows with one packet each. Their 4 MiB took 20 s in a
/// class of 160 kbit/s (in the lab).
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

/// Describes the queue for a report.
pub(crate) fn described(fair: Option<Fair>) -> String {
    match fair {
        Some(Fair::Flows) => "cake, shared between flows".to_owned(),
        Some(Fair::HostsOnly) => "cake, shared between hosts".to_owned(),
        _ => "cake, shared between hosts, then between the flows of each".to_owned(),
    }
}

/// Explains why a cake has no bound, and states what can be promised instead.
///
/// A packet of a flow that sends less than its share precedes those of flows that send more
/// (DRR++), but the number of these flows is unlimited. COBALT drops packets that stay too long,
/// but not packets that only wait for their turn. Only the memory limit remains: it bounds the
/// backlog before a packet at any time.
pub(crate) fn unbounded(member: &Member, memory: u32) -> String {
    let who = match member.class.fair {
        Some(Fair::Flows) => "flows",
        Some(Fair::HostsOnly) => "hosts",
        _ => "hosts and flows",
    };
    let all = bounds::time(u64::from(memory), member.class.rate);
    let rate: Rate = member.class.rate;
    format!(
        "cake serves {who} in turn, so a packet waits for every active one, and a flow that does \
         not slow down fills its own queue; the {} KiB that cake may hold take {:.1} s at the \
         guaranteed {}",
        memory >> 10,
        all.as_millis_f64() / 1e3,
        in_kbit(rate)
    )
}
