// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Locks a mutex regardless of earlier panics.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, even if a thread panicked while holding it. This is safe because every
/// protected value is replaced as a whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
