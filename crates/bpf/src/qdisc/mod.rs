// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Qdisc kinds made of BPF programs: disciplines, the shaper and the engine, with their maps,
//! pins and ECN marks.

pub(crate) mod attach_point;
pub(crate) mod circuits;
pub(crate) mod discipline;
pub(crate) mod engine;
mod hosts;
pub(crate) mod instance;
pub(crate) mod kind;
pub(crate) mod link;
pub(crate) mod load;
pub(crate) mod marks;
pub(crate) mod pins;
pub(crate) mod recorder;
pub(crate) mod rows;
pub(crate) mod shaper;
pub(crate) mod store;
