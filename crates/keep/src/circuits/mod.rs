// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists of circuits that outlive a command: they are applied, stored, and applied again.
//!
//! The list is in the kernel and in a file. A new list is written under another name before it
//! comes into force, and renamed into place after that. A flag in the kernel says that both may
//! differ during this time ([`weirgate_bpf::CircuitTree::settle`]). If a process finds that flag,
//! it brings the whole list of the file into force.

mod error;
mod file;
mod force;
mod open;
mod plan;
mod quota;
mod rescue;
mod root;
mod socket;
mod status;
mod waiting;

pub use error::CircuitsRefused;
pub use force::CircuitsDone;
pub use open::{CircuitShown, OpenCircuits};
pub use quota::{Meters, Used};
pub use root::{OneQueue, Queues};
pub use socket::CircuitsSocket;
pub use status::{CircuitsNow, InForce, ListNow, WaitingNow, hours_now};
pub use waiting::Guarded;

use crate::clock;
use crate::error::KeepError;
use crate::offloads;
use crate::store::folder::Folders;
use file::{ListFile, Text};
use root::Root;
use std::time::Duration;
use weirgate_bpf::{AttachPoint, BpfError, CircuitTree, CircuitsChange, Pins, Store};
use weirgate_circuits::kept::{Kept, gone, is_change, put};
use weirgate_circuits::{Circuit, Direction, One, Plan};
use weirgate_kernel::{DeviceIndex, Kernel, KernelError, locked_pins};
use weirgate_state::DeviceName;

/// How long a command waits for the lock on circuits. A list of 10^5 circuits takes a slow processor
/// some 4 s (docs/measurements/circuits.md).
const PATIENCE: Duration = Duration::from_secs(30);

/// The circuits of this network namespace. One process at a time may change them.
pub struct Circuits<'k> {
    folders: &'k Folders,
    kernel: &'k Kernel,
    store: Store,
}

/// A device that has circuits, or will get them.
struct Target<'n> {
    name: &'n DeviceName,
    index: DeviceIndex,
    point: AttachPoint,
}

/// The result of bringing circuits into force on one device.
#[derive(Debug)]
pub struct DeviceCircuits {
    /// The device.
    pub device: DeviceName,
    /// What was done, or why it failed.
    pub outcome: Result<CircuitsDone, CircuitsRefused>,
}

impl<'k> Circuits<'k> {
    /// Opens the circuits; waits while another process changes them. Needs root.
    ///
    /// # Errors
    /// [`BpfError::Held`] if that process needs more than half a minute.
    pub fn open(folders: &'k Folders, kernel: &'k Kernel) -> Result<Self, CircuitsRefused> {
        Ok(Self {
            folders,
            kernel,
            store: Store::open_within(Pins::Circuits, PATIENCE)?,
        })
    }

