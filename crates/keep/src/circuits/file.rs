// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file of a device's list: sealed, and behind the seal a line for each circuit
//! that was changed since.
//!
//! A list is written aside and renamed, so that the old one is there or the new one. A
//! line is appended and flushed; one that was cut off by a crash has no end, and is
//! none.

use crate::error::KeepError;
use crate::store::folder::{Folders, folder};
use crate::store::sealed::{self, Sum};
use rustix::fs::OFlags;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{ErrorKind, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::time::UNIX_EPOCH;
use weirgate_circuits::kept::Kept;
use weirgate_state::DeviceName;
use weirgate_units::Arrange as _;

/// The folder below that of applied states, and how names of files end.
pub(super) const FOLDER: &str = "circuits";
const ENDS: &str = ".list";
const FORMER: &str = ".former";

/// What to do with a damaged file.
const HINT: &str = "apply the list again, or remove the file";

/// So many bytes of changes are kept apart, and a sixteenth of the list: looking at
/// them takes each change some time.
const CHANGES: usize = 1 << 16;

/// The file of one device.
#[derive(Debug)]
pub(super) struct ListFile {
    path: PathBuf,
}

/// What a file has.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) list: String,
    /// Where changes begin in the file.
    pub(super) sealed: usize,
    /// Whole lines.
    pub(super) changes: String,
}

impl Text {
    /// Whether so much was changed that the list is better written anew.
    pub(super) fn is_long(&self) -> bool {
        self.changes.len() > CHANGES + self.list.len() / 16
    }
}

/// What a file was when it was last looked at. As long as this is there, no other file has its
/// number.
#[derive(Debug)]
pub(super) struct Stamp {
    /// Keeps the number from being another's.
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

/// The devices that a list is kept of.
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

    /// That of the list before the one that is kept.
    fn former(folders: &Folders, device: &DeviceName) -> Self {
        Self {
            path: Self::beside(folders, device, FORMER),
        }
    }

    /// Keeps the list as the former one, too; whether there is one. Another list is renamed
    /// over it, so the former one is the file that it is now.
    pub(super) fn keep_former(folders: &Folders, device: &DeviceName) -> Result<bool, KeepError> {
        let (own, former) = (Self::of(folders, device), Self::former(folders, device));
        former.remove()?;
        match fs::hard_link(&own.path, &former.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            other => other.map_err(KeepError::file(&former.path))?,
        }
        sealed::flush(former.path.parent().unwrap_or(&former.path))?;
        Ok(true)
    }

    /// Whether the list is still the former one.
    pub(super) fn is_former(folders: &Folders, device: &DeviceName) -> bool {
        let file = |own: Self| {
            fs::metadata(own.path)
                .ok()
                .map(|file| (file.dev(), file.ino()))
        };
        let former = file(Self::former(folders, device));
        former.is_some() && former == file(Self::of(folders, device))
    }

    /// The former list, where there still is one.
    pub(super) fn read_former(
        folders: &Folders,
        device: &DeviceName,
    ) -> Result<Option<Kept>, KeepError> {
        let former = Self::former(folders, device);
        let text = former.read(true)?;
        text.map(|text| former.whole(&text.list, &text.changes))
            .transpose()
    }

    /// Puts the former list in the place of the one that is kept.
    pub(super) fn put_former(folders: &Folders, device: &DeviceName) -> Result<(), KeepError> {
        sealed::publish(
            &Self::former(folders, device).path,
            &Self::of(folders, device).path,
        )
    }

    /// Keeps no former list any more.
    pub(super) fn drop_former(folders: &Folders, device: &DeviceName) -> Result<(), KeepError> {
        Self::former(folders, device).remove().map(drop)
    }

    /// The path of another file of the device, whose name ends so.
    pub(super) fn beside(folders: &Folders, device: &DeviceName, ends: &str) -> PathBuf {
        folders.state.join(FOLDER).join(format!("{device}{ends}"))
    }

    /// Reads it; `None` where there is none. Without `verify` a damaged list is not
    /// found, which takes less time.
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

    /// The list of such a text.
    pub(super) fn whole(&self, list: &str, changes: &str) -> Result<Kept, KeepError> {
        Kept::read(list, changes).map_err(|why| self.damaged(why))
    }

