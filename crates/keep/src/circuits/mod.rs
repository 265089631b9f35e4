// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists of circuits that outlive a command: applied, stored, and applied again.
//!
//! The kernel has a list, and a file has the same. What comes into force is written
//! aside before, and put in its place after; a word in the kernel says that both may
//! differ meanwhile ([`weirgate_bpf::CircuitTree::settle`]). Where that word is found,
//! the whole list of the file is brought into force.

mod error;
mod file;
mod force;
mod open;
mod plan;
mod quota;
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
use crate::offloads;
use crate::store::folder::Folders;
use file::{ListFile, Text};
use root::Root;
use weirgate_bpf::{AttachPoint, CircuitTree, CircuitsChange, Store};
use weirgate_circuits::Direction;
use weirgate_circuits::kept::{Kept, gone, put};
use weirgate_circuits::{Circuit, One, Plan};
use weirgate_kernel::{DeviceIndex, Kernel, KernelError};
use weirgate_state::DeviceName;

/// The circuits of this network namespace, which one process changes at a time.
pub struct Circuits<'k> {
    folders: &'k Folders,
    kernel: &'k Kernel,
    store: Store,
}

/// A device that has circuits, or is to have them.
struct Target<'n> {
    name: &'n DeviceName,
    index: DeviceIndex,
    point: AttachPoint,
}

/// What became of one device.
#[derive(Debug)]
pub struct Held {
    /// The device.
    pub device: DeviceName,
    /// What was done; what stood in the way.
    pub outcome: Result<CircuitsDone, CircuitsRefused>,
}

impl<'k> Circuits<'k> {
    /// Waits for another process that changes circuits. Needs root.
    pub fn open(folders: &'k Folders, kernel: &'k Kernel) -> Result<Self, CircuitsRefused> {
        Ok(Self {
            folders,
            kernel,
            store: Store::open()?,
        })
    }

    /// Whether circuits are kept of any device, or in force, as far as this process may see.
    pub fn are_there(folders: &Folders) -> bool {
        let pinned = Store::circuits_points();
        Self::are_kept(folders) || pinned.is_ok_and(|points| !points.is_empty())
    }

    /// Devices that circuits are kept of, or that have some in force, but for these.
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

    /// The list that is kept of a device, if there is one.
    pub fn kept(&self, name: &DeviceName) -> Result<Option<Kept>, CircuitsRefused> {
        let file = ListFile::of(self.folders, name);
        let text = file.read(true)?;
        let kept = text.map(|text| file.whole(&text.list, &text.changes));
        Ok(kept.transpose()?)
    }

    /// The programs and maps of a device.
    pub async fn tree(&self, name: &DeviceName) -> Result<CircuitTree, CircuitsRefused> {
        let target = self.target(name).await?;
        let tree = self.store.circuits(target.point)?;
        tree.ok_or_else(|| CircuitsRefused::None(name.clone()))
    }

    /// Applies and stores a list: all of it, or the former one stays in force and stored. `adopt`
    /// replaces a root qdisc of another program.
    pub async fn apply(
        &self,
        name: &DeviceName,
        kept: &mut Kept,
        adopt: bool,
    ) -> Result<CircuitsDone, CircuitsRefused> {
        self.nothing_waits().await?;
        let done = self.bring(name, kept, adopt).await?;
        // What was before the change that was confirmed last is not what was before this.
        self.drop_former(name)?;
        Ok(done)
    }

    /// The same, whatever waits.
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
    /// stands for a circuit that does not exist. A circuit that is already equal is left alone.
    pub async fn change(
        &self,
        name: &DeviceName,
        id: &str,
        wanted: impl FnOnce(Option<&One>, &[Plan]) -> Result<Option<One>, String>,
    ) -> Result<CircuitsDone, CircuitsRefused> {
        let target = self.target(name).await?;
        let (mut tree, mut done) = self.standing(&target).await?;
        let file = ListFile::of(self.folders, name);
        let text = file.read(false)?;
        let mut text = text.ok_or_else(|| CircuitsRefused::NotKept(name.clone()))?;
        let follow = |circuit: &mut Circuit, plans: &[Plan], way: Direction| {
            quota::follow_one((self.folders, name), circuit, plans, way);
        };
        done.change = put_one(&mut tree, &file, &mut text, id, wanted, follow)?;
        Ok(done)
    }

