// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sets: those of a table, the switches of chains, and the constant sets that identify segments
//! without payload.

mod constant;
mod decode;
mod encode;

pub(crate) use constant::ConstantSet;
pub(crate) use decode::{Listed, Sets, classes, elements, fixed, is_on, keep, listed, refreshed};
pub(crate) use encode::{create, create_constant, create_switch, delete, list, refill, switch};
