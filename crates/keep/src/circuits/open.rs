// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Circuits that stay open between changes, for a process that makes many changes.
//!
//! The maps, the rows of nodes and the text of the list take a command most of its time; here they
//! are opened once. Each change takes the same lock as the commands do. Then it checks whether
//! another process has changed anything: the device, the pins, the number of changes in the kernel,
//! or the file. If so, everything is opened again.

use super::file::{ListFile, Stamp, Text};
use super::{Circuits, CircuitsDone, CircuitsRefused, Target, put_one, quota, readable};
use crate::clock;
use crate::store::folder::Folders;
use std::collections::BTreeMap;
use std::time::Duration;
use weirgate_bpf::{AttachPoint, BpfError, CircuitTree, CircuitsNode, Pins};
use weirgate_circuits::kept::Kept;
use weirgate_circuits::{Circuit, Direction, One, Plan};
use weirgate_kernel::{Kernel, locked_pins};
use weirgate_state::DeviceName;

/// How long a request waits for the lock on circuits: less than the watchdog of the service, whose
/// other requests wait for this one.
const PATIENCE: Duration = Duration::from_secs(20);

/// The open circuits of devices of this network namespace.
pub struct OpenCircuits {
    folders: Folders,
    kernel: Kernel,
    devices: BTreeMap<DeviceName, Open>,
}

/// The open circuits of one device.
struct Open {
    point: AttachPoint,
    tree: CircuitTree,
    /// The kernel's count of changes after the last one made here.
    changes: u32,
    text: Text,
    stamp: Stamp,
}

/// A circuit with its node in the tree.
#[derive(Debug)]
pub struct CircuitShown {
    /// Its node, with rates and counters.
    pub node: CircuitsNode,
    /// Its stored values.
    pub one: One,
}

impl OpenCircuits {
    /// Creates it without any open device.
    pub fn new(folders: Folders, kernel: Kernel) -> Self {
        Self {
            folders,
            kernel,
            devices: BTreeMap::new(),
        }
    }

    /// Changes one circuit to what `wanted` returns, as [`Circuits::change`] does. Needs a tokio
    /// runtime.
    pub async fn change(
        &mut self,
        name: &DeviceName,
        id: &str,
        wanted: impl FnOnce(Option<&One>, &[Plan]) -> Result<Option<One>, String>,
    ) -> Result<CircuitsDone, CircuitsRefused> {
        let file = ListFile::of(&self.folders, name);
        let folders = self.folders.clone();
        let follow = |circuit: &mut Circuit, plans: &[Plan], direction: Direction| {
            quota::follow_one((&folders, name), circuit, plans, direction);
        };
        let put = self.with(name, true, |open| {
            let change = put_one(&mut open.tree, &file, &mut open.text, id, wanted, follow)?;
            if let Some(stamp) = file.stamp()? {
                open.stamp = stamp;
                open.changes = open.tree.changes()?;
            }
            Ok(change)
        });
        let (change, done) = put.await?;
        Ok(CircuitsDone { change, ..done })
    }

    /// Returns one circuit; `None` if it does not exist. Needs a tokio runtime.
    pub async fn show(
        &mut self,
        name: &DeviceName,
        id: &str,
    ) -> Result<Option<CircuitShown>, CircuitsRefused> {
        let file = ListFile::of(&self.folders, name);
        let shown = self.with(name, false, |open| {
            let read = Kept::circuit(&open.text.list, &open.text.changes, id);
            let (one, _) = read.map_err(|why| file.damaged(why))?;
            let Some(one) = one else {
                return Ok(None);
            };
            let node = open.tree.circuit(&one)?;
            Ok(node.map(|node| CircuitShown { node, one }))
        });
        shown.await.map(|(shown, _)| shown)
    }

    /// Closes all devices.
    pub fn close(&mut self) {
        self.devices.clear();
    }

    /// Returns whether any device is open.
    pub fn is_open(&self) -> bool {
        !self.devices.is_empty()
    }

    /// Runs `work` under the lock on a device's circuits, which are in force by then. They stay
    /// open only if the kernel's count of changes is what `work` recorded. Fails if `work` changes
    /// them while a list waits for confirmation.
    async fn with<T>(
        &mut self,
        name: &DeviceName,
        changes: bool,
        work: impl FnOnce(&mut Open) -> Result<T, CircuitsRefused>,
    ) -> Result<(T, CircuitsDone), CircuitsRefused> {
        let store = locked_pins(Pins::Circuits, PATIENCE).await?;
        // Close maps of circuits that are gone or were created again: they only take memory.
        let is_there = |open: &Open| store.are_circuits(open.point, &open.tree);
        self.devices
            .retain(|_, open| is_there(open).unwrap_or(false));
        let circuits = Circuits {
            folders: &self.folders,
            kernel: &self.kernel,
            store,
        };
        if changes {
            circuits.may_change(name).await?;
        }
        let target = circuits.target(name).await?;
        let mut done = CircuitsDone::default();
        let mut open = match self.devices.remove(name) {
            Some(open) if circuits.is_current(&target, &open).await? => open,
            closed => {
                drop(closed);
                let (open, mended) = circuits.opened(&target).await?;
                done = mended;
                open
            }
        };
        let result = work(&mut open);
        if open.tree.changes()? == open.changes {
            self.devices.insert(name.clone(), open);
        }
        Ok((result?, done))
    }
}

impl Circuits<'_> {
    /// Opens the device's circuits, after bringing them into force.
    async fn opened(&self, target: &Target<'_>) -> Result<(Open, CircuitsDone), CircuitsRefused> {
        let (mut tree, mut done) = self.standing(target).await?;
        let file = ListFile::of(self.folders, target.name);
        let (text, mended) = readable(&file, target.name)?;
        done.mended |= mended;
        let stamp = file.stamp()?;
        let stamp = stamp.ok_or_else(|| CircuitsRefused::NotKept(target.name.clone()))?;
        tree.remember()?;
        // Do not hold the programs: another process may remove the circuits and create them again.
        tree.let_go();
        let open = Open {
            point: target.point,
            changes: tree.changes()?,
            tree,
            text,
            stamp,
        };
        Ok((open, done))
    }

    /// Returns whether the open circuits are unchanged since the last use, and in force.
    async fn is_current(&self, target: &Target<'_>, open: &Open) -> Result<bool, CircuitsRefused> {
        let is_same = || -> Result<bool, BpfError> {
            Ok(open.point == target.point
                && self.store.circuits_are_on(target.point)
                && open.tree.changes()? == open.changes
                && open.tree.holds()?.contains(&clock::unix()))
        };
        Ok(is_same()?
            && ListFile::of(self.folders, target.name).is(&open.stamp)
            && self.has_root(target, open.tree.queues()?).await?)
    }
}
