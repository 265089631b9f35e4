// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `moves` of the link: how a connection changes class.

use crate::field::words;

/// How a connection moves to another class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Moves {
    /// With its next packet, which may overtake packets in the old class.
    #[default]
    AtOnce,
    /// When all of its data in the old class has been acknowledged. Its sender is stopped until
    /// then.
    InOrder,
}

words!(Moves: "at-once" => Self::AtOnce, "in-order" => Self::InOrder);
