// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lock on pins, with a bounded wait that does not stop the event loop.

use crate::error::KernelError;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use weirgate_bpf::{BpfError, Pins, Store};

/// How long to wait for the lock. It is less than a command waits for the lock on a network
/// namespace, so that a service that waits here holds up no command.
const PATIENCE: Duration = Duration::from_secs(2);

/// The interval of the attempts.
const STEP: Duration = Duration::from_millis(10);

/// Locks pins; waits at most for `patience`. Needs a tokio runtime.
///
/// # Errors
/// [`BpfError::Held`] if another process keeps the lock longer.
pub async fn locked_pins(pins: Pins, patience: Duration) -> Result<Store, BpfError> {
    let begin = Instant::now();
    loop {
        if let Some(store) = Store::open_if_free(pins)? {
            return Ok(store);
        }
        if begin.elapsed() >= patience {
            return Err(Store::held(pins));
        }
        sleep(STEP).await;
    }
}

/// Locks the pins of policies.
pub(super) async fn store() -> Result<Store, BpfError> {
    locked_pins(Pins::Policies, PATIENCE).await
}

/// Locks the pins of policies for reading; `None` if this process may not. What another process
/// keeps locked is an error: without it, the state would seem to be another.
pub(super) async fn readable(object: &str) -> Result<Option<Store>, KernelError> {
    match store().await {
        Err(source) if source.is_held() || matches!(source, BpfError::Untrusted { .. }) => {
            Err(KernelError::Kit {
                object: object.to_owned(),
                source,
            })
        }
        opened => Ok(opened.ok()),
    }
}