    /// What it is now; `None` where it is not there.
    pub(super) fn stamp(&self) -> Result<Option<Stamp>, KeepError> {
        let failed = |source| KeepError::file(&self.path)(source);
        let file = match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.map_err(failed)?,
        };
        let what = Stamp::of(&file.metadata().map_err(failed)?);
        Ok(Some(Stamp { _file: file, what }))
    }

    /// Whether it still is what it was.
    pub(super) fn is(&self, stamp: &Stamp) -> bool {
        fs::metadata(&self.path).is_ok_and(|file| Stamp::of(&file) == stamp.what)
    }

    /// When it was made, and when it was changed last, in seconds since 1970; as far as its file
    /// system tells.
    pub(super) fn times(&self) -> (Option<u64>, Option<u64>) {
        let file = fs::metadata(&self.path).ok();
        let made = file.as_ref().and_then(|file| file.created().ok());
        let made = made.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let changed = file.and_then(|file| u64::try_from(file.mtime()).ok());
        (made.map(|time| time.as_secs()), changed)
    }

    /// What is wrong with what it has.
    pub(super) fn damaged(&self, why: String) -> KeepError {
        KeepError::Damaged {
            path: self.path.clone(),
            why,
            hint: HINT,
        }
    }

    /// Writes a list aside; [`Aside::publish`] puts it in the place of the one before.
    pub(super) fn write(&self, list: &str) -> Result<Aside<'_>, KeepError> {
        folder(self.path.parent().unwrap_or(&self.path))?;
        let (aside, length) = sealed::write_aside(&self.path, list.as_bytes(), Sum::Crc32)?;
        Ok(Aside {
            file: self,
            path: Some(aside),
            length,
        })
    }

    /// Adds a line of a change.
    pub(super) fn append(&self, text: &Text, line: &str) -> Result<(), KeepError> {
        let added = || -> std::io::Result<()> {
            let mut open = OpenOptions::new();
            let open = open
                .write(true)
                .custom_flags(OFlags::NOFOLLOW.bits() as i32);
            let mut file = open.open(&self.path)?;
            let whole = (text.sealed + text.changes.len()) as u64;
            // What a crash cut off.
            file.set_len(whole)?;
            file.seek(SeekFrom::Start(whole))?;
            file.write_all(line.as_bytes())?;
            file.sync_data()
        };
        added().map_err(KeepError::file(&self.path))
    }

    /// Removes it, if it is there; whether it was.
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

/// A list that is written and not in its place yet; it goes where it is not put there.
#[derive(Debug)]
pub(super) struct Aside<'f> {
    file: &'f ListFile,
    path: Option<PathBuf>,
    length: usize,
}

impl Aside<'_> {
    /// Puts it in its place. Returned is how long it is there: what stands behind that is a
    /// change.
    pub(super) fn publish(mut self) -> Result<usize, KeepError> {
        if let Some(aside) = self.path.take() {
            sealed::publish(&aside, &self.file.path)?;
        }
        Ok(self.length)
    }
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        if let Some(aside) = &self.path {
            // What is left is written over by the next.
            let _ = fs::remove_file(aside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_circuits::Direction;

    fn folders(state: &std::path::Path) -> Folders {
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
        // What is not put in its place is not there.
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
        // A line that was cut off is none, and the next takes its place.
        let whole = fs::read(&file.path).unwrap();
        fs::write(&file.path, [&*whole, b"thr"].concat()).unwrap();
        let text = file.read(true).unwrap().unwrap();
        assert_eq!(text.changes, "one\ntwo\n");
        file.append(&text, "3\n").unwrap();
        assert_eq!(fs::read(&file.path).unwrap(), [&*whole, b"3\n"].concat());
        // Another list begins without changes; a damaged one is found.
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
        // Two names of one file are one again.
        ListFile::keep_former(&folders, &device).unwrap();
        ListFile::put_former(&folders, &device).unwrap();
        ListFile::drop_former(&folders, &device).unwrap();
        assert_eq!(file.read(true).unwrap().unwrap().list, list(down));
    }
}
