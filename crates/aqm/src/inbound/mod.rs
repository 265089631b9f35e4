// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What decides about packets that arrive, without queueing them.

pub(crate) mod share;
pub(crate) mod udp;
pub(crate) mod virtual_queue;
pub(crate) mod window;
