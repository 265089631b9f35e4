// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Word of the kernel that something changed in directories (inotify(7)). What
//! it was is looked up by the caller, so that no event can be missed.

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use std::os::fd::OwnedFd;
use std::path::Path;
use tokio::io::unix::AsyncFd;
use weirgate_kernel::watch;

/// Directories that are watched; none at first.
pub(super) struct Inotify(AsyncFd<OwnedFd>);

impl Inotify {
    pub(super) fn new() -> std::io::Result<Self> {
        let flags = CreateFlags::NONBLOCK | CreateFlags::CLOEXEC;
        Ok(Self(watch(inotify::init(flags)?)?))
    }

    /// Watches a directory, too. One that is watched already stays one watch.
    pub(super) fn add(&self, folder: &Path, events: WatchFlags) -> rustix::io::Result<()> {
        inotify::add_watch(&self.0, folder, events).map(|_| ())
    }

    /// Waits for an event. May be dropped and called again.
    pub(super) async fn event(&self) {
        let Ok(mut ready) = self.0.readable().await else {
            // The event loop is ending.
            return std::future::pending().await;
        };
        let mut events = [0; 4096];
        while rustix::io::read(&self.0, &mut events).is_ok_and(|length| length > 0) {}
        ready.clear_ready();
    }
}
