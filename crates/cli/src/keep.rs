// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate keep`: the service, as a process: signals, log, systemd.

use crate::exit::{Outcome, Status};
use crate::output;
use crate::shape::{in_runtime, refused, site};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use tokio::signal::unix::{SignalKind, signal};
use weirgate_keep::{Report, keep};

/// Keeps the confirmed state in force until SIGTERM or SIGINT.
pub fn run(state: &Path) -> Outcome {
    in_runtime(async {
        let site = site(state)?;
        let mut term = signal(SignalKind::terminate())?;
        let mut int = signal(SignalKind::interrupt())?;
        let stop = async move {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
        };
        let following = crate::track::following;
        keep(&site, stop, following, ready, |report| {
            output::note(&line(&report));
        })
        .await
        .map_err(refused)?;
        Ok(Status::Done)
    })
}

fn line(report: &Report) -> String {
    match report {
        Report::Mended { steps, pause } => {
            format!("weirgate: {steps} steps taken; the next in {pause} ms at the earliest")
        }
        Report::Refreshed { sets } => {
            format!("weirgate: {sets} sets have new addresses of DNS names")
        }
        Report::Rates(now) => {
            let lines = crate::track::lines(now).join("; ");
            format!("weirgate: the line: {lines}")
        }
        Report::NotFollowed(error) => {
            format!("weirgate: the rate of the line is not followed: {error}")
        }
        Report::NotFound(names) => {
            format!("weirgate: not looked up: {}", names.join("; "))
        }
        Report::Failed { error, pause } => format!("weirgate: {error}; again in {pause} ms"),
    }
}

/// Tells systemd that the service has begun its work (`sd_notify(3)`).
pub fn ready() {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let bytes = name.as_bytes();
    let address = match bytes.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&name),
    };
    // Whoever set the variable and does not listen needs no word.
    if let (Ok(address), Ok(socket)) = (address, UnixDatagram::unbound()) {
        let _ = socket.send_to_addr(b"READY=1", &address);
    }
}
