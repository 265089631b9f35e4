// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results: figures judged by what an experiment promises, over one run or
//! several.

pub(crate) mod judge;
pub mod repeat;
pub(crate) mod sweep;
