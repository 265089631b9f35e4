// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Applies states to the running kernel, each test in a separate network namespace. Needs root, and
//! ip(8) to make the devices. Only HTB, pfifo and bfifo are used, which every kernel has; the lab
//! tests the others.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that is not as expected"
)]

mod apply;
mod arriving;
mod classify;
mod condition;
mod cookie;
mod harness;
mod hold;
mod in_place;
mod order;
mod parts;
mod payload;
mod receive;
mod retained;
mod routing;
mod scheme;
mod senders;
mod single;
mod tables_version;
mod tree;
mod values;
