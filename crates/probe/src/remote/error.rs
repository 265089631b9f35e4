// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of measurements with a host that only replies.

use crate::bound::OutOfRange;
use std::io;

/// The reason why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The kernel does not allow echoes here.
    #[error(
        "ICMP echoes are not allowed here; let your group send them (as root: \
         `sysctl net.ipv4.ping_group_range=\"0 2147483647\"`), or name an irtt server with --irtt"
    )]
    Forbidden,
    /// The peer does not answer.
    #[error("{0} does not answer")]
    Silent(String),
    /// The peer refuses.
    #[error("{0} refuses")]
    Refused(String),
    /// The answer violates the protocol.
    #[error("{0}")]
    Strange(String),
    /// The peer reports an impossible number.
    #[error("{peer} sends a number that is out of range: {what}")]
    OutOfRange {
        /// The peer.
        peer: String,
        /// The number and its bounds.
        what: OutOfRange,
    },
    /// A socket failed.
    #[error("the socket failed: {0}")]
    Socket(#[from] io::Error),
}

impl From<rustix::io::Errno> for RemoteError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Socket(error.into())
    }
}

impl RemoteError {
    /// Returns a function that makes the error for a peer.
    pub(crate) fn out_of_range(peer: String) -> impl FnOnce(OutOfRange) -> Self {
        move |what| Self::OutOfRange { peer, what }
    }
}
