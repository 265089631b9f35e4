// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time since the start of traffic, and precise waiting.
//!
//! Waits use timerfds in the event loop. tokio's own timers have a granularity of 1 ms, a tenth
//! of the transmission time of a full packet on a slow line. Timerfds are kept and reused, so
//! that a wait costs one system call in addition to the event loop's own.
//!
//! On a kernel booted with `highres=off`, timers expire only at ticks. Experiments study the
//! effect of this on the shaper. The line and the senders stand for other machines and must stay
//! precise. On such a kernel the clock is therefore polled during the last tick before a
//! deadline. This costs time of the host, but no virtual time that others need.

use super::watch::watch;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_getres,
    clock_gettime, timerfd_create, timerfd_settime,
};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::yield_now;

const SECOND_NS: u64 = 1_000_000_000;

/// Timers with at most this resolution are precise. High-resolution timers have 1 ns.
const PRECISE_NS: u64 = 10_000;

/// The run's clock. Clones share its start time and timers.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    shared: Rc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// `CLOCK_MONOTONIC` at the start of traffic.
    zero_ns: Cell<u64>,
    /// How long before a deadline the clock is polled: a little more than a tick if timers
    /// expire at ticks, otherwise 0.
    watch_ns: u64,
    /// Disarmed timers for reuse.
    idle: RefCell<Vec<Rc<Timer>>>,
}

impl Clock {
    /// Returns a clock that starts now; [`Clock::start`] resets it.
    #[must_use]
    pub fn new() -> Self {
        let tick = clock_getres(ClockId::Monotonic);
        let tick_ns = tick.tv_sec as u64 * SECOND_NS + tick.tv_nsec as u64;
        let watch_ns = if tick_ns > PRECISE_NS {
            tick_ns + tick_ns / 8
        } else {
            0
        };
        let clock = Self {
            shared: Rc::new(Shared {
                watch_ns,
                ..Shared::default()
            }),
        };
        clock.start();
        clock
    }

    /// Returns whether this kernel's timers are precise, without polling.
    #[must_use]
    pub fn is_precise(&self) -> bool {
        self.shared.watch_ns == 0
    }

    /// Sets the start of traffic to now.
    pub fn start(&self) {
        self.shared.zero_ns.set(monotonic_ns());
    }

    /// Returns `CLOCK_MONOTONIC` at the start of traffic, for [`since`].
    #[must_use]
    pub fn zero_ns(&self) -> u64 {
        self.shared.zero_ns.get()
    }

    /// Returns the nanoseconds since the start of traffic.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        monotonic_ns().saturating_sub(self.shared.zero_ns.get())
    }

    /// Waits until `at_ns` after the start of traffic; returns at once if that has passed.
    pub async fn until(&self, at_ns: u64) -> io::Result<()> {
        if self.now_ns() >= at_ns {
            return Ok(());
        }
        let wait = Wait::new(self)?;
        wait.timer.arm(self.timer_value(at_ns))?;
        // The expiry count is not read: arming clears it, and the clock shows whether the
        // deadline has passed.
        loop {
            let now_ns = self.now_ns();
            if now_ns >= at_ns {
                return Ok(());
            } else if self.is_watched(at_ns, now_ns) {
                yield_now().await;
            } else {
                poll_fn(|cx| wait.timer.poll_ready(cx)).await?;
            }
        }
    }

    /// Returns the value of `CLOCK_MONOTONIC` to which a timer is set, never 0.
    fn timer_value(&self, at_ns: u64) -> u64 {
        let early_ns = at_ns.saturating_sub(self.shared.watch_ns);
        self.shared.zero_ns.get().saturating_add(early_ns).max(1)
    }

    /// Returns whether the clock must be polled until `at_ns`.
    fn is_watched(&self, at_ns: u64, now_ns: u64) -> bool {
        at_ns - now_ns <= self.shared.watch_ns
    }

    /// Waits for `ns` nanoseconds.
    pub async fn pause(&self, ns: u64) -> io::Result<()> {
        self.until(self.now_ns().saturating_add(ns)).await
    }

    /// Returns a timer for a task that waits for the timer and for other events at the same
    /// time.
    pub fn alarm(&self) -> io::Result<Alarm> {
        Ok(Alarm {
            wait: Wait::new(self)?,
            armed_ns: Cell::new(u64::MAX),
        })
    }
}

/// Returns the nanoseconds since a [`Clock::zero_ns`], for threads without a clock.
#[must_use]
pub fn since(zero_ns: u64) -> u64 {
    monotonic_ns().saturating_sub(zero_ns)
}

/// A timer whose time can change during a wait.
#[derive(Debug)]
pub struct Alarm {
    wait: Wait,
    armed_ns: Cell<u64>,
}

impl Alarm {
    /// Sets the time of the alarm; `None` disables it. Setting the same time again costs
    /// nothing.
    pub fn set(&self, at_ns: Option<u64>) -> io::Result<()> {
        let at_ns = at_ns.unwrap_or(u64::MAX);
        if at_ns == self.armed_ns.replace(at_ns) {
            return Ok(());
        }
        if at_ns == u64::MAX {
            return self.wait.timer.arm(0);
        }
        self.wait.timer.arm(self.wait.clock.timer_value(at_ns))
    }

