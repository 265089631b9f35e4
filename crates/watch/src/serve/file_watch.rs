// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports changed files by inotify(7). It watches folders, because certificates are renewed by
//! renaming new files into place.

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use std::collections::BTreeSet;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::unix::AsyncFd;

/// The pause after a change: several files are often written in succession.
const SETTLE: Duration = Duration::from_millis(200);

/// The watched files.
#[derive(Debug)]
pub(crate) struct Changed {
    notify: AsyncFd<OwnedFd>,
    files: Vec<PathBuf>,
}

impl Changed {
    pub(crate) fn watch(files: Vec<PathBuf>) -> io::Result<Self> {
        let notify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let watch = Self {
            notify: weirgate_kernel::watch(notify)?,
            files,
        };
        watch.folders()?;
        Ok(watch)
    }

    /// Watches the folders of the files and of their link targets.
    fn folders(&self) -> io::Result<()> {
        let mut folders = BTreeSet::new();
        for file in &self.files {
            let target = std::fs::canonicalize(file).unwrap_or_else(|_| file.clone());
            folders.insert(folder(file));
            folders.insert(folder(&target));
        }
        let what = WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO | WatchFlags::CREATE;
        for folder in folders {
            inotify::add_watch(self.notify.get_ref(), &folder, what)?;
        }
        Ok(())
    }

    /// Returns shortly after one of the files, or another file in their folders, has changed.
    pub(crate) async fn next(&self) -> io::Result<()> {
        let mut ready = self.notify.readable().await?;
        tokio::time::sleep(SETTLE).await;
        let mut room = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(self.notify.get_ref(), &mut room);
        loop {
            match events.next() {
                Ok(_) => {}
                Err(rustix::io::Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        ready.clear_ready();
        drop(ready);
        // A link may have another target now, and a folder that is missing for a moment is
        // watched again after the next change.
        let _ = self.folders();
        Ok(())
    }
}

fn folder(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}
