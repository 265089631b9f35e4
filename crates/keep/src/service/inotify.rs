// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Notifications of the kernel about changes in directories (inotify(7)). An event only wakes the
//! caller, who then reads the present state; so a lost event does no harm.

use crate::error::KeepError;
use crate::store::folder::{self, Folders};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use tokio::io::unix::AsyncFd;
use weirgate_kernel::watch;

/// A set of watched directories, empty at first.
pub(crate) struct Inotify(AsyncFd<OwnedFd>);

impl Inotify {
    pub(crate) fn new() -> std::io::Result<Self> {
        let flags = CreateFlags::NONBLOCK | CreateFlags::CLOEXEC;
        Ok(Self(watch(inotify::init(flags)?)?))
    }

    /// Watches one more directory. Adding a directory again does not create a second watch.
    pub(crate) fn add(&self, folder: &Path, events: WatchFlags) -> rustix::io::Result<()> {
        inotify::add_watch(&self.0, folder, events).map(|_| ())
    }

    /// Waits for an event. Cancel-safe: it may be dropped and called again.
    pub(crate) async fn event(&self) {
        let Ok(mut ready) = self.0.readable().await else {
            // The event loop is shutting down.
            return std::future::pending().await;
        };
        let mut events = [0; 4096];
        while rustix::io::read(&self.0, &mut events).is_ok_and(|length| length > 0) {}
        ready.clear_ready();
    }

    /// Waits for events. Returns the names of the files that changed, or `None` if any file may
    /// have changed. Cancel-safe: it may be dropped and called again.
    pub(crate) async fn names(&self) -> Option<BTreeSet<String>> {
        let Ok(mut ready) = self.0.readable().await else {
            return std::future::pending().await;
        };
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut events = Reader::new(&self.0, &mut space);
        let mut names = Some(BTreeSet::new());
        while let Ok(event) = events.next() {
            let name = event.file_name().and_then(|name| name.to_str().ok());
            match (name, &mut names) {
                (Some(name), Some(names))
                    if !event.events().contains(ReadFlags::QUEUE_OVERFLOW) =>
                {
                    names.insert(name.to_owned());
                }
                _ => names = None,
            }
        }
        ready.clear_ready();
        names
    }
}

/// Watches the state folder. Other weirgate processes write files by renaming them into place.
pub(crate) fn stored(folders: &Folders) -> Result<Inotify, KeepError> {
    let path = &folders.state;
    folder::folder(path)?;
    let watched = || -> std::io::Result<Inotify> {
        let inotify = Inotify::new()?;
        inotify.add(path, WatchFlags::MOVED_TO)?;
        Ok(inotify)
    };
    watched().map_err(KeepError::file(path))
}