    /// Takes the circuits off a device, which need not be there, and keeps none.
    pub async fn remove(&self, name: &DeviceName) -> Result<(), CircuitsRefused> {
        self.nothing_waits().await?;
        self.take_off(name).await?;
        self.drop_former(name)
    }

    async fn take_off(&self, name: &DeviceName) -> Result<(), CircuitsRefused> {
        let was_kept = ListFile::of(self.folders, name).remove()?;
        let target = match self.target(name).await {
            Err(CircuitsRefused::Kernel(error))
                if was_kept && matches!(*error, KernelError::NoDevice(_)) =>
            {
                return self.forget_gone().await;
            }
            other => other?,
        };
        let kind = CircuitTree::kind(target.point);
        // What an earlier version pinned cannot be read, and had one queue.
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
        self.store.remove_circuits(target.point)?;
        offloads::offloads_back(self.kernel, name, target.point).await?;
        Ok(())
    }

    /// Brings what is kept into force where it is not, on the devices that are there,
    /// and takes away what those left that have gone.
    pub async fn hold(&self, meters: &mut Meters) -> Result<Vec<Held>, CircuitsRefused> {
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
                all.push(Held { device, outcome });
            }
        }
        Ok(all)
    }

    /// The same of one device. Its quotas are looked at, and come into force.
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
        let (tree, more) = self.force_kept(target).await?;
        tree.settle()?;
        Ok(if more.is_nothing() { done } else { more })
    }

    /// What circuits have used of their quotas.
    pub fn used(&self, name: &DeviceName) -> Used {
        Used::known(self.folders, name)
    }

    /// The device's circuits, brought into force first where anything is missing.
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
        let (tree, done) = self.force_kept(target).await?;
        tree.settle()?;
        Ok((tree, done))
    }

    /// Brings into force what is kept.
    async fn force_kept(
        &self,
        target: &Target<'_>,
    ) -> Result<(CircuitTree, CircuitsDone), CircuitsRefused> {
        let file = ListFile::of(self.folders, target.name);
        let Some(Text { list, changes, .. }) = file.read(true)? else {
            return Err(CircuitsRefused::None(target.name.clone()));
        };
        let mut kept = file.whole(&list, &changes)?;
        self.force(target, &mut kept, false).await
    }

    async fn target<'n>(&self, name: &'n DeviceName) -> Result<Target<'n>, CircuitsRefused> {
        let index = self.kernel.device(name).await?;
        Ok(Target {
            name,
            index,
            point: AttachPoint::root(index.number())?,
        })
    }

    /// Whether so many queues of the device have the qdisc of its circuits.
    async fn has_root(&self, target: &Target<'_>, queues: u32) -> Result<bool, CircuitsRefused> {
        let kind = CircuitTree::kind(target.point);
        Ok(self.root(target, &kind, queues).await?.is_whole(queues))
    }

    /// Takes away what devices left that have gone.
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

/// Makes one circuit what `wanted` says, in the kernel and in the file, which has this text; and
/// the text what the file has then. In the kernel it has what `follow` says that its plan
/// gives now.
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
    if text.is_long() {
        text.changes.push_str(&line);
        let list = file.whole(&text.list, &text.changes)?.write();
        let sealed = file.write(&list)?.publish()?;
        *text = Text {
            list,
            sealed,
            changes: String::new(),
        };
    } else {
        file.append(text, &line)?;
        text.changes.push_str(&line);
    }
    tree.settle()?;
    Ok(change)
}
