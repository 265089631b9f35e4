// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate services`: the services that rules may name.

use serde_json::json;
use weirgate_console::exit::{Outcome, Status};
use weirgate_console::output;
use weirgate_policy::described_services;

/// Prints the name and the description of each service, as a table or as JSON.
pub fn run(json: bool) -> Outcome {
    let services = described_services();
    if json {
        output::data(&format!("{:#}", json!(services)))?;
        return Ok(Status::Done);
    }
    let width = services.keys().map(String::len).max().unwrap_or(0);
    let lines: Vec<String> = services
        .iter()
        .map(|(name, about)| format!("{name:width$}  {about}"))
        .collect();
    output::text(&lines.join("\n"))?;
    Ok(Status::Done)
}
