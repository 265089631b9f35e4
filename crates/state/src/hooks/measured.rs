// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What receive windows and the datagram filter share: how a rate is measured, and which packets
//! are exempt.

use serde::{Deserialize, Serialize};
use std::fmt;
use weirgate_units::Span;

/// How a rate is measured: bytes in intervals of time, averaged over a ring of them, reset after a
/// silence (`aqm/include/meter.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Measured {
    /// The length of an interval.
    pub chunk: Span,
    /// How many intervals are averaged, up to 64.
    pub chunks: u32,
    /// The length of the silence.
    pub age: Span,
}

/// A mark under a mask that exempts packets; a mask of 0 exempts none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SparedMark {
    /// The mark, within the mask.
    pub mark: u32,
    /// The bits that are compared.
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

/// Writes nothing if no packets are exempt.
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
