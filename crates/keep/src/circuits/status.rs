// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is known of circuits: the lists that are kept, what the kernel has of them, and what
//! waits for confirmation. Nothing is changed.

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

/// The list that is kept of a device.
#[derive(Debug)]
pub struct ListNow {
    /// It, with what its plans give now.
    pub kept: Kept,
    /// The beginning of its SHA-256, in which device, direction and rate do not count.
    pub digest: String,
    /// When it was applied, in seconds since 1970, where the file system tells.
    pub applied: Option<u64>,
    /// When a circuit was changed by itself since, and how many of these changes are kept apart.
    pub changed: Option<(u64, usize)>,
    /// Until when plans give what they give now, in seconds since 1970; `u64::MAX` for ever.
    pub until: u64,
    /// How many circuits have a quota in this direction, and how many of them have used it up.
    pub quotas: [usize; 2],
}

/// What the kernel has of a device's circuits.
#[derive(Debug)]
pub enum InForce {
    /// The device is not there.
    NoDevice,
    /// A part is missing, which the next look of `weirgate keep` puts back.
    Missing(&'static str),
    /// No list is kept, and there are circuits.
    NotKept,
    /// This differs from what the list says.
    Rows(CircuitsChange),
}

/// What is known of one device.
#[derive(Debug)]
pub struct CircuitsNow {
    /// What is kept.
    pub list: Option<ListNow>,
    /// What is in force.
    pub in_force: InForce,
}

impl CircuitsNow {
    /// Whether a list is kept, and in force as it is.
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
    /// What is known of a device.
    pub async fn status(&self, name: &DeviceName) -> Result<CircuitsNow, CircuitsRefused> {
        let list = self.list_now(name)?;
        let in_force = self.in_force(name, list.as_ref()).await?;
        Ok(CircuitsNow { list, in_force })
    }

    fn list_now(&self, name: &DeviceName) -> Result<Option<ListNow>, CircuitsRefused> {
        let file = ListFile::of(self.folders, name);
        let Some(text) = file.read(true)? else {
            return Ok(None);
        };
        let count = text.changes.lines().count();
        let mut kept = file.whole(&text.list, &text.changes)?;
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
        if !self.has_root(&target, tree.queues()?).await? {
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

    /// What waits for confirmation, or can be taken back though it is confirmed.
    pub fn waiting(&self) -> Result<Option<WaitingNow>, CircuitsRefused> {
        let waiting = Waiting::read(self.folders)?;
        Ok(waiting.map(|waiting| WaitingNow {
            seconds: waiting.seconds(self.folders),
            devices: waiting.devices,
        }))
    }

    /// Whether a service brings lists back: `weirgate keep` runs in this network namespace.
    pub fn are_held(folders: &Folders) -> bool {
        matches!(folders.lock_held("keep"), Err(KeepError::Held(_)))
    }
}

/// The hours whose line of a plan holds now, as they are written; `None` where no hours do.
pub fn hours_now(plan: &Plan) -> Option<String> {
    let [hours, days, zone] = &plan.now(clock::unix())?.written;
    let all = [hours, days, zone].into_iter();
    let all: Vec<&str> = all
        .map(|one| &**one)
        .filter(|one| !one.is_empty())
        .collect();
    Some(all.join(" "))
}
