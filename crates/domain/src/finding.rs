// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The results of a check: the load of each class on each port, and the promises that cannot be
//! kept.

use crate::PortId;
use weirgate_units::Rate;

/// The sum of promises in a class on a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// The port.
    pub port: PortId,
    /// The class.
    pub class: String,
    /// The services, as indices into [`Domain::services`].
    pub services: Vec<usize>,
    /// The sum of their rates on the wire.
    pub promised: Rate,
    /// The guarantee of the class there, on the wire.
    pub guaranteed: Rate,
    /// The largest sum that may be promised there: more than the guarantee if the class may be
    /// over-subscribed.
    pub allowed: Rate,
}

impl Load {
    /// Returns whether more is promised than guaranteed.
    #[must_use]
    pub fn is_oversubscribed(&self) -> bool {
        self.promised > self.guaranteed
    }

    /// Returns what is promised as a multiple of the guarantee.
    #[must_use]
    pub fn factor(&self) -> f64 {
        let promised = self.promised.as_bits_per_second() as f64;
        promised / self.guaranteed.as_bits_per_second().max(1) as f64
    }
}

/// A promise that cannot be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The service, if it concerns a single one.
    pub service: Option<usize>,
    /// The line of the file.
    pub line: u32,
    /// The problem.
    pub what: String,
    /// The smallest changes, each of which would solve the problem.
    pub changes: Vec<String>,
}
