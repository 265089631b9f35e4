// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists that are taken back unless they are confirmed, and the former lists that are then
//! restored.
//!
//! One file names the devices and the deadline. It has a copy that is never older, in case it is
//! damaged. It stays after confirmation, for a later rollback.
//! It is written before anything changes, so any process that finds it can restore all former
//! lists, whatever happened to the command. That is the guard process that is started with the
//! change, [`Circuits::hold`], or the next command. All of them hold the lock of circuits.

use super::file::{self, FOLDER, ListFile};
use super::{Circuits, CircuitsDone, CircuitsRefused, DeviceCircuits, PATIENCE};
use crate::clock::{self, Timer};
use crate::error::KeepError;
use crate::guard::{self, deadline};
use crate::store::damage;
use crate::store::folder::{Folders, folder};
use crate::store::sealed;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use weirgate_circuits::kept::Kept;
use weirgate_kernel::{Kernel, KernelError};
use weirgate_state::DeviceName;

/// The file and its copy. They cannot collide with a device's file, because those have suffixes.
const NAME: &str = "waiting";
const COPY: &str = "waiting-copy";

/// The advice for a damaged file.
const HINT: &str = "remove the file, and apply the lists again";

/// How lists are guarded until they are confirmed.
#[derive(Debug, Clone, Copy)]
pub struct Guarded<'p> {
    /// This program; it runs [`Circuits::guard`] to take the lists back.
    pub program: &'p Path,
    /// The folder for its `--state-dir`.
    pub state: &'p Path,
    /// How long to wait for confirmation.
    pub after: Duration,
}

/// Lists that can be taken back.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The deadline in nanoseconds of the boot clock; 0 for confirmed lists.
    deadline: u64,
    /// The boot to which the deadline belongs.
    boot: String,
    /// The devices, and whether each had a list before.
    pub(super) devices: Vec<(DeviceName, bool)>,
}

impl Waiting {
    fn path(folders: &Folders) -> PathBuf {
        folders.state.join(FOLDER).join(NAME)
    }

    fn copy(folders: &Folders) -> PathBuf {
        folders.state.join(FOLDER).join(COPY)
    }

    /// Reads the file; `None` if it does not exist. If it is damaged, its copy replaces it, and it
    /// is set aside. The caller holds the lock of circuits.
    pub(super) fn read(folders: &Folders) -> Result<Option<Self>, KeepError> {
        let read = |path: &Path| {
            sealed::read_with(path, HINT, |body| {
                let text = std::str::from_utf8(body).ok();
                text.and_then(Self::parse)
                    .ok_or_else(|| "a line is not as expected".to_owned())
            })
        };
        let path = Self::path(folders);
        match read(&path) {
            Err(damaged @ KeepError::Damaged { .. }) => {
                let Ok(Some(copy)) = read(&Self::copy(folders)) else {
                    return Err(damaged);
                };
                damage::link_aside(&path)?;
                copy.write(folders)?;
                Ok(Some(copy))
            }
            other => other,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let (deadline, boot) = lines.next()?.split_once(' ')?;
        let device = |line: &str| {
            let (had, name) = line.split_once(' ')?;
            Some((DeviceName::new(name)?, had == "1"))
        };
        Some(Self {
            deadline: deadline.parse().ok()?,
            boot: boot.to_owned(),
            devices: lines.map(device).collect::<Option<_>>()?,
        })
    }

    fn write(&self, folders: &Folders) -> Result<(), KeepError> {
        let mut text = format!("{} {}\n", self.deadline, self.boot);
        for (name, had) in &self.devices {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{} {name}", u8::from(*had));
        }
        let path = Self::path(folders);
        folder(path.parent().unwrap_or(&path))?;
        sealed::write_body(&Self::copy(folders), text.as_bytes())?;
        sealed::write_body(&path, text.as_bytes())
    }

    /// Removes the file and the former lists.
    fn end(&self, folders: &Folders) -> Result<(), KeepError> {
        let path = Self::path(folders);
        fs::remove_file(&path).map_err(KeepError::file(&path))?;
        sealed::flush(path.parent().unwrap_or(&path))?;
        // Without the file, the copy does not count.
        let _ = fs::remove_file(Self::copy(folders));
        for (name, _) in &self.devices {
            ListFile::drop_former(folders, name)?;
        }
        Ok(())
    }

    const fn is_confirmed(&self) -> bool {
        self.deadline == 0
    }

    /// Returns whether the deadline has passed without confirmation.
    fn is_over(&self, folders: &Folders) -> bool {
        !self.is_confirmed() && (self.boot != folders.boot || self.deadline <= clock::now())
    }

    /// Returns the seconds that are left for confirmation; `None` if it is confirmed.
    pub(super) fn seconds(&self, folders: &Folders) -> Option<u64> {
        if self.is_confirmed() {
            return None;
        }
        let left = self
            .deadline
            .saturating_sub(clock::now())
            .div_ceil(1_000_000_000);
        Some(if self.is_over(folders) { 0 } else { left })
    }

    /// Returns the error for a change that has to wait for this one.
    fn refusal(&self, folders: &Folders) -> CircuitsRefused {
        let names = self.devices.iter().map(|(name, _)| name.as_str());
        CircuitsRefused::Waits {
            devices: names.collect::<Vec<_>>().join(", "),
            seconds: self.seconds(folders).unwrap_or(0),
        }
    }

    fn names(&self) -> Vec<DeviceName> {
        self.devices.iter().map(|(name, _)| name.clone()).collect()
    }
}

impl Circuits<'_> {
    /// Returns whether any device has a stored list, or lists wait for confirmation.
    pub fn are_kept(folders: &Folders) -> bool {
        file::devices(folders).is_ok_and(|devices| !devices.is_empty())
            || Waiting::path(folders).exists()
    }

