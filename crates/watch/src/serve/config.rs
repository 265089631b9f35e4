// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The configuration of the service.

use crate::export::push::Sending;
use crate::look::probe::Target;
use crate::sources::Sources;
use crate::tls::Tls;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

/// A place to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// An address of this machine.
    Address(SocketAddr),
    /// A Unix socket.
    Socket(PathBuf),
}

/// Ends a process if it is still running, and describes how it ended.
pub type EndWeb = Box<dyn FnOnce() -> String + Send>;

/// The configuration of the service.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen; the list may be empty.
    pub listen: Vec<Listen>,
    /// Whether a proxy with authentication is in front, so that any address and any host name
    /// are allowed.
    pub behind_proxy: bool,
    /// The certificate for connections over IP.
    pub tls: Option<Tls>,
    /// The file of the access list.
    pub access: Option<PathBuf>,
    /// Local users who may see the data over loopback without an access list, besides root and
    /// the user of this process.
    pub users: Vec<u32>,
    /// Starts a process that calls [`web`](crate::web()) with this end of a channel.
    pub begin_web: fn(OwnedFd) -> io::Result<EndWeb>,
    /// The receivers of metrics.
    pub sending: Sending,
    /// The file of the history.
    pub history: PathBuf,
    /// The size of the file in bytes, if it is created.
    pub size: u64,
    /// The interval between looks.
    pub every: Duration,
    /// The hosts to probe.
    pub probes: Vec<Target>,
    /// The files on which the legend depends: when one of them changes, the legend is read
    /// again.
    pub sources: Sources,
}
