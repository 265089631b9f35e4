// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate circuits apply` and `remove`.

use super::files;
use crate::aqm::offloads;
use crate::aqm::target::{Target, refused};
use std::time::Instant;
use weirgate_bpf::{CircuitTree, CircuitsError, CircuitsSize, Store};
use weirgate_circuits::List;
use weirgate_circuits::rows::{Direction, Room};
use weirgate_console::discipline::failed;
use weirgate_console::exit::{Failure, Outcome, Status, wrong};
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;
use weirgate_units::Rate;

/// Leaves that may have packets at a time, packets, and their bytes: 65,536 of them
/// took 40 MiB when they were measured (docs/measurements/engine.md).
const QUEUES: u32 = 65_536;
const PACKETS: u32 = 262_144;
const BYTES: u64 = 256 << 20;

/// How a list is brought into force.
pub(super) struct How {
    pub(super) up: bool,
    pub(super) rate: Option<Rate>,
    pub(super) adopt: bool,
}

/// Room for a list, for its successor at the same time, and for growth.
fn size(list: &List) -> CircuitsSize {
    let prefixes = list.circuits.iter().flat_map(|one| &one.prefixes);
    let hosts = prefixes.clone().filter(|one| one.is_host()).count();
    let others = prefixes.count() - hosts;
    let room = |count: usize| u32::try_from(4 * count).unwrap_or(1 << 24).max(1 << 14);
    let rows = Room::of(list);
    CircuitsSize {
        room: rows,
        addresses: room(hosts).next_power_of_two(),
        prefixes: room(others).next_power_of_two(),
        queues: rows.leaves.min(QUEUES),
        packets: PACKETS,
        bytes: BYTES,
    }
}

fn unchanged(error: CircuitsError) -> Failure {
    match error {
        CircuitsError::Full(full) => wrong(format!(
            "{full}; the list before is in force. `weirgate circuits remove` and `apply` make more \
             room, and lose what is queued"
        )),
        CircuitsError::Bpf(error) => failed(error),
    }
}

/// `weirgate circuits apply`.
pub(super) fn apply(device: &str, list: &List, how: &How) -> Outcome {
    in_runtime(async {
        let target = Target::find(device).await?;
        let direction = if how.up {
            Direction::Up
        } else {
            Direction::Down
        };
        let kind = CircuitTree::kind(target.place);
        let root = target
            .kernel
            .root_kind(target.device)
            .await
            .map_err(refused)?;
        let other = root.as_ref().filter(|root| **root != kind);
        if let Some(other) = other.filter(|_| !how.adopt) {
            return Err(wrong(format!(
                "{device} has the root qdisc `{other}`, which somebody made; remove it, or say \
                 --adopt to have it replaced"
            )));
        }
        let able = target.kernel.capabilities().await.map_err(refused)?;
        if !able.kit {
            return Err(Failure::Refused(format!(
                "the kernel {} has no BPF qdiscs, which circuits need: Linux 6.16 with \
                 CONFIG_NET_SCH_BPF and type information (CONFIG_DEBUG_INFO_BTF)",
                able.release
            )));
        }
        let store = Store::open().map_err(failed)?;
        let began = Instant::now();
        let present = store.circuits(target.place).map_err(failed)?;
        let is_new = present.is_none();
        let mut tree = if let Some(tree) = present {
            if tree.direction().map_err(failed)? != direction {
                return Err(wrong(format!(
                    "{device} has circuits of the other direction; `weirgate circuits remove \
                     {device}` first"
                )));
            }
            tree
        } else {
            // What a process left that died before the end.
            store.remove_circuits(target.place).map_err(failed)?;
            CircuitTree::load(target.place, direction, &size(list)).map_err(failed)?
        };
        let change = tree.reconcile(list, how.rate).map_err(unchanged)?;
        if is_new {
            store
                .keep_circuits(target.place, &mut tree)
                .map_err(failed)?;
        }
        if root.as_deref() != Some(&*kind)
            && let Err(failure) = put(&target, &kind).await
        {
            store.remove_circuits(target.place).map_err(failed)?;
            return Err(failure);
        }
        output::note(&format!(
            "{device}: {}; {} nodes added, {} changed, {} removed, {} entries written, in {:.0} ms",
            files::summary(list),
            change.added,
            change.changed,
            change.removed,
            change.written,
            began.elapsed().as_secs_f64() * 1e3
        ));
        Ok(Status::Done)
    })
}

/// Puts the qdisc at the root and reads it back; undone where that fails.
async fn put(target: &Target, kind: &str) -> Result<(), Failure> {
    let (kernel, name, device) = (&target.kernel, &target.name, target.device);
    // One packet of the device is to be one on the wire.
    let switched = offloads::switch_off(target).await?;
    let put = kernel.put_root(name, device, kind).await;
    let found = match put {
        Ok(()) => kernel.root_kind(device).await.map_err(refused),
        Err(error) => Err(refused(error)),
    };
    let failure = match found {
        Ok(found) if found.as_deref() == Some(kind) => {
            return offloads::warn_of_joined(target).await;
        }
        Ok(found) => Failure::Refused(format!(
            "{name}: {kind} was put at the root, and the kernel says {}",
            found.as_deref().unwrap_or("its default")
        )),
        Err(failure) => failure,
    };
    if kernel.root_kind(device).await.map_err(refused)?.as_deref() == Some(kind) {
        kernel.drop_root(name, device).await.map_err(refused)?;
    }
    if switched {
        offloads::restore(target).await?;
    }
    Err(failure)
}

/// `weirgate circuits remove`.
pub(super) fn remove(device: &str) -> Outcome {
    in_runtime(async {
        let target = Target::find(device).await?;
        let kind = CircuitTree::kind(target.place);
        let store = Store::open().map_err(failed)?;
        let root = target
            .kernel
            .root_kind(target.device)
            .await
            .map_err(refused)?;
        let is_there = root.as_deref() == Some(&*kind);
        if !is_there && store.circuits(target.place).map_err(failed)?.is_none() {
            return Err(wrong(format!("{device} has no circuits")));
        }
        if is_there {
            let dropped = target.kernel.drop_root(&target.name, target.device).await;
            dropped.map_err(refused)?;
        }
        store.remove_circuits(target.place).map_err(failed)?;
        offloads::restore(&target).await?;
        Ok(Status::Done)
    })
}
