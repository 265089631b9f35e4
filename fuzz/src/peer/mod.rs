// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages from others to weirgate: hosts, programs and the kernel.

pub(crate) mod answered;
pub(crate) mod asked;
pub(crate) mod message;
pub(crate) mod netlink;
pub(crate) mod session;
pub(crate) mod web;
