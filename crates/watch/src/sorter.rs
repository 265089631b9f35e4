// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The classes of a connection, by a policy that the caller knows.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use weirgate_kernel::{Connection, Subnet};

/// The ends of a connection as the router sees them, and its classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sorted {
    /// The address and port of the inside end.
    pub host: (IpAddr, u16),
    /// The address and port of the outside end.
    pub remote: (IpAddr, u16),
    /// Whether the inside end opened it.
    pub opened_inside: bool,
    /// The class of its upstream packets; `None` if the upstream is not shaped.
    pub up: Option<String>,
    /// The class of its downstream packets; `None` if the downstream is not shaped.
    pub down: Option<String>,
}

/// Determines the classes of a connection by a policy; returns `None` if it does not cross the
/// link.
pub type ByPolicy = dyn Fn(&Connection, &[Subnet]) -> Option<Sorted> + Send + Sync;

/// An optional [`ByPolicy`].
#[derive(Clone, Default)]
pub struct Sorter(pub Option<Arc<ByPolicy>>);

impl fmt::Debug for Sorter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Sorter({})", self.0.is_some())
    }
}

/// Two sorters are equal if both or neither exist; the legend identifies the policy.
impl PartialEq for Sorter {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_some() == other.0.is_some()
    }
}
