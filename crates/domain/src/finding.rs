// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a check finds: the load of each class on each port, and the promises
//! that cannot be kept.

use crate::PortId;
use weirgate_units::Rate;

/// The sum of promises in a class on a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// The port.
    pub port: PortId,
    /// The class.
    pub class: String,
    /// The services, as numbers in [`Domain::services`].
    pub services: Vec<usize>,
    /// Their sum on the wire.
    pub promised: Rate,
    /// What the class is guaranteed there, on the wire.
    pub guaranteed: Rate,
}

/// A promise that cannot be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The service it is about, where it is about one.
    pub service: Option<usize>,
    /// The line of the file.
    pub line: u32,
    /// What is wrong.
    pub what: String,
    /// The smallest changes that would each make it right.
    pub changes: Vec<String>,
}
