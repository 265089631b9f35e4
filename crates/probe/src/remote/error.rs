// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a measurement with a host that only replies failed.

use crate::bound::OutOfRange;
use std::io;

/// Why a measurement ended.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The kernel lets nobody send echoes here.
    #[error(
        "ICMP echoes are not allowed here; let your group send them (as root: \
         `sysctl net.ipv4.ping_group_range=\"0 2147483647\"`), or name an irtt server with --irtt"
    )]
    Forbidden,
    /// It does not answer.
    #[error("{0} does not answer")]
    Silent(String),
    /// It does not want to.
    #[error("{0} refuses")]
    Refused(String),
    /// It answers something else than the protocol has.
    #[error("{0}")]
    Strange(String),
    /// It reports a number that cannot be.
    #[error("{peer} sends a number that is out of range: {what}")]
    OutOfRange {
        /// Who reported it.
        peer: String,
        /// Which number it is, and its bounds.
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
    /// The error of a peer that reported such a number.
    pub(crate) fn out_of_range(peer: String) -> impl FnOnce(OutOfRange) -> Self {
        move |what| Self::OutOfRange { peer, what }
    }
}
