// SPDX-License-Identifier: Apache-2.0 OR MIT
//! BPF programs that a device of a state has: loaded by crate `bpf`, attached
//! and configured here, one file for each kind.

pub(crate) mod conditioner;
pub(crate) mod order;
pub(crate) mod payload;
pub(crate) mod qdisc;
pub(crate) mod receive_window;
pub(crate) mod shaper;
pub(crate) mod virtual_queue;
