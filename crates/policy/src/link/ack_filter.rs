// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `ack-filter` of the link: which TCP acknowledgements are dropped upstream because a later one
//! in the queue makes them redundant.

use crate::field::words;

/// Which acknowledgements are dropped upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AckFilter {
    /// Crate `compile` chooses by the rates of the link.
    #[default]
    Auto,
    /// None.
    Off,
    /// Acknowledgements that two later ones make redundant (`ack-filter` of tc-cake(8)).
    On,
    /// Acknowledgements that one later one makes redundant (`ack-filter-aggressive`).
    Aggressive,
}

words!(
    AckFilter: "auto" => Self::Auto, "off" => Self::Off, "on" => Self::On,
    "aggressive" => Self::Aggressive
);
