// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of the gateway's qdiscs and classes.
//!
//! A place is a device (`wan`: its root qdisc) or a device and a handle
//! (`wan 1:50`). Reading is by netlink in the gateway's namespace.

use super::tick;
use crate::agent::session::Session;
use anyhow::{Context, Result};
use nlink::netlink::messages::TcMessage;
use nlink::netlink::{Connection, Route};
use std::collections::BTreeMap;
use weirgate_experiment::{Node, QueueSample};
use weirgate_units::Span;

/// `TC_H_ROOT` of linux/pkt_sched.h: the parent of a device's root qdisc.
const ROOT: u32 = u32::MAX;

/// Kinds whose classes are an administrator's. Others show their flows as
/// classes, which come and go.
const CLASSFUL: [&str; 7] = ["htb", "hfsc", "drr", "qfq", "ets", "prio", "cbq"];

/// Starts sampling each `interval`.
pub fn start(session: &Session, interval: Span) -> Result<()> {
    let gateway = session.nodes.space(Node::Gateway)?;
    let connection = Connection::<Route>::new_in(gateway)
        .context("open a netlink socket in the gateway")?
        .no_timeout();
    let sampling = sample(session.clone(), connection, interval);
    session.spawn("sample queues of the gateway".to_owned(), sampling);
    Ok(())
}

async fn sample(session: Session, connection: Connection<Route>, interval: Span) -> Result<()> {
    let mut devices: BTreeMap<u32, String> = connection
        .get_interface_names()
        .await
        .context("list the gateway's devices")?
        .into_iter()
        .collect();
    devices.retain(|_, name| name != "lo");
    loop {
        tick(&session.clock, interval).await?;
        let qdiscs = connection.get_qdiscs().await.context("list qdiscs")?;
        let at_ns = session.clock.now_ns();
        for qdisc in &qdiscs {
            if let Some(device) = devices.get(&qdisc.ifindex()) {
                record(&session, at_ns, device, qdisc, qdisc);
            }
        }
        for (&index, device) in &devices {
            let classful = |qdisc: &TcMessage| {
                qdisc.ifindex() == index
                    && qdisc.kind().is_some_and(|kind| CLASSFUL.contains(&kind))
            };
            if !qdiscs.iter().any(classful) {
                continue;
            }
            let classes = connection.get_classes_by_index(index).await;
            let classes = classes.with_context(|| format!("list the classes of {device}"))?;
            let at_ns = session.clock.now_ns();
            for class in classes.iter().filter(|class| classful(class)) {
                // What a leaf drops when it is emptied, and what it marks, the
                // class does not count.
                let handle = class.handle_raw();
                let leaf = qdiscs
                    .iter()
                    .find(|qdisc| qdisc.ifindex() == index && qdisc.parent_raw() == handle);
                record(&session, at_ns, device, class, leaf.unwrap_or(class));
            }
        }
    }
}

/// Records the counters of `object`, with drops and marks as `dropper` has
/// them.
fn record(session: &Session, at_ns: u64, device: &str, object: &TcMessage, dropper: &TcMessage) {
    let handle = object.handle_raw();
    let place = match (handle >> 16, handle & 0xffff) {
        // A class right under the root has that parent as well.
        (_, 0) if object.parent_raw() == ROOT => device.to_owned(),
        (major, 0) => format!("{device} {major:x}:"),
        (major, minor) => format!("{device} {major:x}:{minor:x}"),
    };
    let marks = dropper
        .kind()
        .zip(dropper.xstats())
        .map_or(0, |(kind, xstats)| marks(kind, xstats));
    session.recorder.queue(QueueSample {
        place: session.recorder.place(&place),
        at_ns,
        bytes: object.bytes(),
        packets: object.packets(),
        drops: u64::from(dropper.drops()),
        marks,
        backlog_bytes: object.backlog(),
        backlog_packets: object.qlen(),
    });
}

/// Packets marked, from a qdisc's own statistics (linux/pkt_sched.h); 0 for
/// kinds that do not mark.
fn marks(kind: &str, xstats: &[u8]) -> u64 {
    // `tc_red_xstats`: early, pdrop, other, marked. `tc_fq_codel_xstats`:
    // type, maxpacket, drop_overlimit, ecn_mark. `tc_codel_xstats`: maxpacket,
    // count, lastcount, ldelay, drop_next, drop_overlimit, ecn_mark.
    let word = match kind {
        "red" | "fq_codel" => 3,
        "codel" => 6,
        _ => return 0,
    };
    let bytes = xstats.get(4 * word..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u64::from(u32::from_ne_bytes(*bytes)))
}

#[cfg(test)]
mod tests {
    use super::marks;

    #[test]
    fn marks_are_where_the_kernel_puts_them() {
        let words: Vec<u8> = (10..20_u32).flat_map(u32::to_ne_bytes).collect();
        assert_eq!(marks("red", &words), 13);
        assert_eq!(marks("fq_codel", &words), 13);
        assert_eq!(marks("codel", &words), 16);
        assert_eq!(marks("pfifo", &words), 0);
        assert_eq!(marks("codel", &words[..25]), 0);
        assert_eq!(marks("red", &[]), 0);
    }
}
