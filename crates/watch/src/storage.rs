// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stores the history in a file.

use crate::WatchError;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use weirgate_history::{History, HistoryError, Storage};

/// The file of a history. One process writes it; others may read.
#[derive(Debug)]
pub struct FileStorage(File);

impl Storage for FileStorage {
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(into, at)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

impl FileStorage {
    /// Returns another handle of the same file, for reading.
    pub(crate) fn again(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }

    /// Opens a history for writing; creates it if it does not exist. Does not follow a link: whoever
    /// may create one in the folder would choose the file that is written.
    pub fn open(path: &Path, size: u64) -> Result<History<Self>, WatchError> {
        let wrong = |source: HistoryError| WatchError::History {
            path: path.to_owned(),
            source,
        };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| wrong(error.into()))?;
        }
        let mut options = File::options();
        options.read(true).write(true).create(true);
        options.custom_flags(libc::O_NOFOLLOW);
        let file = options.open(path).map_err(|error| wrong(error.into()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(WatchError::Busy(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(wrong(error.into())),
        }
        History::open(Self(file), size).map_err(wrong)
    }

    /// Opens a history for reading, even while another process writes it. Later changes are not
    /// visible.
    pub fn open_reading(path: &Path) -> Result<History<Self>, WatchError> {
        let wrong = |source: HistoryError| WatchError::History {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(|error| wrong(error.into()))?;
        History::open_reading(Self(file)).map_err(wrong)
    }
}
