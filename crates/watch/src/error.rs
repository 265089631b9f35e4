// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors while watching.

use std::path::PathBuf;
use weirgate_history::HistoryError;
use weirgate_kernel::KernelError;

/// The reason why watching cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// A query of the kernel failed.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The file of the history cannot be used.
    #[error("{path}: {source}")]
    History {
        /// The file.
        path: PathBuf,
        /// The problem.
        source: HistoryError,
    },
    /// Another process writes this history.
    #[error("{0}: another `weirgate watch` writes this history; stop it, or name another file")]
    Busy(PathBuf),
    /// Listening failed.
    #[error("{place}: {source}{}", remedy(source))]
    Listen {
        /// The address or path.
        place: String,
        /// The reason.
        source: std::io::Error,
    },
    /// The process that answers requests could not start, or was not confined.
    #[error("the web process: {0}")]
    Web(String),
    /// Other machines could read all data.
    #[error(
        "{0} can be reached from other machines, and so needs TLS (`--tls-cert FILE --tls-key \
         FILE`) and an access list (`--access FILE`; `weirgate watch admit` makes it): {1}; or \
         listen on 127.0.0.1 or a Unix socket, or write `--behind-proxy` if only a proxy with TLS and \
         authentication can reach it"
    )]
    Open(std::net::SocketAddr, &'static str),
    /// A certificate or its key cannot be used.
    #[error("{path}: {why}")]
    Tls {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// The access list is malformed. Each line of `why` continues the name of the file.
    #[error("{}", lines(path, why))]
    Access {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// Two probes have one name.
    #[error("two probes are called {0}; give each a name of its own")]
    Twice(String),
    /// A probe cannot be sent.
    #[error(
        "probe {name}: {source}; where this is a matter of permission, let the group send echoes \
         by `net.ipv4.ping_group_range`"
    )]
    Probe {
        /// The probe's name.
        name: String,
        /// The reason.
        source: std::io::Error,
    },
}

/// Returns a hint for an address on which listening failed.
fn remedy(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            "; another program listens there: name another port or path"
        }
        std::io::ErrorKind::AddrNotAvailable => "; this machine does not have that address",
        std::io::ErrorKind::PermissionDenied => {
            "; ports below 1024 take CAP_NET_BIND_SERVICE, and a socket a folder to write in"
        }
        _ => "",
    }
}

fn lines(path: &std::path::Path, why: &str) -> String {
    let lines = why.lines();
    let named: Vec<String> = lines
        .map(|line| format!("{}{line}", path.display()))
        .collect();
    named.join("\n")
}
