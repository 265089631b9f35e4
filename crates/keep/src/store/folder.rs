// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The folders where weirgate stores files, and the lock against a second writer.
//!
//! `/run/weirgate` describes the running kernel, and is lost with it; `/var/lib/weirgate` (or the
//! folder that the caller names) outlives it. Each network namespace has its own folders, because
//! devices of the same name in two namespaces are different devices.
//!
//! The namespace of process 1 exists again after every boot, and uses the folder itself. A named
//! namespace (`ip netns`) uses `netns-NAME` below it. Any other uses `net-NUMBER-BOOT`, where the
//! kernel numbers the namespace. After a reboot, the kernel may give that number to another
//! namespace, so the name includes the boot.

use crate::error::KeepError;
use crate::store::trust::trusted;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::time::Duration;
use weirgate_kernel::{in_initial_namespace, namespace_cookie};

const RUN: &str = "/run/weirgate";
/// The default folder of the history.
pub const STATE: &str = "/var/lib/weirgate";
/// How long a command waits for the lock. The largest change takes less.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);
/// How long a service waits for a lock that should be free soon, and the interval of its attempts.
/// A starting service waits for a process that tests by a lock whether a service runs; a running
/// one waits for a process that changes circuits.
pub(crate) const MOMENT: Duration = Duration::from_millis(500);
pub(crate) const STEP: Duration = Duration::from_millis(10);
const OWN: &str = "/proc/thread-self/ns/net";
const INITIAL: &str = "/proc/1/ns/net";
/// The folder of named namespaces (ip-netns(8)).
const NAMED: &str = "/run/netns";
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// The folders of one network namespace.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Folders {
    /// The folder that is lost with the running kernel.
    pub run: PathBuf,
    /// The folder that outlives it.
    pub state: PathBuf,
    /// Identifies the namespace and the boot (random(4), `boot_id`).
    pub boot: String,
}

impl Folders {
    /// Returns the folders of the calling thread's namespace; the one that outlives the kernel is
    /// below `state`. Fails if other users may change that folder.
    pub fn here(state: &Path) -> Result<Self, KeepError> {
        let inode = |path: &Path| {
            fs::metadata(path)
                .map(|file| (file.dev(), file.ino()))
                .map_err(KeepError::file(path))
        };
        let state = std::path::absolute(state).map_err(KeepError::file(state))?;
        trusted(&state)?;
        let own = inode(Path::new(OWN))?;
        let name = match namespace_cookie() {
            Ok(cookie) => format!("net-{cookie}"),
            // Before Linux 5.14 the kernel has no cookie of a namespace, so use its inode.
            Err(_) => format!("net-inode-{}", own.1),
        };
        // With few capabilities, ptrace(2) rules deny access to process 1. There is another test
        // for the initial namespace.
        let initial = match inode(Path::new(INITIAL)) {
            Ok(initial) => initial == own,
            Err(_) => in_initial_namespace(),
        };
        let boot = fs::read_to_string(BOOT).map_err(KeepError::file(BOOT))?;
        let boot = format!("{name}-{}", boot.trim());
        let named = || {
            let files = fs::read_dir(NAMED).into_iter().flatten().flatten();
            let own = files.filter(|file| inode(&file.path()).is_ok_and(|inode| inode == own));
            let name = own.map(|file| file.file_name()).min()?;
            let mut folder = OsString::from("netns-");
            folder.push(name);
            Some(folder)
        };
        let state = if initial {
            state
        } else {
            state.join(named().unwrap_or_else(|| (&boot).into()))
        };
        Ok(Self {
            run: Path::new(RUN).join(&name),
            state,
            boot,
        })
    }

    /// Returns whether the stored files are found again after a reboot. They are not in a namespace
    /// without a name.
    #[must_use]
    pub fn outlive_the_kernel(&self) -> bool {
        !self.state.ends_with(&self.boot)
    }

    /// Takes the lock that keeps two commands from changing the kernel at once. The kernel releases
    /// it when the process ends in any way.
    pub(crate) fn lock(&self) -> Result<Lock, KeepError> {
        lock_by(self.lock_file(), File::try_lock)
    }

