// SPDX-License-Identifier: Apache-2.0 OR MIT
//! File descriptors in the event loop.

use std::io;
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Puts a non-blocking file descriptor into the event loop.
#[expect(
    unsafe_code,
    reason = "tokio wants the stability of the descriptor asserted"
)]
pub fn watch(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is valid and stays the same descriptor until it is
    // dropped, which the `AsyncFd` that owns it does after deregistering.
    Ok(unsafe { AsyncFd::register_with_interest(fd, interest) }?)
}
