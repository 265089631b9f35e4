// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clocks of this crate: calendar seconds for people, and nanoseconds since boot, including
//! suspend, for deadlines.

use crate::error::KeepError;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::unix::AsyncFd;
use weirgate_kernel::watch;

pub(crate) const SECOND: u64 = 1_000_000_000;

/// Returns nanoseconds since boot (`CLOCK_BOOTTIME`). This includes suspend, so that closing a
/// laptop does not extend a deadline.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

/// Returns seconds of Unix time; 0 if the clock is before 1970.
pub fn unix() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// A timerfd in the event loop.
pub(crate) struct Timer {
    fd: AsyncFd<OwnedFd>,
    /// When it expires; [`NEVER`] unless it is set.
    at: Cell<u64>,
}

/// A time that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

impl Timer {
    /// Creates a timer that never expires unless it is set.
    pub(crate) fn new() -> Result<Self, KeepError> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = || -> std::io::Result<AsyncFd<OwnedFd>> {
            watch(timerfd_create(TimerfdClockId::Boottime, flags)?)
        };
        Ok(Self {
            fd: timer().map_err(KeepError::file("timerfd"))?,
            at: Cell::new(NEVER),
        })
    }

    /// Sets the time, as of [`now`], at which it expires; a time in the past expires at once.
    pub(crate) fn set(&self, at: u64) -> Result<(), KeepError> {
        let none = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let at = at.max(1);
        let time = Itimerspec {
            it_interval: none,
            it_value: Timespec {
                tv_sec: (at / SECOND) as i64,
                tv_nsec: (at % SECOND) as i64,
            },
        };
        self.at.set(at);
        timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::ABSTIME, &time)
            .map(|_| ())
            .map_err(|error| KeepError::file("timerfd")(error.into()))
    }

    /// Disarms the timer until it is set again.
    pub(crate) fn stop(&self) -> Result<(), KeepError> {
        self.set(NEVER)
    }

    /// Waits until it expires. It stays expired until it is set again.
    pub(crate) async fn over(&self) -> Result<(), KeepError> {
        while now() < self.at.get() {
            let mut ready = self
                .fd
                .readable()
                .await
                .map_err(KeepError::file("timerfd"))?;
            // The read returns the number of expirations, which is not needed. It fails if the
            // timer was set again since.
            let _ = rustix::io::read(self.fd.get_ref(), &mut [0; 8]);
            ready.clear_ready();
        }
        Ok(())
    }
}
