// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Locks that outlive a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, whether or not a thread panicked while it held it: every value
/// behind one is replaced as a whole, so none is left half written.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
