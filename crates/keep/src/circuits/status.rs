// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of circuits: the stored lists, how the kernel differs from them, and what waits for
//! confirmation. Changes nothing.

use super::file::ListFile;
use super::waiting::Waiting;
use super::{Circuits, CircuitsRefused, quota};
use crate::clock;
use crate::error::KeepError;
use crate::store::folder::Folders;
use crate::store::sealed;
use weirgate_bpf::CircuitsChange;
use weirgate_circuits::Plan;
use weirgate_circuits::kept::Kept;
use weirgate_kernel::KernelError;
use weirgate_state::DeviceName;

/// The stored list of a device.
#[derive(Debug)]
pub struct ListNow {
    /// The list, with the values that its plans give now.
    pub kept: Kept,
    /// What is wrong with its file, if that is damaged; the list is the newest sound one.
    pub damaged: Option<String>,
    /// The first 16 hexadecimal digits of its SHA-256. Device, direction and rate do not enter it.
    pub digest: String,
    /// When it was applied, in seconds since 1970, if the file system records it.
    pub applied: Option<u64>,
    /// When the last single circuit was changed since, and how many changes of single circuits are
    /// appended.
    pub changed: Option<(u64, usize)>,
    /// Until when plans give what they give now, in seconds since 1970; `u64::MAX` without end.
    pub until: u64,
    /// How many circuits have a quota in this direction, and how many of them have used it up.
    pub quotas: [usize; 2],
}

/// How the kernel's circuits of a device compare with its list.
#[derive(Debug)]
pub enum InForce {
    /// The device does not exist.
    NoDevice,
    /// A part is missing; the next check of `weirgate keep` restores it.
    Missing(&'static str),
    /// There are circuits in force, but no list is stored.
    NotKept,
    /// The differences from the list.
    Rows(CircuitsChange),
}

/// The state of one device.
#[derive(Debug)]
pub struct CircuitsNow {
    /// The stored list.
    pub list: Option<ListNow>,
    /// What is in force.
    pub in_force: InForce,
}

impl CircuitsNow {
    /// Returns whether a list is stored, and in force exactly as stored.
    pub fn is_whole(&self) -> bool {
        matches!(&self.in_force, InForce::Rows(change) if *change == CircuitsChange::default())
    }
}

/// A change that can be taken back.
#[derive(Debug)]
pub struct WaitingNow {
    /// Its devices, and whether each had a list before.
    pub devices: Vec<(DeviceName, bool)>,
    /// For how many seconds it is waited for yet; 0 where that is over, and `None` where it is
    /// confirmed.
    pub seconds: Option<u64>,
}

impl Circuits<'_> {
    /// Returns the state of a device.
    pub async fn status(&self, name: &DeviceName) -> Result<CircuitsNow, CircuitsRefused> {
        let list = self.list_now(name)?;
        let in_force = self.in_force(name, list.as_ref()).await?;
        Ok(CircuitsNow { list, in_force })
    }

    fn list_now(&self, name: &DeviceName) -> Result<Option<ListNow>, CircuitsRefused> {
        let file = ListFile::of(self.folders, name);
        let Some((mut kept, damaged)) = file.sound()? else {
            return Ok(None);
        };
        let text = file.read(false).ok().flatten();
        let count = text.map_or(0, |text| text.changes.lines().count());
        let whole = kept.write();
        let (_, own) = whole.split_once('\n').unwrap_or_default();
        let mut digest = sealed::digest(own.as_bytes());
        digest.truncate(16);
        let used = self.used(name);
        let until = quota::follow(&mut kept, &used).end;
        let at = clock::unix();
        let (applied, changed) = file.times();
        Ok(Some(ListNow {
            quotas: used.used_up(&kept, at),
            kept,
            damaged,
            digest,
            applied,
            changed: changed.filter(|_| count > 0).map(|time| (time, count)),
            until,
        }))
    }

    async fn in_force(
        &self,
        name: &DeviceName,
        list: Option<&ListNow>,
    ) -> Result<InForce, CircuitsRefused> {
        let target = match self.target(name).await {
            Err(CircuitsRefused::Kernel(error)) if matches!(*error, KernelError::NoDevice(_)) => {
                return Ok(InForce::NoDevice);
            }
            other => other?,
        };
        let Some(ListNow { kept, .. }) = list else {
            return Ok(InForce::NotKept);
        };
        let Some(tree) = self.store.circuits(target.point)? else {
            return Ok(InForce::Missing("its programs are not loaded"));
        };
        let queues = tree.queues()?;
        if self.lacks_queues(&target, queues) {
            return Ok(InForce::Missing("its device has fewer queues than before"));
        }
        if !self.has_root(&target, queues).await? {
            return Ok(InForce::Missing("its qdisc is not on the device"));
        }
        if !self.store.circuits_are_on(target.point) {
            return Ok(InForce::Missing("somebody took a program off the device"));
        }
        if tree.direction()? != kept.direction {
            return Ok(InForce::Missing(
                "the circuits in force are of the other direction",
            ));
        }
        Ok(InForce::Rows(tree.differs(&kept.list, kept.link)?))
    }

    /// Returns the change that waits for confirmation, or the confirmed one that can still be taken
    /// back.
    pub fn waiting(&self) -> Result<Option<WaitingNow>, CircuitsRefused> {
        let waiting = Waiting::read(self.folders)?;
        Ok(waiting.map(|waiting| WaitingNow {
            seconds: waiting.seconds(self.folders),
            devices: waiting.devices,
        }))
    }

    /// Returns whether `weirgate keep` runs in this network namespace, and so restores lists.
    pub fn are_held(folders: &Folders) -> bool {
        matches!(folders.lock_held("keep"), Err(KeepError::Held(_)))
    }
}

/// Returns the hours, days and zone of the plan's line that applies now, as written; `None` if no
/// hours apply.
pub fn hours_now(plan: &Plan) -> Option<String> {
    let [hours, days, zone] = &plan.now(clock::unix())?.written;
    let all = [hours, days, zone].into_iter();
    let all: Vec<&str> = all
        .map(|one| &**one)
        .filter(|one| !one.is_empty())
        .collect();
    Some(all.join(" "))
}
