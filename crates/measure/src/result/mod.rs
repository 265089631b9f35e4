// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results: judged figures of one run or several.

pub(crate) mod judge;
pub mod repeat;
pub(crate) mod sweep;