    /// Applies lists and removes those of other devices, until that is confirmed or taken back. If
    /// any part fails, all former lists are in force again. The returned flag says whether the
    /// guard process ends with this session.
    pub async fn apply_until(
        &self,
        (lists, gone): (Vec<(DeviceName, Kept)>, &[DeviceName]),
        adopt: bool,
        guarded: Guarded<'_>,
    ) -> Result<(Vec<(DeviceName, CircuitsDone)>, bool), CircuitsRefused> {
        self.nothing_waits(adopt).await?;
        for (name, _) in &lists {
            self.target(name).await?;
        }
        for name in gone {
            if self.kept(name)?.is_none() {
                return Err(CircuitsRefused::NotRestorable(name.clone()));
            }
        }
        let deadline = deadline(guarded.after);
        let until = deadline.to_string();
        let state = std::path::absolute(guarded.state).map_err(KeepError::file(guarded.state))?;
        let words: [&OsStr; 5] = [
            "--state-dir".as_ref(),
            state.as_ref(),
            "circuits".as_ref(),
            "guard".as_ref(),
            until.as_ref(),
        ];
        let started = guard::spawn(guarded.program, &words, Stdio::null(), true);
        let (mut guard, in_session) =
            started.map_err(|error| KeepError::Guard(error.to_string()))?;
        let mut devices = Vec::new();
        for name in lists.iter().map(|(name, _)| name).chain(gone) {
            let had = ListFile::keep_former(self.folders, name)?;
            devices.push((name.clone(), had));
        }
        let waiting = Waiting {
            deadline,
            boot: self.folders.boot.clone(),
            devices,
        };
        waiting.write(self.folders)?;
        match self.follow((lists, gone), adopt).await {
            Ok(all) => Ok((all, in_session)),
            Err(refused) => {
                // If this fails too, it is retried at the deadline.
                self.back(&waiting, adopt).await?;
                // The guard is not needed any more; it may have ended already.
                let _ = guard.kill();
                let _ = guard.wait();
                Err(refused)
            }
        }
    }

    async fn follow(
        &self,
        (lists, gone): (Vec<(DeviceName, Kept)>, &[DeviceName]),
        adopt: bool,
    ) -> Result<Vec<(DeviceName, CircuitsDone)>, CircuitsRefused> {
        let mut all = Vec::new();
        for (name, mut kept) in lists {
            let done = self.bring(&name, &mut kept, adopt).await?;
            all.push((name, done));
        }
        for name in gone {
            self.take_off(name).await?;
        }
        Ok(all)
    }

