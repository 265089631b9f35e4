// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Applies a list to a device, whatever part of it is already in force.

use super::root::{Queues, Root};
use super::{Circuits, CircuitsRefused, Target, quota};
use weirgate_bpf::{CircuitTree, CircuitsChange, CircuitsSize};
use weirgate_circuits::List;
use weirgate_circuits::kept::Kept;
use weirgate_circuits::rows::RowLayout;

/// Limits: leaves that may have packets at a time, queued packets, and their bytes. 65,536 packets
/// took 40 MiB when measured (docs/measurements/engine.md).
const QUEUES: u32 = 65_536;
const PACKETS: u32 = 262_144;
const BYTES: u64 = 256 << 20;

/// What was done to bring circuits into force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CircuitsDone {
    /// What differed from the list.
    pub change: CircuitsChange,
    /// The queues of the device at which the qdisc was put, if it was missing.
    pub put: Option<Queues>,
    /// Programs that another program had detached were attached again.
    pub reattached: bool,
    /// Offloads that join packets were switched off.
    pub switched: bool,
    /// The stored list was damaged. What is sound of it and of its copy replaces it.
    pub mended: bool,
}

impl CircuitsDone {
    /// Returns whether everything was in force already.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// Returns the sizes of the maps: room for a list, for its successor at the same time, and for
/// growth.
fn size(list: &List, queues: u32) -> CircuitsSize {
    let keys = list.circuits.iter().flat_map(|one| &one.keys);
    let prefixes = keys.clone().filter(|key| key.prefix().is_some()).count();
    let others = keys.count() - prefixes;
    let room = |count: usize| u32::try_from(4 * count).unwrap_or(1 << 24).max(1 << 14);
    let layout = RowLayout::of(list, queues);
    CircuitsSize {
        layout,
        addresses: room(others).next_power_of_two(),
        prefixes: room(prefixes).next_power_of_two(),
        // One site may have all circuits, and one site uses one queue of the device.
        queues: layout.leaves.saturating_mul(queues).min(QUEUES),
        packets: PACKETS,
        bytes: BYTES,
    }
}

impl Circuits<'_> {
    /// Brings a list into force on a device, with the values that its plans give now. The caller
    /// stores the list.
    pub(super) async fn force(
        &self,
        target: &Target<'_>,
        kept: &mut Kept,
        adopt: bool,
    ) -> Result<(CircuitTree, CircuitsDone), CircuitsRefused> {
        let (kernel, store, point) = (self.kernel, &self.store, target.point);
        let kind = CircuitTree::kind(point);
        let mut present = store.circuits(point)?;
        let mut queues = self.queues(target, kept);
        let has = present.as_ref().map_or(Ok(1), CircuitTree::queues)?;
        let mut root = self.root(target, &kind, has).await?;
        if let Root::Foreign(kind) = &root
            && !adopt
        {
            return Err(CircuitsRefused::Foreign {
                device: target.name.clone(),
                kind: kind.clone(),
            });
        }
        if let Some(tree) = &present
            && tree.direction()? != kept.direction
        {
            return Err(CircuitsRefused::Direction(target.name.clone()));
        }
        if self.lacks_queues(target, has) {
            // A row never changes its queue, so begin again with the queues that are left.
            present = None;
            if let Root::Own { .. } = root {
                kernel.drop_root(target.name, target.index).await?;
                root = Root::Default;
            }
        }
        let is_new = present.is_none();
        let mut tree = if let Some(tree) = present {
            queues.count = has;
            tree
        } else {
            let able = kernel.capabilities().await?;
            if !able.kit {
                return Err(CircuitsRefused::Unable(able.release));
            }
            // Remove the pins of the former queues, or what a process left that died while it set up
            // circuits.
            store.remove_circuits(point)?;
            CircuitTree::load(point, kept.direction, &size(&kept.list, queues.count))?
        };
        let holds = quota::follow(kept, &self.used(target.name));
        let mut done = CircuitsDone {
            change: tree.reconcile(&kept.list, kept.link)?,
            ..CircuitsDone::default()
        };
        tree.set_holds(&holds)?;
        if is_new {
            store.keep_circuits(point, &mut tree)?;
        } else if !store.circuits_are_on(point) {
            store.put_circuits_on(point, &tree)?;
            done.reattached = true;
        }
        if !root.is_whole(queues.count) {
            done.put = Some(queues);
            match self.put(target, &kind, queues.count).await {
                Ok(switched) => done.switched = switched,
                Err(refused) => {
                    store.remove_circuits(point)?;
                    return Err(refused);
                }
            }
        }
        Ok((tree, done))
    }
}