    /// Takes the lock that keeps two programs from running `links` or `pods` at once. It is
    /// separate from the other lock, because a service holds it as long as it runs.
    pub(crate) fn lock_held(&self, what: &'static str) -> Result<Lock, KeepError> {
        let file = self.run.with_extension(format!("{what}-lock"));
        lock_by(file, File::try_lock).map_err(|error| match error {
            KeepError::Busy => KeepError::Held(what),
            other => other,
        })
    }

    /// Does so, and waits a moment if the lock is taken: a process that tests whether a service
    /// runs holds it briefly. Needs a tokio runtime.
    pub(crate) async fn lock_held_soon(&self, what: &'static str) -> Result<Lock, KeepError> {
        let held = async {
            loop {
                match self.lock_held(what) {
                    Err(KeepError::Held(_)) => tokio::time::sleep(STEP).await,
                    other => return other,
                }
            }
        };
        let waited = tokio::time::timeout(MOMENT, held).await;
        waited.unwrap_or(Err(KeepError::Held(what)))
    }

    fn lock_file(&self) -> PathBuf {
        self.run.with_extension("lock")
    }

    /// Takes the lock, and waits for it at most for `patience`. Needs a tokio runtime.
    pub(crate) async fn soon(&self, patience: Duration) -> Result<Lock, KeepError> {
        let waited = tokio::time::timeout(patience, self.lock_when_free()).await;
        waited.unwrap_or(Err(KeepError::Busy))
    }

    /// Takes the lock, and waits for it without limit: the kernel releases the lock when its owner
    /// dies. Needs a tokio runtime.
    pub(crate) async fn lock_when_free(&self) -> Result<Lock, KeepError> {
        match self.lock() {
            Err(KeepError::Busy) => {}
            other => return other,
        }
        let path = self.lock_file();
        let wait = |file: &File| file.lock().map_err(TryLockError::Error);
        let waiting = tokio::task::spawn_blocking(move || lock_by(path, wait));
        waiting.await.unwrap_or(Err(KeepError::Busy))
    }

    /// Returns the path of the socket at which the guard of this change listens.
    pub(crate) fn guard(&self, number: u64) -> PathBuf {
        self.run.with_extension(format!("guard-{number}"))
    }

    /// Returns the path of the socket at which programs announce sessions of high priority.
    #[must_use]
    pub fn announcements(&self) -> PathBuf {
        self.run.with_extension("announce")
    }

    /// Creates the folder of that socket. If other users than root need to reach the socket, the
    /// folder gets mode 0711. They cannot list it, and its other files stay accessible to root
    /// only.
    pub(crate) fn passable(others: bool) -> Result<(), KeepError> {
        folder(Path::new(RUN))?;
        if !others {
            return Ok(());
        }
        fs::set_permissions(RUN, Permissions::from_mode(0o711)).map_err(KeepError::file(RUN))
    }
}

/// Creates a lock file and takes its lock.
fn lock_by(
    path: PathBuf,
    take: impl Fn(&File) -> Result<(), TryLockError>,
) -> Result<Lock, KeepError> {
    loop {
        folder(path.parent().unwrap_or(&path))?;
        // Mode 0600, because every user who may open the file may lock it.
        let mut open = OpenOptions::new();
        let file = match open.write(true).create(true).mode(0o600).open(&path) {
            Ok(file) => file,
            // The folder was removed by a process that released its lock.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(source) => return Err(KeepError::File { path, source }),
        };
        match take(&file) {
            Ok(()) if named(&path, &file) => return Ok(Lock { path, _file: file }),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(KeepError::Busy),
            Err(TryLockError::Error(source)) => return Err(KeepError::File { path, source }),
        }
    }
}

/// The right to change this namespace's kernel state and the files about it.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    /// Kept open for its lock.
    _file: File,
}

impl Drop for Lock {
    /// Removes the file while the lock on it is held, and the folder if it is empty. Best effort: a
    /// remaining file does no harm.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_dir(RUN);
    }
}

/// Returns whether the locked file still has its name. The last owner may have removed it between
/// opening and locking, and a lock on an unlinked file excludes nobody.
fn named(path: &Path, file: &File) -> bool {
    let same = || Some(file.metadata().ok()?.ino() == fs::metadata(path).ok()?.ino());
    same().unwrap_or(false)
}

/// Creates a folder for root alone, with its parents. Fails if other users may change an existing
/// one.
pub(crate) fn folder(path: &Path) -> Result<(), KeepError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(KeepError::file(path))?;
    trusted(path)
}
