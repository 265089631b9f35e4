// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file of a device's list: a sealed list, followed by one line for each circuit that was
//! changed since.
//!
//! A list is written under another name and then renamed, so the file always has either the old
//! list or the new one. A line is appended and flushed. A line that a crash cut off has no newline,
//! and is ignored. `rescue` reads a damaged file.

use crate::error::KeepError;
use crate::store::folder::{Folders, folder};
use crate::store::sealed::{self, Sum};
use rustix::fs::OFlags;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{ErrorKind, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use weirgate_circuits::kept::Kept;
use weirgate_state::DeviceName;
use weirgate_units::Arrange as _;

/// The folder of the lists, below the state folder.
pub(super) const FOLDER: &str = "circuits";
const ENDS: &str = ".list";
const FORMER: &str = ".former";

/// The advice for a damaged file.
pub(super) const HINT: &str = "apply the list again, or remove the file";

/// The list is written again when the appended changes exceed this many bytes plus a sixteenth of
/// the list. Every change of a circuit has to search all appended lines.
const CHANGES: usize = 1 << 16;

/// The list file of one device.
#[derive(Debug)]
pub(super) struct ListFile {
    path: PathBuf,
}

/// The contents of a list file.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) list: String,
    /// The offset in the file at which changes begin.
    pub(super) sealed: usize,
    /// The changes: complete lines only.
    pub(super) changes: String,
}

impl Text {
    /// Returns whether the changes are so long that the whole list should be written again.
    pub(super) fn is_long(&self) -> bool {
        self.changes.len() > CHANGES + self.list.len() / 16
    }
}

/// The identity of a file when it was last read. While this exists, its inode number cannot be
/// given to another file.
#[derive(Debug)]
pub(super) struct Stamp {
    /// An open descriptor keeps the inode number from being reused.
    _file: File,
    what: [i64; 5],
}

impl Stamp {
    fn of(file: &Metadata) -> [i64; 5] {
        [
            file.dev() as i64,
            file.ino() as i64,
            file.len() as i64,
            file.mtime(),
            file.mtime_nsec(),
        ]
    }
}

/// Returns the devices for which a list is stored.
pub(super) fn devices(folders: &Folders) -> Result<Vec<DeviceName>, KeepError> {
    let path = folders.state.join(FOLDER);
    let entries = match fs::read_dir(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(KeepError::file(&path))?,
    };
    let mut devices = Vec::new();
    for entry in entries {
        let name = entry.map_err(KeepError::file(&path))?.file_name();
        let device = name.to_str().and_then(|name| name.strip_suffix(ENDS));
        devices.extend(device.and_then(DeviceName::new));
    }
    devices.arrange();
    Ok(devices)
}

impl ListFile {
    pub(super) fn of(folders: &Folders, device: &DeviceName) -> Self {
        Self {
            path: Self::beside(folders, device, ENDS),
        }
    }

    /// Returns the file of the former list, which `rollback` restores.
    fn former(folders: &Folders, device: &DeviceName) -> Self {
        Self {
            path: Self::beside(folders, device, FORMER),
        }
    }

    /// Keeps the present list as the former one too, by a hard link. Returns whether there is a
    /// list. A new list is renamed over the old name, so the link keeps the old contents.
    pub(super) fn keep_former(folders: &Folders, device: &DeviceName) -> Result<bool, KeepError> {
        let (own, former) = (Self::of(folders, device), Self::former(folders, device));
        former.remove()?;
        match fs::hard_link(&own.path, &former.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            other => other.map_err(KeepError::file(&former.path))?,
        }
        sealed::flush(former.path.parent().unwrap_or(&former.path))?;
        own.link_copy(&former);
        Ok(true)
    }

    /// Returns whether the present list is still the former one.
    pub(super) fn is_former(folders: &Folders, device: &DeviceName) -> bool {
        let file = |own: Self| {
            fs::metadata(own.path)
                .ok()
                .map(|file| (file.dev(), file.ino()))
        };
        let former = file(Self::former(folders, device));
        former.is_some() && former == file(Self::of(folders, device))
    }

    /// Returns the path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the former list, if there still is one.
    pub(super) fn read_former(
        folders: &Folders,
        device: &DeviceName,
    ) -> Result<Option<Kept>, KeepError> {
        let sound = Self::former(folders, device).sound()?;
        Ok(sound.map(|(kept, _)| kept))
    }

