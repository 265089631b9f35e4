// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The heartbeat of a service, for a watchdog.

use crate::clock::{self, Timer};
use crate::error::KeepError;
use std::cell::Cell;
use std::time::Duration;

/// A heartbeat: it shows that the main loop of the service still runs.
#[derive(Debug, Clone, Copy)]
pub struct Pulse {
    /// The interval between two beats.
    pub every: Duration,
    /// Sends one beat.
    pub beat: fn(),
}

/// Sends the beats of a service. Only its main loop may wait for them: the watchdog has to notice
/// when the loop hangs.
pub(crate) struct Heart {
    timer: Timer,
    pulse: Option<Pulse>,
    /// When the next beat is due ([`clock::now`]).
    next: Cell<u64>,
}

impl Heart {
    /// Sends the first beat. Without a pulse it never sends any.
    pub(crate) fn new(pulse: Option<Pulse>) -> Result<Self, KeepError> {
        let heart = Self {
            timer: Timer::new()?,
            pulse,
            next: Cell::new(u64::MAX),
        };
        heart.send()?;
        Ok(heart)
    }

    /// Waits until a beat is due, and sends it.
    pub(crate) async fn beat(&self) -> Result<(), KeepError> {
        self.timer.over().await?;
        self.send()
    }

    /// Sends the next beat already if it would wake the service before a look that is repeated after
    /// `every`, in nanoseconds.
    pub(crate) fn join(&self, every: u64) -> Result<(), KeepError> {
        if self.pulse.is_some() && joins(self.next.get(), clock::now(), every) {
            self.send()?;
        }
        Ok(())
    }

    fn send(&self) -> Result<(), KeepError> {
        let Some(Pulse { every, beat }) = self.pulse else {
            return Ok(());
        };
        beat();
        let next = clock::now().saturating_add(every.as_nanos() as u64);
        self.next.set(next);
        self.timer.set(next)
    }
}

/// Returns whether a beat that is due at `next` is sent together with a look that is repeated after
/// `every`. A beat of its own before the next look would wake the processor once more.
pub(crate) fn joins(next: u64, now: u64, every: u64) -> bool {
    next <= now.saturating_add(every)
}
