// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes that another weirgate makes to what is stored.

use crate::error::KeepError;
use crate::site::Site;
use rustix::fs::inotify;
use std::os::fd::OwnedFd;
use tokio::io::unix::AsyncFd;
use weirgate_kernel::watch;

/// Tells when another weirgate wrote what is kept.
pub(super) struct Watch(AsyncFd<OwnedFd>);

impl Watch {
    pub(super) fn of(site: &Site) -> Result<Self, KeepError> {
        let folder = &site.place.state;
        crate::store::folder::folder(folder)?;
        let made = || -> std::io::Result<AsyncFd<OwnedFd>> {
            let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
            let fd = inotify::init(flags)?;
            inotify::add_watch(&fd, folder, inotify::WatchFlags::MOVED_TO)?;
            watch(fd)
        };
        made().map(Self).map_err(KeepError::file(folder))
    }

    pub(super) async fn next(&self) {
        let Ok(mut ready) = self.0.readable().await else {
            // The loop is ending.
            return std::future::pending().await;
        };
        // What was written is looked up; the words are only emptied.
        let mut words = [0; 4096];
        while rustix::io::read(self.0.get_ref(), &mut words).is_ok_and(|length| length > 0) {}
        ready.clear_ready();
    }
}
