// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Remembers since when each promise is kept or broken, in a file beside the domain's.

use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use weirgate_console::exit::Failure;
use weirgate_domain::{Quantity, Since, State};
use weirgate_units::Inserted as _;

/// A line of the record.
#[derive(Serialize, Deserialize)]
struct Remembered {
    service: String,
    what: String,
    kept: bool,
    promised: f64,
    since: String,
}

/// Returns the default path of the record.
pub fn beside(domain: &Path) -> PathBuf {
    domain.with_extension("verified.json")
}

const QUANTITIES: [Quantity; 4] = [
    Quantity::Rate,
    Quantity::Delay,
    Quantity::Jitter,
    Quantity::Loss,
];

/// Reads the record; a missing file counts as empty.
pub(super) fn read(path: &Path) -> Result<Since, Failure> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Since::new()),
        Err(error) => {
            return Err(Failure::Input(format!(
                "weirgate: {}: {error}",
                path.display()
            )));
        }
    };
    let all: Vec<Remembered> = serde_json::from_slice(text.as_bytes()).map_err(|error| {
        Failure::Input(format!(
            "weirgate: {}: is no record of `domain verify`: {error}; name another by --record",
            path.display()
        ))
    })?;
    let one = |one: Remembered| {
        let mut known = QUANTITIES.into_iter();
        let what = known.find(|known| known.to_string() == one.what)?;
        let state = State {
            kept: one.kept,
            promised: one.promised,
            when: one.since,
        };
        Some(((one.service, what), state))
    };
    Ok(all.into_iter().filter_map(one).inserted())
}

/// Writes the record.
pub(super) fn write(path: &Path, since: &Since) -> Result<(), Failure> {
    let all = since.iter().map(|((service, what), state)| Remembered {
        service: service.clone(),
        what: what.to_string(),
        kept: state.kept,
        promised: state.promised,
        since: state.when.clone(),
    });
    let all: Vec<Remembered> = all.collect();
    let text = format!("{}\n", serde_json::to_string_pretty(&all)?);
    fs::write(path, text).map_err(|error| {
        Failure::Other(anyhow::anyhow!(
            "{}: since when this is so cannot be kept: {error}",
            path.display()
        ))
    })
}
