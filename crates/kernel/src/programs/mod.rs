// SPDX-License-Identifier: Apache-2.0 OR MIT
//! BPF programs of a device: crate `bpf` loads, updates and reads them, and this crate attaches
//! them.

pub(crate) mod hooks;
pub(crate) mod pins;
pub(crate) mod qdisc;
pub(crate) mod queues;
pub(crate) mod retained;
pub(crate) mod rows;
pub(crate) mod shaper;
pub(crate) mod tcx;
