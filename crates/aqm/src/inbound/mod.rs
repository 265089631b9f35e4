// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides about arriving packets without queueing them.

pub(crate) mod share;
pub(crate) mod udp;
pub(crate) mod virtual_queue;
pub(crate) mod window;
