// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time as this crate needs it: seconds of the calendar for people, and
//! nanoseconds since the machine started, sleep included, for deadlines.

use crate::error::KeepError;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use std::os::fd::OwnedFd;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

const SECOND: u64 = 1_000_000_000;

/// Nanoseconds since the machine started (`CLOCK_BOOTTIME`), sleep included:
/// a laptop that was closed has not gained time.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

/// Seconds of Unix time; 0 on a machine whose clock is before 1970.
pub fn unix() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// A timer of the kernel's in the event loop.
pub(crate) struct Timer(AsyncFd<OwnedFd>);

impl Timer {
    /// A timer that never ends unless it is set.
    pub(crate) fn new() -> Result<Self, KeepError> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        timerfd_create(TimerfdClockId::Boottime, flags)
            .map_err(Into::into)
            .and_then(|fd| AsyncFd::register_with_interest(fd, Interest::READABLE))
            .map(Self)
            .map_err(KeepError::file("timerfd"))
    }

    /// Sets the time, as of [`now`], at which it ends; one that is over ends
    /// at once.
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
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::ABSTIME, &time)
            .map(|_| ())
            .map_err(|error| KeepError::file("timerfd")(error.into()))
    }

    /// Waits for the end, without taking notice: it stays over until it is set
    /// again.
    pub(crate) async fn over(&self) -> Result<(), KeepError> {
        let ready = self.0.readable().await;
        ready.map(|_| ()).map_err(KeepError::file("timerfd"))
    }
}
