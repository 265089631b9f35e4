// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files that a list is read from: CSV and JSON, each value with its place.

pub(crate) mod collect;
mod csv;
mod devices;
pub(crate) mod joined;
pub(crate) mod json;
pub(crate) mod located;
pub(crate) mod network;
pub(crate) mod overrides;
pub(crate) mod plans;
pub(crate) mod rate;
pub(crate) mod raw;
pub(crate) mod table;

pub use located::{File, Located};
