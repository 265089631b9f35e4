// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs at tracepoints, which observe packets without changing them.

pub(crate) mod passive;
pub(crate) mod reference;
pub(crate) mod round_trip;
pub(crate) mod spread;
pub(crate) mod survey;
