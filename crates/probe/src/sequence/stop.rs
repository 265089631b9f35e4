// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stops all concurrent activities of a sequence.

use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Instant;

/// A signal that stops all activities at once.
#[derive(Debug, Default)]
pub struct Stop {
    over: Mutex<bool>,
    changed: Condvar,
    /// Connections of transfers that have not ended.
    open: Mutex<Vec<Weak<TcpStream>>>,
}

impl Stop {
    /// Stops all activities.
    pub fn stop(&self) {
        *lock(&self.over) = true;
        self.changed.notify_all();
        for stream in lock(&self.open).drain(..).filter_map(|one| one.upgrade()) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Registers a connection to be shut down at that time, unless it is dropped before.
    pub(crate) fn shuts(&self, stream: &Arc<TcpStream>) {
        let mut open = lock(&self.open);
        open.retain(|one| one.strong_count() > 0);
        open.push(Arc::downgrade(stream));
        drop(open);
        // All may have been stopped before this one was registered.
        if self.stopped() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Returns whether it was stopped.
    pub fn stopped(&self) -> bool {
        *lock(&self.over)
    }

    /// Waits until a time; returns false if it was stopped before.
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
