// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ends everything that runs at the same time.

use std::net::{Shutdown, TcpStream};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

/// Stops everybody at once.
#[derive(Debug, Default)]
pub struct Stop {
    over: Mutex<bool>,
    changed: Condvar,
    open: Mutex<Vec<TcpStream>>,
}

impl Stop {
    /// Ends what runs.
    pub fn stop(&self) {
        *lock(&self.over) = true;
        self.changed.notify_all();
        for stream in lock(&self.open).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Has a connection shut then.
    pub(crate) fn shuts(&self, stream: &TcpStream) {
        if let Ok(other) = stream.try_clone() {
            lock(&self.open).push(other);
        }
    }

    /// Whether it was stopped.
    pub fn stopped(&self) -> bool {
        *lock(&self.over)
    }

    /// Waits until a time; false where it was stopped before.
    pub(crate) fn until(&self, time: Instant) -> bool {
        let mut over = lock(&self.over);
        while !*over {
            let left = time.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let waited = self.changed.wait_timeout(over, left);
            over = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
