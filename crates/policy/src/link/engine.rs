// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `engine` of the link: what shapes it; and `timer-slack`, which only the tree of HTB classes
//! has.

use crate::field::words;
use weirgate_units::Span;

/// What shapes a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// Crate `compile` chooses the engine.
    #[default]
    Auto,
    /// A tree of HTB classes below one gate class.
    Htb,
    /// cake with its own shaper.
    Cake,
    /// The kit's shaper with classes (a BPF qdisc).
    Kit,
    /// The BPF engine of rows: a tree of any shape, with limits of hosts over all classes.
    Rows,
}

impl Engine {
    /// Returns whether it is a qdisc made of a BPF program, which cannot have the kernel's
    /// qdiscs as its queues.
    #[must_use]
    pub const fn is_program(self) -> bool {
        matches!(self, Self::Kit | Self::Rows)
    }
}

words!(Engine: "auto" => Self::Auto, "htb" => Self::Htb, "cake" => Self::Cake, "kit" => Self::Kit,
    "rows" => Self::Rows);

/// The bounds of `timer-slack`. HTB's clock has ticks of 64 ns, and a late timer sends a burst
/// that waits in the modem.
pub(crate) const TIMER_SLACK: (Span, Span) = (Span::from_nanos(64), Span::from_millis(10));
