// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists that are taken back unless they are confirmed, and the former lists that come back.
//!
//! One file says of which devices, and until when; it stays when they are confirmed, for who
//! goes back later. It is written before anything changes, so whoever finds it, whatever
//! became of the command, can put all former lists in their places again: a process that is
//! started with the change, [`Circuits::hold`], or the next command. All is done under the
//! lock of circuits.

use super::file::{self, FOLDER, ListFile};
use super::{Circuits, CircuitsDone, CircuitsRefused, Held};
use crate::clock::{self, Timer};
use crate::error::KeepError;
use crate::guard::{self, deadline};
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

/// No device's file is called so: each has an end.
const NAME: &str = "waiting";

/// What to do with a damaged file.
const HINT: &str = "remove the file, and apply the lists again";

/// How lists are guarded until they are confirmed.
#[derive(Debug, Clone, Copy)]
pub struct Guarded<'p> {
    /// This program, which takes them back when it is run as [`Circuits::guard`].
    pub program: &'p Path,
    /// The folder for its `--state-dir`.
    pub state: &'p Path,
    /// When they are taken back.
    pub after: Duration,
}

/// Lists that can be taken back.
#[derive(Debug)]
pub(super) struct Waiting {
    /// When they are, in nanoseconds of the boot clock; 0 for lists that are confirmed.
    deadline: u64,
    /// The run of the kernel of that clock.
    boot: String,
    /// The devices, and whether each had a list before.
    pub(super) devices: Vec<(DeviceName, bool)>,
}

impl Waiting {
    fn path(folders: &Folders) -> PathBuf {
        folders.state.join(FOLDER).join(NAME)
    }

    pub(super) fn read(folders: &Folders) -> Result<Option<Self>, KeepError> {
        sealed::read_with(&Self::path(folders), HINT, |body| {
            let text = std::str::from_utf8(body).ok();
            text.and_then(Self::parse)
                .ok_or_else(|| "a line is not as expected".to_owned())
        })
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
        sealed::write_body(&path, text.as_bytes())
    }

    /// Forgets it, and the former lists.
    fn end(&self, folders: &Folders) -> Result<(), KeepError> {
        let path = Self::path(folders);
        fs::remove_file(&path).map_err(KeepError::file(&path))?;
        sealed::flush(path.parent().unwrap_or(&path))?;
        for (name, _) in &self.devices {
            ListFile::drop_former(folders, name)?;
        }
        Ok(())
    }

    const fn is_confirmed(&self) -> bool {
        self.deadline == 0
    }

    /// Whether it should have been confirmed before now.
    fn is_over(&self, folders: &Folders) -> bool {
        !self.is_confirmed() && (self.boot != folders.boot || self.deadline <= clock::now())
    }

    /// For how many seconds it is waited for yet; `None` where it is confirmed.
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

    fn names(&self) -> Vec<DeviceName> {
        self.devices.iter().map(|(name, _)| name.clone()).collect()
    }
}

