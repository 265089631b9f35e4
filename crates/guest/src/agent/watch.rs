// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registers file descriptors in the event loop.

use std::io;
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a non-blocking file descriptor in the event loop.
#[expect(
    unsafe_code,
    reason = "tokio wants the stability of the descriptor asserted"
)]
pub fn watch(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is valid and stays the same descriptor until it is dropped. The
    // `AsyncFd` that owns it drops it after deregistering.
    Ok(unsafe { AsyncFd::register_with_interest(fd, interest) }?)
}
