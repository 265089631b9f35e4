// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A measurement of a real line: its remote end, folder, log and results.

mod folder;
mod transcript;

pub use folder::RunFolder;
pub use transcript::{Log, captured};

use crate::exit::{Failure, Outcome, Status};
use crate::output;
use serde_json::Value;
use std::net::{SocketAddr, ToSocketAddrs};

/// The default port of `weirgate probe --serve`.
pub const PORT: u16 = 7887;

/// The result of a measurement.
pub struct Found {
    /// The result as text.
    pub text: String,
    /// The result as JSON.
    pub json: Value,
    /// Every echo as CSV, if there were any.
    pub echoes: Option<String>,
}

/// Prints a result as text or JSON.
pub fn print_found(found: &Found, json: bool) -> Outcome {
    if json {
        output::data(&format!("{:#}\n", found.json))?;
    } else {
        output::text(&found.text)?;
    }
    Ok(Status::Done)
}

/// Returns the address of a host; of several, the first that the system returns.
pub fn resolve(host: &str, port: u16) -> Result<SocketAddr, Failure> {
    let wrong = |why: String| Failure::Input(format!("weirgate: {host}: {why}"));
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let with_port = match (host.parse::<SocketAddr>(), bare.parse()) {
        (Ok(address), _) => return Ok(address),
        (_, Ok(address)) => return Ok(SocketAddr::new(address, port)),
        _ if host.contains(':') => host.to_owned(),
        _ => format!("{host}:{port}"),
    };
    let mut found = with_port
        .to_socket_addrs()
        .map_err(|error| wrong(error.to_string()))?;
    found
        .next()
        .ok_or_else(|| wrong("the name has no address".to_owned()))
}