    /// Opens the circuits; waits at most for `patience` while another process changes them, and
    /// then returns `None`. Needs root and a tokio runtime.
    pub(crate) async fn open_soon(
        folders: &'k Folders,
        kernel: &'k Kernel,
        patience: Duration,
    ) -> Result<Option<Self>, CircuitsRefused> {
        match locked_pins(Pins::Circuits, patience).await {
            Ok(store) => Ok(Some(Self {
                folders,
                kernel,
                store,
            })),
            Err(BpfError::Held { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns what damaged files were set aside, one text for each.
    pub fn damages(folders: &Folders) -> Result<Vec<String>, KeepError> {
        rescue::damages(folders)
    }

    /// Returns whether any device has stored circuits, or circuits in force as far as this process
    /// may see.
    pub fn are_there(folders: &Folders) -> bool {
        let pinned = Store::circuits_points();
        Self::are_kept(folders) || pinned.is_ok_and(|points| !points.is_empty())
    }

    /// Returns the devices outside `named` that have stored circuits, or circuits in force.
    pub async fn beside(&self, named: &[&DeviceName]) -> Result<Vec<DeviceName>, CircuitsRefused> {
        let mut all = file::devices(self.folders)?;
        let pinned = Store::circuits_points()?;
        if !pinned.is_empty() {
            for (name, index) in self.kernel.devices().await? {
                let mut points = pinned.iter();
                if points.any(|point| point.ifindex == index.number()) && !all.contains(&name) {
                    all.push(name);
                }
            }
        }
        all.retain(|name| !named.contains(&name));
        Ok(all)
    }

    /// Returns the stored list of a device, if there is one.
    pub fn kept(&self, name: &DeviceName) -> Result<Option<Kept>, CircuitsRefused> {
        let sound = ListFile::of(self.folders, name).sound()?;
        Ok(sound.map(|(kept, _)| kept))
    }

    /// Returns the programs and maps of a device.
    pub async fn tree(&self, name: &DeviceName) -> Result<CircuitTree, CircuitsRefused> {
        let target = self.target(name).await?;
        let tree = self.store.circuits(target.point)?;
        tree.ok_or_else(|| CircuitsRefused::None(name.clone()))
    }

    /// Applies and stores a list. Either the whole list comes into force and is stored, or the
    /// former one stays. `adopt` replaces a root qdisc of another program.
    pub async fn apply(
        &self,
        name: &DeviceName,
        kept: &mut Kept,
        adopt: bool,
    ) -> Result<CircuitsDone, CircuitsRefused> {
        self.nothing_waits(adopt).await?;
        let done = self.bring(name, kept, adopt).await?;
        // The former list precedes the last confirmed change, and not this one, so it is of no use
        // now.
        self.drop_former(name)?;
        Ok(done)
    }

    /// Applies and stores a list, even if a change waits for confirmation.
    async fn bring(
        &self,
        name: &DeviceName,
        kept: &mut Kept,
        adopt: bool,
    ) -> Result<CircuitsDone, CircuitsRefused> {
        let target = self.target(name).await?;
        self.forget_gone().await?;
        if kept.queues.is_some()
            && let Some(tree) = self.store.circuits(target.point)?
            && let has = tree.queues()?
            && kept.queues != Some(has)
            && self.queues(&target, kept).count != has
            && !self.lacks_queues(&target, has)
        {
            return Err(CircuitsRefused::Queues(name.clone(), has));
        }
        let file = ListFile::of(self.folders, name);
        let aside = file.write(&kept.write())?;
        let (tree, done) = self.force(&target, kept, adopt).await?;
        aside.publish()?;
        tree.settle()?;
        Ok(done)
    }

    /// Changes one circuit to what `wanted` returns for its present state and the plans; `None`
    /// stands for a circuit that does not exist. A circuit that already has these values is left
    /// alone.
    pub async fn change(
        &self,
        name: &DeviceName,
        id: &str,
        wanted: impl FnOnce(Option<&One>, &[Plan]) -> Result<Option<One>, String>,
    ) -> Result<CircuitsDone, CircuitsRefused> {
        self.may_change(name).await?;
        let target = self.target(name).await?;
        let (mut tree, mut done) = self.standing(&target).await?;
        let file = ListFile::of(self.folders, name);
        let (mut text, mended) = readable(&file, name)?;
        done.mended |= mended;
        let follow = |circuit: &mut Circuit, plans: &[Plan], direction: Direction| {
            quota::follow_one((self.folders, name), circuit, plans, direction);
        };
        done.change = put_one(&mut tree, &file, &mut text, id, wanted, follow)?;
        Ok(done)
    }

    /// Removes the circuits of a device, which may be missing, and its stored list.
    pub async fn remove(&self, name: &DeviceName) -> Result<(), CircuitsRefused> {
        self.nothing_waits(false).await?;
        self.take_off(name).await?;
        self.drop_former(name)
    }

    async fn take_off(&self, name: &DeviceName) -> Result<(), CircuitsRefused> {
        let file = ListFile::of(self.folders, name);
        let was_kept = file.remove()?;
        file.drop_copy()?;
        let target = match self.target(name).await {
            Err(CircuitsRefused::Kernel(error))
                if was_kept && matches!(*error, KernelError::NoDevice(_)) =>
            {
                return self.forget_gone().await;
            }
            other => other?,
        };
        let kind = CircuitTree::kind(target.point);
        // The pins of an earlier version cannot be read; that version used one queue.
        let pinned = self.store.circuits(target.point);
        let is_pinned = !matches!(pinned, Ok(None));
        let pinned = pinned.ok().flatten();
        let count = pinned.map_or(Ok(1), |tree| tree.queues())?;
        let is_there = matches!(self.root(&target, &kind, count).await?, Root::Own { .. });
        if !is_there && !was_kept && !is_pinned {
            return Err(CircuitsRefused::None(name.clone()));
        }
        if is_there {
            self.kernel.drop_root(name, target.index).await?;
        }
        // The pins go last: as long as they are there, this can be repeated after a failure.
        offloads::offloads_back(self.kernel, name, target.point).await?;
        self.store.remove_circuits(target.point)?;
        Ok(())
    }

    /// Brings the stored lists into force on the present devices where they are not, and removes
    /// the pins of devices that are gone.
    pub async fn hold(&self, meters: &mut Meters) -> Result<Vec<DeviceCircuits>, CircuitsRefused> {
        self.forget_gone().await?;
        let mut all = self.hold_waiting().await;
        for device in file::devices(self.folders)? {
            let outcome = match self.target(&device).await {
                Err(CircuitsRefused::Kernel(error))
                    if matches!(*error, KernelError::NoDevice(_)) =>
                {
                    continue;
                }
                Err(error) => Err(error),
                Ok(target) => self.metered(&target, meters).await,
            };
            if !matches!(&outcome, Ok(done) if done.is_nothing()) {
                all.push(DeviceCircuits { device, outcome });
            }
        }
        Ok(all)
    }

    /// Does so for one device, and applies changes of its quotas.
    async fn metered(
        &self,
        target: &Target<'_>,
        meters: &mut Meters,
    ) -> Result<CircuitsDone, CircuitsRefused> {
        let (tree, done) = self.standing(target).await?;
        if !meters.look(self.folders, target.name, &tree)? {
            return Ok(done);
        }
        drop(tree);
        let (tree, more) = self.force_kept(target, false).await?;
        tree.settle()?;
        Ok(if more.is_nothing() { done } else { more })
    }

    /// Returns what the circuits of a device have used of their quotas.
    pub fn used(&self, name: &DeviceName) -> Used {
        Used::known(self.folders, name)
    }

    /// Returns the device's circuits, and first brings them into force if anything is missing.
    async fn standing(
        &self,
        target: &Target<'_>,
    ) -> Result<(CircuitTree, CircuitsDone), CircuitsRefused> {
        if self.store.circuits_are_on(target.point)
            && let Some(tree) = self.store.circuits(target.point)?
            && self.has_root(target, tree.queues()?).await?
            && !tree.is_open()?
            && tree.holds()?.contains(&clock::unix())
        {
            return Ok((tree, CircuitsDone::default()));
        }
        let (tree, done) = self.force_kept(target, false).await?;
        tree.settle()?;
        Ok((tree, done))
    }

    /// Brings the stored list into force. `adopt` replaces a root qdisc of another program.
    async fn force_kept(
        &self,
        target: &Target<'_>,
        adopt: bool,
    ) -> Result<(CircuitTree, CircuitsDone), CircuitsRefused> {
        let file = ListFile::of(self.folders, target.name);
        let Some((mut kept, mended)) = file.mended()? else {
            return Err(CircuitsRefused::None(target.name.clone()));
        };
        let (tree, mut done) = self.force(target, &mut kept, adopt).await?;
        done.mended = mended;
        Ok((tree, done))
    }

    async fn target<'n>(&self, name: &'n DeviceName) -> Result<Target<'n>, CircuitsRefused> {
        let index = self.kernel.device(name).await?;
        Ok(Target {
            name,
            index,
            point: AttachPoint::root(index.number())?,
        })
    }

    /// Returns whether that many queues of the device send, and have the qdisc of its circuits.
    async fn has_root(&self, target: &Target<'_>, queues: u32) -> Result<bool, CircuitsRefused> {
        let kind = CircuitTree::kind(target.point);
        let is_whole = self.root(target, &kind, queues).await?.is_whole(queues);
        Ok(is_whole && !self.lacks_queues(target, queues))
    }

    /// Removes what is left of devices that are gone.
    async fn forget_gone(&self) -> Result<(), CircuitsRefused> {
        let pinned = Store::circuits_points()?;
        if pinned.is_empty() {
            return Ok(());
        }
        let devices = self.kernel.devices().await?;
        let there: Vec<u32> = devices.into_values().map(DeviceIndex::number).collect();
        for point in pinned {
            if !there.contains(&point.ifindex) {
                self.store.remove_circuits(point)?;
                offloads::forget(point)?;
            }
        }
        Ok(())
    }
}

/// Reads the text of a device's list, to change one circuit, and returns whether a change in it was
/// damaged, and is mended now. Damage in the list itself is not detected, as that takes time.
fn readable(file: &ListFile, name: &DeviceName) -> Result<(Text, bool), CircuitsRefused> {
    let missing = || CircuitsRefused::NotKept(name.clone());
    match file.read(false) {
        Ok(text) => {
            let text = text.ok_or_else(missing)?;
            if text.changes.lines().all(is_change) {
                return Ok((text, false));
            }
        }
        Err(KeepError::Damaged { .. }) => {}
        Err(other) => return Err(other.into()),
    }
    let mended = file.mended()?.is_some_and(|(_, mended)| mended);
    Ok((file.read(false)?.ok_or_else(missing)?, mended))
}

/// Changes one circuit to what `wanted` returns, in the kernel and in the file, and updates `text`
/// to the new contents of the file. In the kernel, the circuit gets the values that its plan gives
/// now, according to `follow`.
fn put_one(
    tree: &mut CircuitTree,
    file: &ListFile,
    text: &mut Text,
    id: &str,
    wanted: impl FnOnce(Option<&One>, &[Plan]) -> Result<Option<One>, String>,
    follow: impl FnOnce(&mut Circuit, &[Plan], Direction),
) -> Result<CircuitsChange, CircuitsRefused> {
    let read = Kept::circuit(&text.list, &text.changes, id);
    let (old, plans) = read.map_err(|why| file.damaged(why))?;
    let mut new = wanted(old.as_ref(), &plans).map_err(CircuitsRefused::Wrong)?;
    if old == new {
        return Ok(CircuitsChange::default());
    }
    let line = new.as_ref().map_or_else(|| gone(id), put);
    if let Some(one) = &mut new {
        follow(&mut one.circuit, &plans, tree.direction()?);
    }
    let change = tree.put_one(old.as_ref(), new.as_ref())?;
    file.append(text, &line)?;
    text.changes.push_str(&line);
    if text.is_long()
        && let Some((kept, _)) = file.mended()?
    {
        // Written from the verified file: the text may have damage that a new checksum would hide.
        let list = kept.write();
        let sealed = file.write(&list)?.publish()?;
        *text = Text {
            list,
            sealed,
            changes: String::new(),
        };
    }
    tree.settle()?;
    Ok(change)
}
