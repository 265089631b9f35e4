// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The folders where weirgate stores files, and the lock against a second writer.
//!
//! `/run/weirgate` speaks of the running kernel and ends with it;
//! `/var/lib/weirgate` (or the folder that the caller names) outlives it. Both
//! are apart for each network namespace: devices of one name in two namespaces
//! are two devices. The namespace of process 1, which is there again after
//! every boot, has the folder itself. One that has a name (`ip netns`) has
//! `netns-NAME` in it. Any other has `net-NUMBER-BOOT`, by the kernel's number
//! of the namespace. The kernel uses that number again after a restart, for any
//! namespace, so it says nothing without the run of the kernel.

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
/// Where history is kept unless the caller says otherwise.
pub const STATE: &str = "/var/lib/weirgate";
/// How long a command waits for another. The largest change takes less.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);
/// How long a service that begins waits for who only asks whether there is one, and how often
/// it looks.
const MOMENT: Duration = Duration::from_millis(500);
const STEP: Duration = Duration::from_millis(10);
const OWN: &str = "/proc/thread-self/ns/net";
const INITIAL: &str = "/proc/1/ns/net";
/// Where namespaces with a name are (ip-netns(8)).
const NAMED: &str = "/run/netns";
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// The folders of one network namespace.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Folders {
    /// What ends with the running kernel.
    pub run: PathBuf,
    /// What outlives it.
    pub state: PathBuf,
    /// Which namespace this is, in which run of the kernel (random(4), `boot_id`).
    pub boot: String,
}

impl Folders {
    /// Those of the calling thread's namespace; the folder that outlives the
    /// kernel is below `state`. Nobody else may change that.
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
            // Before Linux 5.14 nothing better is known than its inode.
            Err(_) => format!("net-inode-{}", own.1),
        };
        // With few capabilities process 1 may not be looked at (ptrace(2)).
        // The namespace that the machine starts with is still known then.
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

    /// Whether what is kept is found again when the machine has restarted. It is not
    /// in a namespace without a name.
    #[must_use]
    pub fn outlive_the_kernel(&self) -> bool {
        !self.state.ends_with(&self.boot)
    }

    /// Keeps two commands from changing the kernel at once; held until
    /// dropped, and let go by the kernel when the process ends in any way.
    pub(crate) fn lock(&self) -> Result<Lock, KeepError> {
        lock_by(self.lock_file(), File::try_lock)
    }

    /// Keeps two programs from holding `links` or `pods` at once: apart from the other lock,
    /// because a service holds it for as long as it runs.
    pub(crate) fn lock_held(&self, what: &'static str) -> Result<Lock, KeepError> {
        let file = self.run.with_extension(format!("{what}-lock"));
        lock_by(file, File::try_lock).map_err(|error| match error {
            KeepError::Busy => KeepError::Held(what),
            other => other,
        })
    }

    /// The same, waiting a moment: whoever asks whether somebody holds them has the lock
    /// meanwhile. Needs a tokio runtime.
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

    /// The same, waiting so long at most. Needs a tokio runtime.
    pub(crate) async fn soon(&self, patience: Duration) -> Result<Lock, KeepError> {
        let waited = tokio::time::timeout(patience, self.lock_when_free()).await;
        waited.unwrap_or(Err(KeepError::Busy))
    }

    /// The same, waiting as long as it takes: the kernel lets go of the lock
    /// when its owner dies. Needs a tokio runtime.
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

    /// The socket at which the guard of this change listens.
    pub(crate) fn guard(&self, number: u64) -> PathBuf {
        self.run.with_extension(format!("guard-{number}"))
    }

    /// The socket at which programs announce sessions of high priority.
    #[must_use]
    pub fn announcements(&self) -> PathBuf {
        self.run.with_extension("announce")
    }

    /// Makes the folder of that socket, through which everybody may pass where
    /// others than root are to reach it; nobody may list it, and what else is
    /// in it stays root's.
    pub(crate) fn passable(others: bool) -> Result<(), KeepError> {
        folder(Path::new(RUN))?;
        if !others {
            return Ok(());
        }
        fs::set_permissions(RUN, Permissions::from_mode(0o711)).map_err(KeepError::file(RUN))
    }
}

/// Takes the lock of a file, which it makes.
fn lock_by(
    path: PathBuf,
    take: impl Fn(&File) -> Result<(), TryLockError>,
) -> Result<Lock, KeepError> {
    loop {
        folder(path.parent().unwrap_or(&path))?;
        // Whoever may open it may lock it.
        let mut open = OpenOptions::new();
        let file = match open.write(true).create(true).mode(0o600).open(&path) {
            Ok(file) => file,
            // The folder went away with the lock of someone who was done.
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

/// The right to change this namespace's kernel state and what is kept of it.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    /// Held for its lock.
    _file: File,
}

impl Drop for Lock {
    /// Takes the file away while the lock on it is held, and the folder where
    /// nothing else is in it. What fails to go is only left behind.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_dir(RUN);
    }
}

/// Whether the locked file still has its name: its last owner may have removed
/// it between opening and locking, and a lock on a file without a name keeps
/// nobody out.
fn named(path: &Path, file: &File) -> bool {
    let same = || Some(file.metadata().ok()?.ino() == fs::metadata(path).ok()?.ino());
    same().unwrap_or(false)
}

/// Makes a folder for root alone, with those above it. One that is there may be
/// nobody else's.
pub(crate) fn folder(path: &Path) -> Result<(), KeepError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(KeepError::file(path))?;
    trusted(path)
}
