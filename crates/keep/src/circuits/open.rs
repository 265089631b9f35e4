// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Circuits that stay open between changes, for who makes many of them.
//!
//! What takes a command its time is opened once: maps, where nodes are among the rows, and the
//! text that is kept. Each change takes the lock that commands take, and then looks whether
//! somebody else has changed anything: the device, the pins, the number of changes in the
//! kernel, or the file. What is not as it was left is opened anew.

use super::file::{ListFile, Stamp, Text};
use super::{Circuits, CircuitsDone, CircuitsRefused, Target, put_one, quota};
use crate::clock;
use crate::error::KeepError;
use crate::store::folder::Folders;
use std::collections::BTreeMap;
use std::io;
use weirgate_bpf::{AttachPoint, BpfError, CircuitTree, CircuitsNode, Store};
use weirgate_circuits::Direction;
use weirgate_circuits::kept::Kept;
use weirgate_circuits::{Circuit, One, Plan};
use weirgate_kernel::Kernel;
use weirgate_state::DeviceName;

/// The circuits of devices of this network namespace.
pub struct OpenCircuits {
    folders: Folders,
    kernel: Kernel,
    devices: BTreeMap<DeviceName, Open>,
}

/// Those of one device.
struct Open {
    point: AttachPoint,
    tree: CircuitTree,
    /// The number of changes at which this was left.
    changes: u32,
    text: Text,
    stamp: Stamp,
}

/// A circuit, with its node.
#[derive(Debug)]
pub struct CircuitShown {
    /// What it has and has had.
    pub node: CircuitsNode,
    /// What it is, as it is kept.
    pub one: One,
}

impl OpenCircuits {
    /// Nothing is open yet.
    pub fn new(folders: Folders, kernel: Kernel) -> Self {
        Self {
            folders,
            kernel,
            devices: BTreeMap::new(),
        }
    }

    /// Makes one circuit what `wanted` says, as [`Circuits::change`] does. Needs a tokio
    /// runtime.
    pub async fn change(
        &mut self,
        name: &DeviceName,
        id: &str,
        wanted: impl FnOnce(Option<&One>, &[Plan]) -> Result<Option<One>, String>,
    ) -> Result<CircuitsDone, CircuitsRefused> {
        let file = ListFile::of(&self.folders, name);
        let folders = self.folders.clone();
        let follow = |circuit: &mut Circuit, plans: &[Plan], way: Direction| {
            quota::follow_one((&folders, name), circuit, plans, way);
        };
        let put = self.with(name, |open| {
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

    /// Shows one circuit; `None` where it is not there. Needs a tokio runtime.
    pub async fn show(
        &mut self,
        name: &DeviceName,
        id: &str,
    ) -> Result<Option<CircuitShown>, CircuitsRefused> {
        let file = ListFile::of(&self.folders, name);
        let shown = self.with(name, |open| {
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

    /// Closes what is open.
    pub fn close(&mut self) {
        self.devices.clear();
    }

    /// Whether anything is open.
    pub fn is_open(&self) -> bool {
        !self.devices.is_empty()
    }

    /// Does something with a device's circuits, which are in force, under the lock. They stay
    /// open if they are then as that says that it left them.
    async fn with<T>(
        &mut self,
        name: &DeviceName,
        work: impl FnOnce(&mut Open) -> Result<T, CircuitsRefused>,
    ) -> Result<(T, CircuitsDone), CircuitsRefused> {
        // Whoever has the lock may take a while, and others are to be answered meanwhile.
        let locked = tokio::task::spawn_blocking(Store::open).await;
        let store = locked.map_err(|error| KeepError::File {
            path: "/sys/fs/bpf".into(),
            source: io::Error::other(error),
        })??;
        // Maps of circuits that are gone, or were made anew, only take memory.
        let is_there = |open: &Open| store.are_circuits(open.point, &open.tree);
        self.devices
            .retain(|_, open| is_there(open).unwrap_or(false));
        let circuits = Circuits {
            folders: &self.folders,
            kernel: &self.kernel,
            store,
        };
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
    /// The device's circuits, in force, with what is kept of them.
    async fn opened(&self, target: &Target<'_>) -> Result<(Open, CircuitsDone), CircuitsRefused> {
        let (mut tree, done) = self.standing(target).await?;
        let file = ListFile::of(self.folders, target.name);
        let stamp = file.stamp()?;
        let kept = stamp.zip(file.read(false)?);
        let (stamp, text) = kept.ok_or_else(|| CircuitsRefused::NotKept(target.name.clone()))?;
        tree.remember()?;
        // Another process may take the circuits off the device, and put them there anew.
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

    /// Whether what was opened before is as it was left, and in force.
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
