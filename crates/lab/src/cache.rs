// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cache of fetched kernels and built images. Everything in it can be rebuilt, so it may be
//! deleted at any time.
//!
//! Beside each built file stands its check, `NAME.check`: its length and
//! CRC-32. A file that does not agree with it was damaged after it was made;
//! a guest that boots from one fails in ways that point anywhere but there.

use crate::error::LabError;
use sha2::{Digest, Sha256};
use std::env;
use std::fmt::Write as _;
use std::fs::{self, File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tempfile::NamedTempFile;

/// How long a built file is kept after its last use: longer than any campaign
/// of runs lasts.
const KEPT: Duration = Duration::from_hours(7 * 24);
/// How much is kept, in bytes: some fifty images, more than are in use at once.
const ROOM: u64 = 2 << 30;
/// What the name of a file's check ends with.
const CHECK: &str = ".check";

/// A kept file. It is not forgotten, by whichever process, while this is there.
#[derive(Debug, Clone)]
pub(crate) struct HeldFile {
    path: PathBuf,
    /// With a shared lock, where the file may be opened.
    _held: Option<Arc<File>>,
}

impl HeldFile {
    fn at(path: PathBuf) -> Self {
        let file = File::open(&path).ok();
        let held = file.filter(|file| file.try_lock_shared().is_ok());
        Self {
            path,
            _held: held.map(Arc::new),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its path alone; it may be forgotten from now on.
    pub(crate) fn into_path(self) -> PathBuf {
        self.path
    }
}

/// A cache directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// A cache at a given folder, made when something is first kept there.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The user's cache: `WEIRGATE_CACHE`, else `weirgate` in
    /// `XDG_CACHE_HOME`, else in `~/.cache`, else in the temporary directory.
    #[must_use]
    pub fn of_user() -> Self {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty());
        if let Some(root) = set("WEIRGATE_CACHE") {
            return Self::at(root);
        }
        let base = set("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| set("HOME").map(|home| Path::new(&home).join(".cache")))
            .unwrap_or_else(env::temp_dir);
        Self::at(base.join("weirgate"))
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where fetched kernels are.
    pub(crate) fn kernels(&self) -> PathBuf {
        self.root.join("kernels")
    }

    /// A directory inside the cache, made if need be.
    pub(crate) fn directory(&self, name: &str) -> Result<PathBuf, LabError> {
        let path = self.root.join(name);
        fs::create_dir_all(&path).map_err(LabError::file("cannot be made", &path))?;
        Ok(path)
    }

    /// A file made by `make` unless it is kept already, and whole; `note` is
    /// called for one that is damaged. Written aside and then renamed: a reader
    /// sees all of it or none, also when two processes make it at once or one
    /// is killed.
    pub(crate) fn keep(
        &self,
        directory: &str,
        name: &str,
        note: &mut dyn FnMut(&str),
        make: impl FnOnce() -> Result<Vec<u8>, LabError>,
    ) -> Result<HeldFile, LabError> {
        let directory = self.directory(directory)?;
        let path = directory.join(name);
        let beside = beside(&path);
        let held = HeldFile::at(path.clone());
        if let Ok(content) = fs::read(&path) {
            match fs::read_to_string(&beside) {
                Ok(check) if check == check_of(&content) => {
                    used(&path);
                    return Ok(held);
                }
                Ok(_) => note(&format!("{} is damaged and is made again", path.display())),
                Err(_) => note(&format!(
                    "{} has no readable check beside it and is made again",
                    path.display()
                )),
            }
        }
        let content = make()?;
        // The check first: without the file it means nothing, and the file
        // without it is not trusted.
        write_whole(&beside, check_of(&content).as_bytes())?;
        write_whole(&path, &content)?;
        let held = HeldFile::at(path);
        forget_old(&directory, ROOM);
        Ok(held)
    }
}

/// What stands beside a file with this content.
fn check_of(content: &[u8]) -> String {
    format!("{} {:08x}\n", content.len(), crc32fast::hash(content))
}

fn write_whole(path: &Path, content: &[u8]) -> Result<(), LabError> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file =
        NamedTempFile::new_in(directory).map_err(LabError::file("cannot be written", directory))?;
    file.write_all(content)
        .map_err(LabError::file("cannot be written", path))?;
    file.persist(path)
        .map_err(|error| LabError::file("cannot be written", path)(error.error))?;
    Ok(())
}

/// Notes that a kept file was used just now, by its time.
fn used(path: &Path) {
    // Of a file that is not ours to change, the time it was made serves.
    let _ = File::options()
        .append(true)
        .open(path)
        .and_then(|file| file.set_modified(SystemTime::now()));
}

/// Deletes files used long ago, and those used last of what is more than
/// `room` bytes: each build of the guest leaves an image. A file that is held stays.
fn forget_old(directory: &Path, room: u64) {
    let mut files: Vec<(SystemTime, u64, PathBuf)> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| !entry.file_name().to_string_lossy().ends_with(CHECK))
        .filter_map(|entry| {
            let file = entry.metadata().ok()?;
            Some((file.modified().ok()?, file.len(), entry.path()))
        })
        .collect();
    files.sort_by(|one, other| other.cmp(one));
    let mut kept = 0_u64;
    for (used, length, path) in files {
        kept = kept.saturating_add(length);
        let old = kept > room || used.elapsed().is_ok_and(|age| age > KEPT);
        if old && !is_held(&path) {
            // Another process may have deleted it first.
            let _ = fs::remove_file(beside(&path));
            let _ = fs::remove_file(path);
        }
    }
}

/// Whether a process holds a file.
fn is_held(path: &Path) -> bool {
    let file = File::open(path).ok();
    file.is_some_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Where a file's check stands.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(CHECK);
    name.into()
}

/// Names what a kept file was made from.
#[derive(Debug, Default)]
pub(crate) struct Key(Sha256);

impl Key {
    /// Adds one part; its length goes in too, so that parts cannot run
    /// together.
    pub(crate) fn add(&mut self, part: &[u8]) {
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
    }

    /// The key as a file name.
    pub(crate) fn name(self) -> String {
        let digest = self.0.finalize();
        digest[..16].iter().fold(String::new(), |mut name, byte| {
            // Writing to a string cannot fail.
            let _ = write!(name, "{byte:02x}");
            name
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_made_once_and_forgotten_late() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path());
        let quiet = &mut |note: &str| unreachable!("{note}");
        let made = cache.keep("d", "a", quiet, || Ok(b"one".to_vec()));
        let first = made.unwrap().into_path();
        let kept = cache.keep("d", "a", quiet, || unreachable!("it is kept"));
        let kept = kept.unwrap();
        assert_eq!(kept.path(), first);
        assert_eq!(fs::read(&first).unwrap(), b"one");
        let long_ago = SystemTime::now() - KEPT - KEPT;
        let file = File::options().append(true).open(&first).unwrap();
        file.set_modified(long_ago).unwrap();
        // One that is used is young again.
        cache
            .keep("d", "a", quiet, || unreachable!("it is kept"))
            .unwrap();
        cache.keep("d", "c", quiet, || Ok(Vec::new())).unwrap();
        assert!(first.exists());
        file.set_modified(long_ago).unwrap();
        cache.keep("d", "b", quiet, || Ok(Vec::new())).unwrap();
        // It is held.
        assert!(first.exists());
        drop(kept);
        cache.keep("d", "e", quiet, || Ok(Vec::new())).unwrap();
        assert!(!first.exists());
        let left = fs::read_dir(folder.path().join("d")).unwrap().flatten();
        let mut left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        left.sort();
        assert_eq!(left, ["b", "b.check", "c", "c.check", "e", "e.check"]);
    }

    #[test]
    fn what_is_used_last_is_kept_where_room_is_short() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (age, name) in [(3, "oldest"), (1, "newest"), (2, "middle")] {
            for file in [at(name), beside(&at(name))] {
                fs::write(&file, [0; 10]).unwrap();
                let file = File::options().append(true).open(file).unwrap();
                let then = SystemTime::now() - Duration::from_mins(age);
                file.set_modified(then).unwrap();
            }
        }
        forget_old(folder.path(), 25);
        for (name, kept) in [("newest", true), ("middle", true), ("oldest", false)] {
            assert_eq!(at(name).exists(), kept, "{name}");
            assert_eq!(beside(&at(name)).exists(), kept, "{name}");
        }
    }

    #[test]
    fn a_damaged_file_is_told_and_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path());
        let whole = b"what a guest boots from".to_vec();
        let keep = || {
            let mut notes = Vec::new();
            let note = &mut |note: &str| notes.push(note.to_owned());
            let kept = cache.keep("d", "a", note, || Ok(whole.clone())).unwrap();
            let path = kept.into_path();
            assert_eq!(fs::read(&path).unwrap(), whole);
            (path, notes)
        };
        let (path, notes) = keep();
        assert_eq!(notes, Vec::<String>::new());
        let mut turned = whole.clone();
        turned[3] ^= 1;
        let longer = [&whole[..], b"!"].concat();
        for damaged in [&b""[..], &whole[..whole.len() - 1], &turned, &longer] {
            fs::write(&path, damaged).unwrap();
            let (_, notes) = keep();
            assert_eq!(notes.len(), 1);
            assert!(notes[0].contains("d/a is damaged"), "{notes:?}");
            assert_eq!(keep().1, Vec::<String>::new());
        }
        // One that an older weirgate made, or whose check is lost.
        fs::remove_file(path.with_file_name("a.check")).unwrap();
        assert!(keep().1[0].contains("no readable check"));
        assert_eq!(keep().1, Vec::<String>::new());
    }

    #[test]
    fn a_failed_making_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let failed = Cache::at(folder.path()).keep("d", "a", &mut |_| (), || {
            Err(LabError::Fetch {
                reason: "no".into(),
            })
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_dir(folder.path().join("d")).unwrap().count(), 0);
    }

    #[test]
    fn keys_do_not_run_together() {
        let key = |parts: &[&[u8]]| {
            let mut key = Key::default();
            for part in parts {
                key.add(part);
            }
            key.name()
        };
        assert_ne!(key(&[b"ab", b"c"]), key(&[b"a", b"bc"]));
        assert_eq!(key(&[b"ab"]).len(), 32);
    }
}
