// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `engine` of the link: what shapes it; and `timer-slack`, which only the tree
//! of HTB classes has.

use crate::field::words;
use weirgate_units::Span;

/// What shapes a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// What crate `compile` chooses.
    #[default]
    Auto,
    /// The gated tree of HTB classes.
    Htb,
    /// cake with its own shaper.
    Cake,
    /// The kit's shaper with classes.
    Kit,
    /// The engine of rows: a tree of any shape, and limits of hosts over all classes.
    Rows,
}

impl Engine {
    /// Whether it is a qdisc made of a BPF program, which has no qdiscs of the kernel as
    /// its queues.
    #[must_use]
    pub const fn is_program(self) -> bool {
        matches!(self, Self::Kit | Self::Rows)
    }
}

words!(Engine: "auto" => Self::Auto, "htb" => Self::Htb, "cake" => Self::Cake, "kit" => Self::Kit,
    "rows" => Self::Rows);

/// The least and the most that a timer may be late: HTB's clock has ticks of 64
/// ns, and what is let out at once stands in the modem.
pub(crate) const TIMER_SLACK: (Span, Span) = (Span::from_nanos(64), Span::from_millis(10));
