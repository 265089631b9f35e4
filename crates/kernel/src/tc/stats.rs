// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of qdiscs and classes.

use super::decode::Entry;
use super::xstats::{Inside, Tin, inside, tins};
use crate::netlink::wire;
use libc::{TCA_KIND, TCA_STATS2};
use weirgate_units::Handle;

const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_APP: u16 = 4;
const TCA_STATS_PKT64: u16 = 8;

/// The counters of one qdisc or class since its creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    /// Its handle or class id.
    pub handle: Handle,
    /// Its parent; `None` for the root of a device.
    pub parent: Option<Handle>,
    /// The qdisc's kind.
    pub kind: String,
    /// Bytes sent, as the root's size table counts them.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets dropped.
    pub drops: u32,
    /// How often sending was delayed, as the qdisc counts it.
    pub overlimits: u32,
    /// Packets that the device returned to the qdisc.
    pub requeues: u32,
    /// The present backlog in bytes, counted like `bytes`.
    pub backlog_bytes: u32,
    /// The present backlog in packets.
    pub queued_packets: u32,
    /// ECN marks, if the qdisc reports them.
    pub marks: Option<u64>,
    /// Packets of an HTB class that used tokens of a class above it.
    pub borrowed: Option<u32>,
    /// The statistics of its queue management.
    pub inside: Inside,
    /// For cake: its tins.
    pub tins: Vec<Tin>,
}

/// The counters of one device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceCounters {
    /// Its qdiscs.
    pub qdiscs: Vec<Counters>,
    /// Their classes.
    pub classes: Vec<Counters>,
}

/// Reads the counters in a listing's entry; `None` if it has none.
pub(crate) fn counters(entry: &Entry<'_>) -> Option<Counters> {
    let stats = entry.attrs.nest(TCA_STATS2);
    let basic = stats.bytes(TCA_STATS_BASIC)?;
    let queue = stats.bytes(TCA_STATS_QUEUE).unwrap_or_default();
    let word = |offset| wire::u32_at(queue, offset).unwrap_or(0);
    let app = stats.bytes(TCA_STATS_APP).unwrap_or_default();
    let tins = tins(&entry.kind, app);
    Some(Counters {
        handle: Handle::from_u32(entry.handle),
        parent: (entry.parent != super::TC_H_ROOT).then(|| Handle::from_u32(entry.parent)),
        kind: entry.attrs.text(TCA_KIND)?,
        bytes: wire::u64_at(basic, 0)?,
        packets: match stats.u64(TCA_STATS_PKT64) {
            Some(packets) => packets,
            None => u64::from(wire::u32_at(basic, 8)?),
        },
        queued_packets: word(0),
        backlog_bytes: word(4),
        drops: word(8),
        requeues: word(12),
        overlimits: word(16),
        marks: marks(&entry.kind, app, &tins),
        // struct tc_htb_xstats: lends, borrows.
        borrowed: match entry.kind.as_str() {
            "htb" => wire::u32_at(app, 4),
            _ => None,
        },
        inside: inside(&entry.kind, app),
        tins,
    })
}

/// Returns ECN marks from a qdisc's own statistics (linux/pkt_sched.h).
fn marks(kind: &str, app: &[u8], tins: &[Tin]) -> Option<u64> {
    match kind {
        // struct tc_fq_codel_xstats: type 0 is the qdisc's.
        "fq_codel" if wire::u32_at(app, 0)? == 0 => wire::u32_at(app, 12).map(u64::from),
        // struct tc_red_xstats: early, pdrop, other, marked.
        "red" => wire::u32_at(app, 12).map(u64::from),
        "cake" => Some(tins.iter().map(|tin| u64::from(tin.marks)).sum()),
        _ => None,
    }
}
