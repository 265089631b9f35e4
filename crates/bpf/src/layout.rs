// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The contents of maps, as the C headers of the programs define them. `build.rs` generates the
//! types, and the compiler checks each size and offset against those of clang for BPF.
#![allow(
    non_camel_case_types,
    missing_docs,
    dead_code,
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated from C"
)]

use weirgate_aqm::{Link as aqm_link, ShaperRule as shaper_rule};
use zerocopy::{FromBytes, Immutable, IntoBytes};

include!(concat!(env!("OUT_DIR"), "/layouts.rs"));

/// A type without padding for which every pattern of bytes is valid.
pub trait Layout: FromBytes + IntoBytes + Immutable {}

impl<T: FromBytes + IntoBytes + Immutable> Layout for T {}
