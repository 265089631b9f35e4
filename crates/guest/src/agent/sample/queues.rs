// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of the gateway's qdiscs and classes.
//!
//! A place is a device (`wan`: its root qdisc) or a device and a handle (`wan 1:50`). Crate
//! `kernel` reads the counters.

use super::tick::tick;
use crate::agent::nodes::Nodes;
use crate::agent::session::Session;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::io;
use tokio::task::yield_now;
use weirgate_experiment::{Node, QueueSample};
use weirgate_kernel::{Counters, DeviceIndex, Kernel};
use weirgate_state::DeviceName;
use weirgate_units::{Handle, Span};

/// Qdiscs whose classes an administrator creates. Other kinds show their flows as classes, which
/// come and go.
const CLASSFUL: [&str; 7] = ["htb", "hfsc", "drr", "qfq", "ets", "prio", "cbq"];

/// Starts sampling each `interval`.
pub fn start(session: &Session, interval: Span) -> Result<()> {
    let gateway = session.nodes.space(Node::Gateway)?;
    let kernel = Kernel::open_in(gateway).context("open netlink sockets in the gateway")?;
    let sampling = sample(session.clone(), kernel, interval);
    session.spawn("sample queues of the gateway".to_owned(), sampling);
    Ok(())
}

/// Returns the gateway's devices except for the loopback device.
fn devices(nodes: &Nodes) -> io::Result<Vec<DeviceName>> {
    let file = "/proc/thread-self/net/dev";
    let text = nodes.enter(Node::Gateway, || std::fs::read_to_string(file))?;
    // The first two lines are headers, the others `name: counters`.
    let names = text.lines().skip(2).filter_map(|line| {
        let (name, _) = line.split_once(':')?;
        DeviceName::new(name.trim()).filter(|name| name.as_str() != "lo")
    });
    Ok(names.collect())
}

/// Returns the devices with their indices.
async fn numbered(session: &Session, kernel: &Kernel) -> Result<Vec<(DeviceName, DeviceIndex)>> {
    let names = devices(&session.nodes).context("list the gateway's devices")?;
    let mut found = Vec::new();
    for name in names {
        let index = kernel.device(&name).await?;
        found.push((name, index));
    }
    Ok(found)
}

async fn sample(session: Session, kernel: Kernel, interval: Span) -> Result<()> {
    let mut places = Places::default();
    let mut devices = numbered(&session, &kernel).await?;
    // A policy's own devices are created and removed with it.
    let mut changes = session.recorder.changes();
    loop {
        tick(&session.clock, interval).await?;
        if changes != session.recorder.changes() {
            changes = session.recorder.changes();
            devices = numbered(&session, &kernel).await?;
        }
        for (name, index) in &devices {
            // Let packets pass between two devices.
            yield_now().await;
            let counters = kernel.stats(*index).await;
            let counters = counters.with_context(|| format!("read the counters of {name}"))?;
            let at_ns = session.clock.now_ns();
            let mut record = |object: &Counters, dropper: &Counters| {
                let kit = session.kit.as_ref().map(|kit| kit.marks(&dropper.kind));
                let kit = kit.transpose()?.flatten();
                session.recorder.queue(QueueSample {
                    place: places.number(&session, *index, name, object),
                    at_ns,
                    bytes: object.bytes,
                    packets: object.packets,
                    drops: u64::from(dropper.drops),
                    marks: dropper.marks.or(kit).unwrap_or(0),
                    backlog_bytes: object.backlog_bytes,
                    backlog_packets: object.queued_packets,
                });
                anyhow::Ok(())
            };
            for qdisc in &counters.qdiscs {
                record(qdisc, qdisc)?;
            }
            for class in &counters.classes {
                if CLASSFUL.contains(&class.kind.as_str()) {
                    // The class does not count marks, or packets that its leaf drops when it is
                    // emptied, so use the leaf's counters.
                    let own = |qdisc: &&Counters| qdisc.parent == Some(class.handle);
                    let leaf = counters.qdiscs.iter().find(own);
                    record(class, leaf.unwrap_or(class))?;
                }
            }
        }
    }
}

/// The indices of places, so that a name is built only once and not for each sample.
#[derive(Debug, Default)]
struct Places {
    known: BTreeMap<(DeviceIndex, Option<Handle>), u16>,
}

impl Places {
    fn number(
        &mut self,
        session: &Session,
        index: DeviceIndex,
        name: &DeviceName,
        object: &Counters,
    ) -> u16 {
        // A class right below the root has the same parent, but its handle has a minor number.
        let is_root = object.parent.is_none() && object.handle.as_u32() as u16 == 0;
        let handle = (!is_root).then_some(object.handle);
        *self.known.entry((index, handle)).or_insert_with(|| {
            let place = handle.map_or_else(|| name.to_string(), |h| format!("{name} {h}"));
            session.recorder.place(&place)
        })
    }
}
