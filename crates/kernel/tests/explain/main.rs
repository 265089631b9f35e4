// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares crate `explain` with the kernel: the same packets pass the same tables, in a router of
//! two devices in a separate network namespace. Needs root, and ip(8) and nft(8) to make the router
//! and to observe classes.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that is not as expected"
)]
#![expect(clippy::print_stdout, reason = "says how much was compared")]

mod bridge;
mod draw;
mod helpers;
mod random;
mod router;
mod schedule;
mod scheme;
mod segments;
mod services;
mod session;
