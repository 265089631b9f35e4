// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The contents of maps, as the programs' C headers define them. `build.rs` generates the types,
//! and the compiler checks each size and offset against clang's for BPF.
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

/// A value that is its bytes: every pattern of bytes is one, and it has no padding.
pub trait Layout: FromBytes + IntoBytes + Immutable {}

impl<T: FromBytes + IntoBytes + Immutable> Layout for T {}