    /// Ready if the timer has expired since the last call. It may have expired for an earlier
    /// setting, so the caller must check the clock.
    pub fn poll_ring(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let armed_ns = self.armed_ns.get();
        let clock = &self.wait.clock;
        if clock.shared.watch_ns > 0 && armed_ns != u64::MAX {
            let now_ns = clock.now_ns();
            if now_ns >= armed_ns {
                self.armed_ns.set(u64::MAX);
                return Poll::Ready(Ok(()));
            } else if clock.is_watched(armed_ns, now_ns) {
                // Continue after the event loop has handled all other events.
                return pin!(yield_now()).poll(cx).map(Ok);
            }
        }
        let rung = self.wait.timer.poll_ready(cx);
        if rung.is_ready() {
            self.armed_ns.set(u64::MAX);
        }
        rung
    }
}

/// A timer from the clock's pool, returned when dropped.
#[derive(Debug)]
struct Wait {
    clock: Clock,
    timer: Rc<Timer>,
}

impl Wait {
    fn new(clock: &Clock) -> io::Result<Self> {
        let idle = clock.shared.idle.borrow_mut().pop();
        let timer = match idle {
            Some(timer) => timer,
            None => Rc::new(Timer::new()?),
        };
        Ok(Self {
            clock: clock.clone(),
            timer,
        })
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        // A timer that cannot be disarmed is not reused.
        if self.timer.arm(0).is_ok() {
            let timer = Rc::clone(&self.timer);
            self.clock.shared.idle.borrow_mut().push(timer);
        }
    }
}

/// A timerfd, registered in the event loop.
#[derive(Debug)]
struct Timer(AsyncFd<OwnedFd>);

impl Timer {
    fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self(watch(fd, Interest::READABLE)?))
    }

    /// Arms the timer for a value of `CLOCK_MONOTONIC`; 0 disarms it.
    fn arm(&self, at_ns: u64) -> io::Result<()> {
        let at = Itimerspec {
            it_interval: timespec(0),
            it_value: timespec(at_ns),
        };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::ABSTIME, &at)?;
        Ok(())
    }

    /// Ready if the timer has expired since it was armed or since this last returned ready.
    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut guard = ready!(self.0.poll_read_ready(cx))?;
        guard.clear_ready();
        Poll::Ready(Ok(()))
    }
}

fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: (ns / SECOND_NS) as i64,
        tv_nsec: (ns % SECOND_NS) as i64,
    }
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * SECOND_NS + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::{Clock, Shared};
    use std::future::poll_fn;
    use std::rc::Rc;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .expect("a runtime")
            .block_on(future)
    }

    #[test]
    fn waits_are_never_early_and_reuse_their_timer() {
        block_on(async {
            let clock = Clock::new();
            for step in 1..20 {
                clock.until(step * 300_000).await.expect("a wait");
                assert!(clock.now_ns() >= step * 300_000);
            }
            assert_eq!(clock.shared.idle.borrow().len(), 1);
        });
    }

    #[test]
    fn a_dropped_wait_leaves_no_expiry_behind() {
        block_on(async {
            let clock = Clock::new();
            tokio::select! {
                biased;
                wait = clock.pause(50_000_000) => wait.expect("a wait"),
                wait = clock.pause(1_000_000) => wait.expect("a wait"),
            }
            let start = clock.now_ns();
            assert!(start < 40_000_000);
            clock.until(start + 60_000_000).await.expect("a wait");
            assert!(clock.now_ns() >= start + 60_000_000);
        });
    }

    /// Returns a clock for a kernel with ticks of 4 ms.
    fn ticking() -> Clock {
        Clock {
            shared: Rc::new(Shared {
                watch_ns: 4_500_000,
                ..Shared::default()
            }),
        }
    }

    #[test]
    fn where_timers_tick_the_clock_is_watched() {
        block_on(async {
            let clock = ticking();
            clock.start();
            for at_ns in [100_000, 3_000_000, 20_000_000] {
                clock.until(at_ns).await.expect("a wait");
                assert!(clock.now_ns() >= at_ns);
            }
            let alarm = clock.alarm().expect("an alarm");
            for at_ns in [22_000_000, 40_000_000] {
                while clock.now_ns() < at_ns {
                    alarm.set(Some(at_ns)).expect("set");
                    poll_fn(|cx| alarm.poll_ring(cx)).await.expect("a ring");
                }
            }
        });
    }

    #[test]
    fn an_alarm_moves() {
        block_on(async {
            let clock = Clock::new();
            let alarm = clock.alarm().expect("an alarm");
            alarm.set(Some(500_000_000)).expect("set");
            alarm.set(Some(2_000_000)).expect("set");
            while clock.now_ns() < 2_000_000 {
                poll_fn(|cx| alarm.poll_ring(cx)).await.expect("a ring");
            }
            assert!(clock.now_ns() < 400_000_000);
        });
    }
}
