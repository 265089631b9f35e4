// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the reasons of surviving mutants.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The file of reasons.
pub(super) const FILE: &str = "tests/mutants.toml";

/// A survivor, and why it is none of the tests' business.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Explained {
    /// The file and the change, as cargo-mutants names them, without line and column.
    pub(super) mutant: String,
    /// The reason, in one sentence.
    pub(super) why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    survivor: Vec<Explained>,
}

/// Reads the file.
pub(super) fn read(root: &Path) -> Result<Vec<Explained>> {
    let text = fs::read_to_string(root.join(FILE)).context(FILE)?;
    let file: File = toml::from_str(&text).context(FILE)?;
    let mut seen = BTreeSet::new();
    for one in &file.survivor {
        ensure!(seen.insert(&one.mutant), "{FILE}: twice: {}", one.mutant);
        ensure!(!one.why.is_empty(), "{FILE}: no reason: {}", one.mutant);
    }
    Ok(file.survivor)
}

/// Returns the reason of a survivor.
pub(super) fn reason<'a>(explained: &'a [Explained], mutant: &str) -> Option<&'a str> {
    let found = explained.iter().find(|one| one.mutant == mutant);
    found.map(|one| one.why.as_str())
}
