// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The folders of pins in the BPF file system, and the locks on them.
//!
//! Every user who may open a folder may lock it (flock(2)), so the folders are for their owner
//! alone. Policies and circuits have locks of their own: a list of circuits takes seconds, and the
//! process that applies it may be stopped.

use crate::error::BpfError;
use rustix::fs::{major, minor};
use rustix::process::geteuid;
use std::ffi::CString;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

/// The usual mount point of the BPF file system.
pub(super) const FILE_SYSTEM: &str = "/sys/fs/bpf";

/// The name of weirgate's folder there.
pub(super) const FOLDER: &str = "weirgate";

/// The folder with one folder for each device's circuits; no discipline has this name.
pub(super) const CIRCUITS: &str = "circuits";

/// `BPF_FS_MAGIC` (linux/magic.h).
const MAGIC: rustix::fs::FsWord = 0xcafe_4a11;

const OTHERS: u32 = 0o077;
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// What a lock on pins covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pins {
    /// Everything but circuits: the programs of policies and those of `weirgate aqm`.
    Policies,
    /// The circuits of all devices.
    Circuits,
}

impl Pins {
    /// Returns the folder whose lock it is.
    fn folder(self) -> PathBuf {
        let all = Path::new(FILE_SYSTEM).join(FOLDER);
        match self {
            Self::Policies => all,
            Self::Circuits => all.join(CIRCUITS),
        }
    }

    /// Opens the folder without locking it. Creates it if necessary, and mounts the BPF file
    /// system.
    pub(super) fn open(self) -> Result<File, BpfError> {
        let root = Path::new(FILE_SYSTEM);
        if !is_mounted(root).map_err(failed(root, "opened"))? {
            mount(root).map_err(failed(root, "mounted"))?;
        }
        let above = fs::metadata(root).map_err(failed(root, "opened"))?;
        let may_write = above.mode() & OTHERS_WRITE != 0 && above.mode() & STICKY == 0;
        trusted(root, &above, may_write)?;
        let all = own(&root.join(FOLDER))?;
        match self {
            Self::Policies => Ok(all),
            Self::Circuits => own(&self.folder()),
        }
    }

    /// Returns the error of a lock that is held, with its holder.
    pub(super) fn held(self) -> BpfError {
        let path = self.folder();
        let holder = holder(&path);
        BpfError::Held {
            path,
            holder: holder.unwrap_or_else(|| "another process".to_owned()),
        }
    }
}

/// Opens a folder of this user alone, and creates it if necessary. A folder that others may read,
/// as earlier versions made it, gets mode 0700.
fn own(path: &Path) -> Result<File, BpfError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(failed(path, "made")(error));
        }
        _ => {}
    }
    let mut open = OpenOptions::new();
    let open = open
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_DIRECTORY);
    let file = open.open(path).map_err(failed(path, "opened"))?;
    let found = file.metadata().map_err(failed(path, "opened"))?;
    trusted(path, &found, found.mode() & OTHERS_WRITE != 0)?;
    if found.mode() & OTHERS != 0 {
        let closed = file.set_permissions(Permissions::from_mode(0o700));
        closed.map_err(failed(path, "closed to others"))?;
    }
    Ok(file)
}

/// Refuses a folder of another user than root and this one, or one that others `may_write`.
fn trusted(path: &Path, found: &Metadata, may_write: bool) -> Result<(), BpfError> {
    let owner = found.uid();
    let wrong = if owner != 0 && owner != geteuid().as_raw() {
        format!("belongs to user {owner}")
    } else if may_write {
        format!(
            "may be written by others (mode {:04o})",
            found.mode() & 0o7777
        )
    } else {
        return Ok(());
    };
    Err(BpfError::Untrusted {
        path: path.to_owned(),
        wrong,
    })
}