    /// Replaces the present list by the former one.
    pub(super) fn put_former(folders: &Folders, device: &DeviceName) -> Result<(), KeepError> {
        let (own, former) = (Self::of(folders, device), Self::former(folders, device));
        // The copy is of the list that is taken back.
        own.drop_copy()?;
        sealed::publish(&former.path, &own.path)?;
        own.take_copy(&former);
        Ok(())
    }

    /// Deletes the former list.
    pub(super) fn drop_former(folders: &Folders, device: &DeviceName) -> Result<(), KeepError> {
        let former = Self::former(folders, device);
        former.remove()?;
        former.drop_copy()
    }

    /// Returns the path of the device's file with this suffix.
    pub(super) fn beside(folders: &Folders, device: &DeviceName, ends: &str) -> PathBuf {
        folders.state.join(FOLDER).join(format!("{device}{ends}"))
    }

    /// Reads the file; `None` if it does not exist. Without `verify`, a damaged list is not
    /// detected, which takes less time.
    pub(super) fn read(&self, verify: bool) -> Result<Option<Text>, KeepError> {
        let bytes = match fs::read(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.map_err(KeepError::file(&self.path))?,
        };
        let text = |bytes: &[u8]| {
            let text = std::str::from_utf8(bytes).map(str::to_owned);
            text.map_err(|_| "it is no text".to_owned())
        };
        let read = sealed::parts(&bytes, verify).and_then(|(list, behind)| {
            let sealed = bytes.len() - behind.len();
            let whole = behind.iter().rposition(|byte| *byte == b'\n');
            let behind = behind.get(..whole.map_or(0, |at| at + 1));
            Ok(Text {
                list: text(list)?,
                sealed,
                changes: text(behind.unwrap_or_default())?,
            })
        });
        read.map(Some).map_err(|why| self.damaged(why))
    }

    /// Parses a list and the changes that follow it.
    pub(super) fn whole(&self, list: &str, changes: &str) -> Result<Kept, KeepError> {
        Kept::read(list, changes).map_err(|why| self.damaged(why))
    }

    /// Returns the present identity of the file; `None` if it does not exist.
    pub(super) fn stamp(&self) -> Result<Option<Stamp>, KeepError> {
        let failed = |source| KeepError::file(&self.path)(source);
        let file = match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.map_err(failed)?,
        };
        let what = Stamp::of(&file.metadata().map_err(failed)?);
        Ok(Some(Stamp { _file: file, what }))
    }

    /// Returns whether the file is still the one that was stamped.
    pub(super) fn is(&self, stamp: &Stamp) -> bool {
        fs::metadata(&self.path).is_ok_and(|file| Stamp::of(&file) == stamp.what)
    }

    /// Returns when the file was created and when it was last changed, in seconds since 1970, as
    /// far as the file system records it.
    pub(super) fn times(&self) -> (Option<u64>, Option<u64>) {
        let file = fs::metadata(&self.path).ok();
        let made = file.as_ref().and_then(|file| file.created().ok());
        let made = made.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let changed = file.and_then(|file| u64::try_from(file.mtime()).ok());
        (made.map(|time| time.as_secs()), changed)
    }

    /// Returns the error for damaged contents.
    pub(super) fn damaged(&self, why: String) -> KeepError {
        KeepError::Damaged {
            path: self.path.clone(),
            why,
            hint: HINT,
        }
    }

    /// Writes a list under another name; [`Aside::publish`] renames it over the former list.
    pub(super) fn write(&self, list: &str) -> Result<Aside<'_>, KeepError> {
        folder(self.path.parent().unwrap_or(&self.path))?;
        let (aside, length) = sealed::write_aside(&self.path, list.as_bytes(), Sum::Crc32)?;
        Ok(Aside {
            file: self,
            path: Some(aside),
            length,
        })
    }

    /// Appends the line of one change.
    pub(super) fn append(&self, text: &Text, line: &str) -> Result<(), KeepError> {
        let added = || -> std::io::Result<()> {
            let mut open = OpenOptions::new();
            let open = open
                .write(true)
                .custom_flags(OFlags::NOFOLLOW.bits() as i32);
            let mut file = open.open(&self.path)?;
            let whole = (text.sealed + text.changes.len()) as u64;
            // Removes a line that a crash cut off.
            file.set_len(whole)?;
            file.seek(SeekFrom::Start(whole))?;
            file.write_all(line.as_bytes())?;
            file.sync_data()
        };
        added().map_err(KeepError::file(&self.path))
    }

    /// Removes the file. Returns whether it existed.
    pub(super) fn remove(&self) -> Result<bool, KeepError> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            other => {
                other.map_err(KeepError::file(&self.path))?;
                let folder = self.path.parent().unwrap_or(&self.path);
                sealed::flush(folder)?;
                Ok(true)
            }
        }
    }
}