    /// Runs the guard process: takes the lists back at the deadline if nobody has confirmed them.
    pub async fn guard(
        folders: &Folders,
        kernel: &Kernel,
        deadline: u64,
    ) -> Result<(), CircuitsRefused> {
        guard::stay();
        let timer = Timer::new()?;
        timer.set(deadline)?;
        timer.over().await?;
        // A process that changes circuits may have been stopped: wait for it without limit.
        let circuits = loop {
            if let Some(circuits) = Circuits::open_soon(folders, kernel, PATIENCE).await? {
                break circuits;
            }
        };
        circuits.end_what_is_over(false).await?;
        Ok(())
    }

    /// Confirms the waiting lists. Returns their devices.
    pub async fn confirm(&self) -> Result<Vec<DeviceName>, CircuitsRefused> {
        if self.end_what_is_over(false).await? {
            return Err(CircuitsRefused::Nothing(
                "the time of the change was over; the former lists are in force",
            ));
        }
        match Waiting::read(self.folders)? {
            Some(mut waiting) if !waiting.is_confirmed() => {
                waiting.deadline = 0;
                waiting.write(self.folders)?;
                Ok(waiting.names())
            }
            _ => Err(CircuitsRefused::Nothing("nothing waits for confirmation")),
        }
    }

    /// Restores the lists that preceded those that wait for confirmation; with `confirmed`, also
    /// those that preceded the last confirmed ones. Returns the devices.
    pub async fn take_back(&self, confirmed: bool) -> Result<Vec<DeviceName>, CircuitsRefused> {
        match Waiting::read(self.folders)? {
            Some(waiting) if confirmed || !waiting.is_confirmed() => {
                self.back(&waiting, false).await?;
                Ok(waiting.names())
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Fails if lists wait for confirmation. Takes them back first if their deadline has passed;
    /// `adopt` then replaces root qdiscs of other programs.
    pub(super) async fn nothing_waits(&self, adopt: bool) -> Result<(), CircuitsRefused> {
        self.end_what_is_over(adopt).await?;
        match Waiting::read(self.folders)? {
            Some(waiting) if !waiting.is_confirmed() => Err(waiting.refusal(self.folders)),
            _ => Ok(()),
        }
    }

    /// Fails if a list of this device waits for confirmation: if it is taken back, a change of a
    /// single circuit would be lost. Takes it back first if its deadline has passed.
    pub(super) async fn may_change(&self, name: &DeviceName) -> Result<(), CircuitsRefused> {
        self.end_what_is_over(false).await?;
        match Waiting::read(self.folders)? {
            Some(waiting) if !waiting.is_confirmed() && waiting.names().contains(name) => {
                Err(waiting.refusal(self.folders))
            }
            _ => Ok(()),
        }
    }

    /// Forgets the former lists if this device has one of them.
    pub(super) fn drop_former(&self, name: &DeviceName) -> Result<(), CircuitsRefused> {
        if let Some(waiting) = Waiting::read(self.folders)?
            && waiting.devices.iter().any(|(other, _)| other == name)
        {
            waiting.end(self.folders)?;
        }
        Ok(())
    }

    /// Takes back lists whose deadline has passed, for [`Circuits::hold`]. Commands report a
    /// damaged file; here it is ignored, so that the other lists still come into force.
    pub(super) async fn hold_waiting(&self) -> Vec<DeviceCircuits> {
        let Ok(Some(waiting)) = Waiting::read(self.folders) else {
            return Vec::new();
        };
        if !waiting.is_over(self.folders) {
            return Vec::new();
        }
        let mut names = waiting.names();
        let outcome = self.back(&waiting, false).await;
        let mut outcome = outcome.map(|()| CircuitsDone::default());
        if outcome.is_err() {
            // All devices are retried at the next look; the error is reported once.
            names.truncate(1);
        }
        let of = |device| DeviceCircuits {
            device,
            outcome: std::mem::replace(&mut outcome, Ok(CircuitsDone::default())),
        };
        names.into_iter().map(of).collect()
    }

    /// Takes back lists whose deadline has passed. Returns whether there were any.
    async fn end_what_is_over(&self, adopt: bool) -> Result<bool, CircuitsRefused> {
        match Waiting::read(self.folders)? {
            Some(waiting) if waiting.is_over(self.folders) => {
                self.back(&waiting, adopt).await?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Restores all former lists. It may run again after a failure: steps that are already done are
    /// detected. A device that fails does not prevent those after it; the first error is returned.
    async fn back(&self, waiting: &Waiting, adopt: bool) -> Result<(), CircuitsRefused> {
        let mut outcome = Ok(());
        for (name, had) in &waiting.devices {
            let own = self.back_one(name, *had, adopt).await;
            outcome = outcome.and(own);
        }
        outcome?;
        waiting.end(self.folders)?;
        Ok(())
    }

    /// Restores the former list of a device, or removes the list of a device that `had` none.
    async fn back_one(
        &self,
        name: &DeviceName,
        had: bool,
        adopt: bool,
    ) -> Result<(), CircuitsRefused> {
        let target = match self.target(name).await {
            Err(CircuitsRefused::Kernel(error)) if matches!(*error, KernelError::NoDevice(_)) => {
                None
            }
            other => Some(other?),
        };
        if !had {
            return match self.take_off(name).await {
                Err(CircuitsRefused::None(_)) => Ok(()),
                Err(CircuitsRefused::Kernel(_)) if target.is_none() => Ok(()),
                other => other,
            };
        }
        if ListFile::is_former(self.folders, name)
            && let Some(target) = &target
            && let Some(tree) = self.store.circuits(target.point)?
            && !tree.is_open()?
        {
            // The former list is still in force: applying the new one failed, or had not begun.
            return Ok(());
        }
        let former = ListFile::read_former(self.folders, name)?;
        let has_former = former.is_some();
        let mut tree = None;
        if let Some(target) = &target {
            tree = Some(match former {
                Some(mut kept) => self.force(target, &mut kept, adopt).await?.0,
                None => self.force_kept(target, adopt).await?.0,
            });
        }
        if has_former {
            ListFile::put_former(self.folders, name)?;
        }
        if let Some(tree) = tree {
            tree.settle()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(state: &Path, boot: &str) -> Folders {
        Folders {
            run: state.to_owned(),
            state: state.to_owned(),
            boot: boot.to_owned(),
        }
    }

    fn waiting(deadline: u64) -> Waiting {
        let device = |name| DeviceName::new(name).unwrap();
        Waiting {
            deadline,
            boot: "net-7-a".to_owned(),
            devices: vec![(device("access0"), true), (device("core0"), false)],
        }
    }

    #[test]
    fn what_waits_is_what_was_written() {
        let state = tempfile::tempdir().unwrap();
        let folders = folders(state.path(), "net-7-a");
        assert!(Waiting::read(&folders).unwrap().is_none());
        let written = waiting(clock::now() + 60_000_000_000);
        written.write(&folders).unwrap();
        let read = Waiting::read(&folders).unwrap().unwrap();
        assert_eq!(read.devices, written.devices);
        assert!(Circuits::are_kept(&folders) && !read.is_over(&folders));
        // After a reboot nobody can confirm it any more.
        assert!(read.is_over(&self::folders(state.path(), "net-7-b")));
        assert!(waiting(1).is_over(&folders));
        assert!(!waiting(0).is_over(&self::folders(state.path(), "net-7-b")));
        let path = Waiting::path(&folders);
        let text = fs::read_to_string(&path).unwrap();
        let damaged = text.replace("core0", "core1");
        fs::write(&path, &damaged).unwrap();
        // The copy counts, and what is damaged is set aside.
        let read = Waiting::read(&folders).unwrap().unwrap();
        assert_eq!(read.devices, written.devices);
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        let aside = state.path().join(FOLDER).join("waiting.damaged");
        assert_eq!(fs::read_to_string(aside).unwrap(), damaged);
        assert_eq!(Circuits::damages(&folders).unwrap().len(), 1);
        fs::write(&path, &damaged).unwrap();
        fs::write(Waiting::copy(&folders), &damaged).unwrap();
        let why = Waiting::read(&folders).unwrap_err().to_string();
        assert!(
            why.contains("checksum") && why.contains("remove the file"),
            "{why}"
        );
        written.write(&folders).unwrap();
        written.end(&folders).unwrap();
        assert!(!Waiting::copy(&folders).exists());
        assert!(!Circuits::are_kept(&folders));
        for text in ["", "7\n", "x net\n", "7 net\n1\n", "7 net\n1 a/b\n"] {
            assert!(Waiting::parse(text).is_none(), "{text}");
        }
    }
}
