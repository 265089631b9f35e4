// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The asynchronous runtime of a command.

use crate::exit::Outcome;
use std::pin::{Pin, pin};

/// Runs work that uses netlink, on one thread.
pub fn in_runtime(work: impl Future<Output = Outcome>) -> Outcome {
    run(pin!(work))
}

/// Runs any work; this function is not generic, so that the program contains the runtime's loop
/// once.
fn run(work: Pin<&mut dyn Future<Output = Outcome>>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(work);
    // A thread that still waits for a lock must not delay the exit.
    runtime.shutdown_background();
    outcome
}
