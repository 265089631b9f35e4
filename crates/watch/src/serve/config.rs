// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The configuration of the service.

use crate::export::push::Sending;
use crate::look::probe::Target;
use crate::tls::Tls;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// An address of this machine.
    Address(SocketAddr),
    /// A Unix socket.
    Socket(PathBuf),
}

/// Ends a process if it has not ended, and says how it did.
pub type EndWeb = Box<dyn FnOnce() -> String + Send>;

/// The configuration of the service.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen; nowhere is allowed.
    pub listen: Vec<Listen>,
    /// A proxy with authentication is in front: any address and any host name are allowed.
    pub behind_proxy: bool,
    /// The certificate to show at addresses.
    pub tls: Option<Tls>,
    /// The file of those who may look.
    pub access: Option<PathBuf>,
    /// Users of this machine who may look over loopback where there is no such file,
    /// besides root and the one that this process runs as.
    pub users: Vec<u32>,
    /// Begins a process that calls [`web`](crate::web()) with this end of a channel.
    pub begin_web: fn(OwnedFd) -> io::Result<EndWeb>,
    /// Whom to send numbers to.
    pub sending: Sending,
    /// The history's file.
    pub history: PathBuf,
    /// How many bytes it may grow to, where it is made.
    pub size: u64,
    /// How often to look.
    pub every: Duration,
    /// Whom to probe.
    pub probes: Vec<Target>,
    /// The files behind the legend: when one of these changes, the legend is requested again.
    pub sources: Vec<PathBuf>,
}
