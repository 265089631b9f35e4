// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cache of fetched kernels and built images. Everything in it can be rebuilt, so it may be
//! deleted at any time.
//!
//! Each built file has a check beside it, `NAME.check`: its length and CRC-32. A file that does
//! not agree with it was damaged after it was made. A guest that boots from a damaged file fails
//! in misleading ways.

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

/// How long a built file is kept after its last use: longer than any campaign of runs.
const KEPT: Duration = Duration::from_hours(7 * 24);
/// The largest total size in bytes: some fifty images, more than are in use at once.
const ROOM: u64 = 2 << 30;
/// The suffix of the check's name.
const CHECK: &str = ".check";

/// A kept file, which no process deletes while this exists.
#[derive(Debug, Clone)]
pub(crate) struct HeldFile {
    path: PathBuf,
    /// The file with a shared lock, if it could be opened.
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

    /// Returns its path; the file may be deleted from now on.
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
    /// Makes a cache in a folder, which is created when it is first needed.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the user's cache. It is `WEIRGATE_CACHE`, or else `weirgate` in `XDG_CACHE_HOME`,
    /// in `~/.cache`, or in the temporary directory.
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

    /// Returns the directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the directory of fetched kernels.
    pub(crate) fn kernels(&self) -> PathBuf {
        self.root.join("kernels")
    }

    /// Returns a directory inside the cache, created if necessary.
    pub(crate) fn directory(&self, name: &str) -> Result<PathBuf, LabError> {
        let path = self.root.join(name);
        fs::create_dir_all(&path).map_err(LabError::file("cannot be made", &path))?;
        Ok(path)
    }

    /// Returns a kept file, or makes it by `make` if it is missing or damaged; `note` is called
    /// for damage. It is written to a temporary file and renamed. Readers therefore see all of
    /// it or nothing, even if two processes make it at once or one is killed.
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
        // Write the check first: without the file it is harmless, and the file is not trusted
        // without it.
        write_whole(&beside, check_of(&content).as_bytes())?;
        write_whole(&path, &content)?;
        let held = HeldFile::at(path);
        forget_old(&directory, ROOM);
        Ok(held)
    }
}

/// Returns the check of a file with this content.
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

/// Marks a kept file as used, by its modification time.
fn used(path: &Path) {
    // If the file cannot be changed, the time of its creation counts.
    let _ = File::options()
        .append(true)
        .open(path)
        .and_then(|file| file.set_modified(SystemTime::now()));
}

/// Deletes files that were used long ago, and the least recently used ones beyond `room` bytes:
/// each build of the guest leaves an image. Files in use stay.
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
            // Another process may already have deleted it.
            let _ = fs::remove_file(beside(&path));
            let _ = fs::remove_file(path);
        }
    }
}

/// Returns whether a process holds a file.
fn is_held(path: &Path) -> bool {
    let file = File::open(path).ok();
    file.is_some_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Returns the path of a file's check.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(CHECK);
    name.into()
}

/// A hash of everything from which a kept file is made.
#[derive(Debug, Default)]
pub(crate) struct Key(Sha256);

impl Key {
    /// Adds a part with its length, so that adjacent parts are distinct.
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
        // Using a file makes it recent again.
        cache
            .keep("d", "a", quiet, || unreachable!("it is kept"))
            .unwrap();
        cache.keep("d", "c", quiet, || Ok(Vec::new())).unwrap();
        assert!(first.exists());
        file.set_modified(long_ago).unwrap();
        cache.keep("d", "b", quiet, || Ok(Vec::new())).unwrap();
        // It is in use.
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
        // The file was made by an older version, or its check is lost.
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
