// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What receive windows and the filter of datagrams share: how a rate is measured, and
//! whose packets are left alone.

use serde::{Deserialize, Serialize};
use std::fmt;
use weirgate_units::Span;

/// How a rate is measured: bytes in chunks of time, averaged over a ring of
/// them, forgotten after a silence (`aqm/include/meter.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Measured {
    /// The length of a chunk.
    pub chunk: Span,
    /// How many are averaged, up to 64.
    pub chunks: u32,
    /// The silence.
    pub age: Span,
}

/// A mark, and the mask of the bits that are looked at; a mask of 0 is nobody's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SparedMark {
    /// The mark, within the mask.
    pub mark: u32,
    /// The bits.
    pub mask: u32,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            ", measured in {} chunks of {} forgotten after {}",
            self.chunks, self.chunk, self.age
        )
    }
}

/// Nothing where nobody is spared.
impl fmt::Display for SparedMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.mask == 0 {
            return Ok(());
        }
        write!(
            f,
            ", mark {:#010x} under {:#010x} spared",
            self.mark, self.mask
        )
    }
}