/// Returns which process has locked a folder, by /proc/locks.
fn holder(path: &Path) -> Option<String> {
    let found = fs::metadata(path).ok()?;
    let (device, inode) = (found.dev(), found.ino());
    let which = format!("{:02x}:{:02x}:{inode}", major(device), minor(device));
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let process = locks.lines().find_map(|line| of_lock(line, &which))?;
    let command = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let words = command.split(|byte| *byte == 0).take(4);
    let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
    Some(format!(
        "process {process} (`{}`)",
        words.join(" ").trim_end()
    ))
}

/// Returns the process of a line of /proc/locks if it holds the lock of flock(2) on this file
/// (`lock_get_status` of fs/locks.c).
fn of_lock<'l>(line: &'l str, which: &str) -> Option<&'l str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        [_, "FLOCK", _, _, process, file, ..] if file == which => Some(process),
        _ => None,
    }
}

/// Makes the error of a file operation, for `map_err`.
pub(super) fn failed(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> BpfError {
    let path = path.to_owned();
    move |source| BpfError::File {
        path,
        doing,
        source,
    }
}

/// Returns whether a path is in a BPF file system.
fn is_mounted(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    Ok(rustix::fs::fstatfs(&file)?.f_type == MAGIC)
}

fn mount(path: &Path) -> io::Result<()> {
    let target = CString::new(path.as_os_str().as_bytes())?;
    let kind = c"bpf";
    // Without it, every user may create folders there (`bpf_init_fs_context`, kernel/bpf/inode.c).
    let options = c"mode=0700";
    #[expect(unsafe_code, reason = "std has no mount")]
    // SAFETY: the four strings are terminated by zero and live until the call returns.
    let status = unsafe {
        libc::mount(
            kind.as_ptr(),
            target.as_ptr(),
            kind.as_ptr(),
            libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC,
            options.as_ptr().cast(),
        )
    };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::TryLockError;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_folder_is_for_its_owner_alone() {
        let all = tempfile::tempdir().unwrap();
        let folder = all.path().join("weirgate");
        own(&folder).unwrap();
        assert_eq!(mode(&folder), 0o700);
        // As an earlier version made it.
        set(&folder, 0o755);
        own(&folder).unwrap();
        assert_eq!(mode(&folder), 0o700);
        set(&folder, 0o777);
        let refused = own(&folder).unwrap_err().to_string();
        assert!(
            refused.contains("may be written by others (mode 0777)"),
            "{refused}"
        );
        let link = all.path().join("link");
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        set(&folder, 0o700);
        assert!(own(&link).is_err(), "a link is followed");
    }

    #[test]
    fn a_folder_of_another_user_is_refused() {
        let all = tempfile::tempdir().unwrap();
        let found = fs::metadata(all.path()).unwrap();
        trusted(all.path(), &found, false).unwrap();
        // The folders of process 1's user are root's here, and anybody's to use.
        let root = fs::metadata("/").unwrap();
        trusted(Path::new("/"), &root, false).unwrap();
        if geteuid().is_root() {
            std::os::unix::fs::chown(all.path(), Some(4_711), None).unwrap();
            let found = fs::metadata(all.path()).unwrap();
            let refused = trusted(all.path(), &found, false).unwrap_err().to_string();
            assert!(refused.contains("belongs to user 4711"), "{refused}");
        }
    }

    #[test]
    fn the_holder_of_a_lock_is_named() {
        let all = tempfile::tempdir().unwrap();
        let (first, second) = (own(all.path()).unwrap(), own(all.path()).unwrap());
        assert_eq!(holder(all.path()), None);
        first.try_lock().unwrap();
        assert!(matches!(second.try_lock(), Err(TryLockError::WouldBlock)));
        let named = holder(all.path()).unwrap();
        let expected = format!("process {} (`", std::process::id());
        assert!(named.starts_with(&expected), "{named}");
        let waits = "7: -> FLOCK  ADVISORY  WRITE 9 00:20:5 0 EOF";
        assert_eq!(of_lock(waits, "00:20:5"), None);
        assert_eq!(of_lock(&waits.replace("-> ", ""), "00:20:5"), Some("9"));
    }
}
