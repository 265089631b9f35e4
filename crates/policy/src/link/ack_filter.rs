// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `ack-filter` of the link: which TCP acknowledgements are dropped upstream because a later one in
//! the queue makes them superfluous.

use crate::field::words;

/// Which acknowledgements are dropped upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AckFilter {
    /// What crate `compile` chooses, by the rates of the link.
    #[default]
    Auto,
    /// None.
    Off,
    /// Those that two later ones make superfluous (`ack-filter` of tc-cake(8)).
    On,
    /// Those that one later one makes superfluous (`ack-filter-aggressive`).
    Aggressive,
}

words!(
    AckFilter: "auto" => Self::Auto, "off" => Self::Off, "on" => Self::On,
    "aggressive" => Self::Aggressive
);