impl Circuits<'_> {
    /// Whether a list is kept of any device, or waits for confirmation.
    pub fn are_kept(folders: &Folders) -> bool {
        file::devices(folders).is_ok_and(|devices| !devices.is_empty())
            || Waiting::path(folders).exists()
    }

    /// Brings lists into force and keeps them, and takes those of other devices away, until
    /// that is confirmed or taken back: all of it, or the lists before are in force. Whether
    /// the process that takes it back ends with this session.
    pub async fn apply_until(
        &self,
        (lists, gone): (Vec<(DeviceName, Kept)>, &[DeviceName]),
        adopt: bool,
        guarded: Guarded<'_>,
    ) -> Result<(Vec<(DeviceName, CircuitsDone)>, bool), CircuitsRefused> {
        self.nothing_waits().await?;
        for (name, _) in &lists {
            self.target(name).await?;
        }
        for name in gone {
            if self.kept(name)?.is_none() {
                return Err(CircuitsRefused::NoWayBack(name.clone()));
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
                // What cannot be taken back now is tried again when its time is over.
                self.back(&waiting).await?;
                // It has nothing to do any more; one that ended is no matter.
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

    /// The process that takes back lists that nobody has confirmed by then.
    pub async fn guard(
        folders: &Folders,
        kernel: &Kernel,
        deadline: u64,
    ) -> Result<(), CircuitsRefused> {
        guard::stay();
        let timer = Timer::new()?;
        timer.set(deadline)?;
        timer.over().await?;
        Circuits::open(folders, kernel)?.end_what_is_over().await?;
        Ok(())
    }

    /// Keeps the lists that wait for it; their devices.
    pub async fn confirm(&self) -> Result<Vec<DeviceName>, CircuitsRefused> {
        if self.end_what_is_over().await? {
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

    /// Puts the lists in force that were before those that wait for confirmation, and with
    /// `confirmed` also those before the ones that were confirmed last; the devices.
    pub async fn take_back(&self, confirmed: bool) -> Result<Vec<DeviceName>, CircuitsRefused> {
        match Waiting::read(self.folders)? {
            Some(waiting) if confirmed || !waiting.is_confirmed() => {
                self.back(&waiting).await?;
                Ok(waiting.names())
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Refuses where lists wait for confirmation whose time is not over.
    pub(super) async fn nothing_waits(&self) -> Result<(), CircuitsRefused> {
        self.end_what_is_over().await?;
        match Waiting::read(self.folders)? {
            Some(waiting) if !waiting.is_confirmed() => Err(CircuitsRefused::Waits),
            _ => Ok(()),
        }
    }

    /// Keeps no former list where this device is one of those that have one.
    pub(super) fn drop_former(&self, name: &DeviceName) -> Result<(), CircuitsRefused> {
        if let Some(waiting) = Waiting::read(self.folders)?
            && waiting.devices.iter().any(|(other, _)| other == name)
        {
            waiting.end(self.folders)?;
        }
        Ok(())
    }

    /// What [`Circuits::hold`] does of lists that nobody confirmed. A damaged file is told by
    /// commands, and keeps no list from being held.
    pub(super) async fn hold_waiting(&self) -> Vec<Held> {
        let Ok(Some(waiting)) = Waiting::read(self.folders) else {
            return Vec::new();
        };
        if !waiting.is_over(self.folders) {
            return Vec::new();
        }
        let mut names = waiting.names();
        let mut outcome = self.back(&waiting).await.map(|()| CircuitsDone::default());
        if outcome.is_err() {
            // All are tried again at the next look; what stands in the way is told once.
            names.truncate(1);
        }
        let of = |device| Held {
            device,
            outcome: std::mem::replace(&mut outcome, Ok(CircuitsDone::default())),
        };
        names.into_iter().map(of).collect()
    }

    /// Takes back lists that nobody confirmed in time; whether there were any.
    async fn end_what_is_over(&self) -> Result<bool, CircuitsRefused> {
        match Waiting::read(self.folders)? {
            Some(waiting) if waiting.is_over(self.folders) => {
                self.back(&waiting).await?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Puts all former lists in force. What was done of it is found done, where it has to be
    /// tried again.
    async fn back(&self, waiting: &Waiting) -> Result<(), CircuitsRefused> {
        for (name, had) in &waiting.devices {
            let target = match self.target(name).await {
                Err(CircuitsRefused::Kernel(error))
                    if matches!(*error, KernelError::NoDevice(_)) =>
                {
                    None
                }
                other => Some(other?),
            };
            if !had {
                match self.take_off(name).await {
                    Err(CircuitsRefused::None(_)) => {}
                    Err(CircuitsRefused::Kernel(_)) if target.is_none() => {}
                    other => other?,
                }
                continue;
            }
            if ListFile::is_former(self.folders, name)
                && let Some(target) = &target
                && let Some(tree) = self.store.circuits(target.point)?
                && !tree.is_open()?
            {
                // It was refused, or its turn did not come.
                continue;
            }
            let former = ListFile::read_former(self.folders, name)?;
            let has_former = former.is_some();
            let mut tree = None;
            if let Some(target) = &target {
                tree = Some(match former {
                    Some(mut kept) => self.force(target, &mut kept, false).await?.0,
                    None => self.force_kept(target).await?.0,
                });
            }
            if has_former {
                ListFile::put_former(self.folders, name)?;
            }
            if let Some(tree) = tree {
                tree.settle()?;
            }
        }
        waiting.end(self.folders)?;
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
        // In another run of the kernel nobody confirms it any more.
        assert!(read.is_over(&self::folders(state.path(), "net-7-b")));
        assert!(waiting(1).is_over(&folders));
        assert!(!waiting(0).is_over(&self::folders(state.path(), "net-7-b")));
        let path = Waiting::path(&folders);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("core0", "core1")).unwrap();
        let why = Waiting::read(&folders).unwrap_err().to_string();
        assert!(
            why.contains("checksum") && why.contains("remove the file"),
            "{why}"
        );
        written.end(&folders).unwrap();
        assert!(!Circuits::are_kept(&folders));
        for text in ["", "7\n", "x net\n", "7 net\n1\n", "7 net\n1 a/b\n"] {
            assert!(Waiting::parse(text).is_none(), "{text}");
        }
    }
}
