// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conditions on packets: how they are written, how they are read, and when one
//! contains another.

pub(crate) mod control_group;
pub(crate) mod drt;
pub(crate) mod matching;
pub(crate) mod meter;
pub(crate) mod reach;
pub(crate) mod when;
