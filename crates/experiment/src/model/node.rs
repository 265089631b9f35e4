// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The places of a topology: hosts, gateway, provider, servers.

/// A place in the topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// `host<n>`, counted from 1.
    Host(u16),
    /// The gateway, where policies are applied.
    Gateway,
    /// The provider's end of the access line.
    Provider,
    /// `server<n>`, counted from 1.
    Server(u16),
}
