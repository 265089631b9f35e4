// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who shares a class: `fair` of the class, or of the link for classes without it.

use crate::field::words;

/// Between whom the packets of a class are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fair {
    /// Between flows, whoever they belong to.
    Flows,
    /// Between inside hosts, and for each host between its flows.
    Hosts,
    /// Between inside hosts alone: all flows of a host are in one queue
    /// upstream. Downstream as [`Fair::Hosts`].
    HostsOnly,
}

impl Fair {
    /// Whether it needs a queue that knows hosts.
    #[must_use]
    pub const fn knows_hosts(self) -> bool {
        matches!(self, Self::Hosts | Self::HostsOnly)
    }
}

words!(Fair:
    "flows" => Self::Flows,
    "hosts" => Self::Hosts,
    "hosts-only" => Self::HostsOnly,
);
