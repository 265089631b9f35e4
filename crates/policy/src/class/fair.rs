// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `fair` of a class, or of the link for classes without it: between whom the class is shared.

use crate::field::words;

/// Between whom the packets of a class are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fair {
    /// Between flows, regardless of the host.
    Flows,
    /// Between inside hosts, and for each host between its flows.
    Hosts,
    /// Between inside hosts only. Upstream, all flows of a host share one queue. Downstream it
    /// is the same as [`Fair::Hosts`].
    HostsOnly,
}

impl Fair {
    /// Returns whether it needs a queue that distinguishes hosts.
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