/// A list that is written but not yet renamed into place. It is deleted when dropped.
#[derive(Debug)]
pub(super) struct Aside<'f> {
    file: &'f ListFile,
    path: Option<PathBuf>,
    length: usize,
}

impl Aside<'_> {
    /// Renames it into place, and copies it. Returns its length: bytes behind it are changes.
    pub(super) fn publish(mut self) -> Result<usize, KeepError> {
        if let Some(aside) = self.path.take() {
            sealed::publish(&aside, &self.file.path)?;
            self.file.write_copy();
        }
        Ok(self.length)
    }
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        if let Some(aside) = &self.path {
            // Best effort: the next list overwrites a remaining file.
            let _ = fs::remove_file(aside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_circuits::Direction;

    fn folders(state: &Path) -> Folders {
        Folders {
            run: state.to_owned(),
            state: state.to_owned(),
            boot: String::new(),
        }
    }

    #[test]
    fn a_list_and_its_changes_are_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let folders = folders(folder.path());
        let device = DeviceName::new("access0.7").unwrap();
        let file = ListFile::of(&folders, &device);
        assert!(file.read(true).unwrap().is_none());
        assert_eq!(devices(&folders).unwrap(), []);
        // A list that is not published does not become the file.
        drop(file.write("first").unwrap());
        assert!(file.read(true).unwrap().is_none());
        file.write("first\nlist").unwrap().publish().unwrap();
        assert_eq!(devices(&folders).unwrap(), [device]);
        for line in ["one\n", "two\n"] {
            let text = file.read(true).unwrap().unwrap();
            file.append(&text, line).unwrap();
        }
        let text = file.read(true).unwrap().unwrap();
        assert_eq!((&*text.list, &*text.changes), ("first\nlist", "one\ntwo\n"));
        // A line that was cut off is ignored, and the next one takes its place.
        let whole = fs::read(&file.path).unwrap();
        fs::write(&file.path, [&*whole, b"thr"].concat()).unwrap();
        let text = file.read(true).unwrap().unwrap();
        assert_eq!(text.changes, "one\ntwo\n");
        file.append(&text, "3\n").unwrap();
        assert_eq!(fs::read(&file.path).unwrap(), [&*whole, b"3\n"].concat());
        // A new list begins without changes; a damaged one is detected.
        file.write("second").unwrap().publish().unwrap();
        assert_eq!(file.read(true).unwrap().unwrap().changes, "");
        let text = String::from_utf8(fs::read(&file.path).unwrap()).unwrap();
        fs::write(&file.path, text.replace("second", "secomd")).unwrap();
        let error = file.read(true).unwrap_err().to_string();
        assert!(error.contains("checksum"), "{error}");
        assert!(file.remove().unwrap() && !file.remove().unwrap());
    }
    #[test]
    fn the_former_list_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let folders = folders(folder.path());
        let device = DeviceName::new("access0").unwrap();
        let list = |direction| {
            let kept = Kept {
                direction,
                link: None,
                queues: None,
                list: weirgate_circuits::List::default(),
            };
            kept.write()
        };
        let [down, up] = [Direction::Down, Direction::Up];
        assert!(super::folder(&folders.state.join(FOLDER)).is_ok());
        assert!(!ListFile::keep_former(&folders, &device).unwrap());
        let file = ListFile::of(&folders, &device);
        file.write(&list(down)).unwrap().publish().unwrap();
        assert!(ListFile::keep_former(&folders, &device).unwrap());
        assert!(ListFile::is_former(&folders, &device));
        file.write(&list(up)).unwrap().publish().unwrap();
        assert!(!ListFile::is_former(&folders, &device));
        let former = || ListFile::read_former(&folders, &device).unwrap();
        assert!(former().is_some_and(|kept| kept.direction == down));
        assert_eq!(devices(&folders).unwrap(), std::slice::from_ref(&device));
        ListFile::put_former(&folders, &device).unwrap();
        assert!(former().is_none());
        assert_eq!(file.read(true).unwrap().unwrap().list, list(down));
        // Both names are one file again.
        ListFile::keep_former(&folders, &device).unwrap();
        ListFile::put_former(&folders, &device).unwrap();
        ListFile::drop_former(&folders, &device).unwrap();
        assert_eq!(file.read(true).unwrap().unwrap().list, list(down));
    }
}
