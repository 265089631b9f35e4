// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The two directions of a link.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A direction of a link, seen from the hosts behind the router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Direction {
    /// From the hosts to the internet.
    Up,
    /// From the internet to the hosts.
    Down,
}

impl Direction {
    /// Both, upstream first.
    pub const BOTH: [Self; 2] = [Self::Up, Self::Down];

    /// Returns the other direction.
    #[must_use]
    pub const fn reversed(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }

    /// Returns 0 for upstream and 1 for downstream.
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Up => 0,
            Self::Down => 1,
        }
    }

    /// Returns `up` or `down`, as in policies.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }

    /// Returns `upstream` or `downstream`.
    #[must_use]
    pub const fn stream(self) -> &'static str {
        match self {
            Self::Up => "upstream",
            Self::Down => "downstream",
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
