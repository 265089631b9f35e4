// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decisions about arriving packets, which are not queued.

pub(crate) mod share;
pub(crate) mod udp;
pub(crate) mod virtual_queue;
pub(crate) mod window;
