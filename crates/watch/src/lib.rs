// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Looks on: reads the kernel's counters every second, keeps their history, and
//! shows both to browsers and monitoring systems. It changes nothing.
//!
//! Start at [`serve`]. A [`Looker`] turns the kernel's answers into
//! [`Object`]s; a [`Differ`] turns those into what changed since the second
//! before; the changes go to the history (crate `history`), to the page and to
//! OpenMetrics. What classes are called and what they are promised is told by
//! the caller ([`Legend`]): the kernel does not know.
//!
//! Counters of devices, qdiscs and classes need no privilege; those of rules and
//! connections need CAP_NET_ADMIN (nfnetlink_rcv, net/netfilter/nfnetlink.c),
//! what packets tell that pass by CAP_BPF and CAP_PERFMON. What is not allowed
//! is left out.

mod access;
mod changed;
mod changes;
mod connections;
mod differ;
mod door;
mod http;
mod impatient;
mod kits;
mod legend;
mod line;
mod look;
mod metrics;
mod now;
mod object;
mod pages;
mod passed;
mod passing;
mod probe;
mod promise;
mod query;
mod reading;
mod room;
mod send;
mod service;
mod steps;
mod storage;
mod tls;

pub use access::{Access, password, token};
pub use connections::{ByPolicy, Flow, Sorted, Sorter};
pub use differ::{Change, Differ};
pub use legend::{ClassLegend, Legend, RuleLegend};
pub use line::LineNow;
pub use look::Looker;
pub use metrics::{Own, openmetrics};
pub use now::now;
pub use object::{METRICS, Metric, Number, Object, Sort};
pub use probe::{Target, target};
pub use promise::{By, Promise, Verdict, Wait, judge};
pub use query::Query;
pub use send::{Kind, Receiver, Sending};
pub use service::{Config, Listen, serve};
pub use steps::{Step, Steps};
pub use storage::FileStorage;
pub use tls::Tls;

use std::path::PathBuf;
use weirgate_history::HistoryError;
use weirgate_kernel::KernelError;

/// Why watching cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The kernel could not be asked.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The file of the history.
    #[error("{path}: {source}")]
    History {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: HistoryError,
    },
    /// Another watch writes this history.
    #[error("{0}: another `weirgate watch` writes this history; stop it, or name another file")]
    Busy(PathBuf),
    /// It cannot be listened there.
    #[error("{place}: {source}{}", remedy(source))]
    Listen {
        /// The address or path.
        place: String,
        /// Why not.
        source: std::io::Error,
    },
    /// Others than this machine could read everything.
    #[error(
        "{0} can be reached from other machines, and so needs TLS (`--tls-cert FILE --tls-key \
         FILE`) and names of those who may look (`--access FILE`; `weirgate watch admit` makes \
         it): {1}; else listen on 127.0.0.1 or a Unix socket, or say `--behind-proxy` where a proxy \
         with TLS and authentication stands before it and nothing else can reach it"
    )]
    Open(std::net::SocketAddr, &'static str),
    /// A certificate or its key.
    #[error("{path}: {why}")]
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The list of those who may look; each line of `why` begins where the file's
    /// name ends.
    #[error("{}", lines(path, why))]
    Access {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A probe cannot be sent.
    #[error(
        "probe {name}: {source}; where this is a matter of permission, let the group send echoes \
         by `net.ipv4.ping_group_range`"
    )]
    Probe {
        /// The probe's name.
        name: String,
        /// Why not.
        source: std::io::Error,
    },
}

/// What would be right, where an address cannot be listened at.
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
