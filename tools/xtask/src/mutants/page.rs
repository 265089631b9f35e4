// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of crates and their survivors.

use super::Outcome;
use super::explained::{Explained, FILE, reason};
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The page.
const PAGE: &str = "docs/measurements/mutants.md";

/// Writes the page.
pub(super) fn write(root: &Path, outcomes: &[Outcome], explained: &[Explained]) -> Result<()> {
    fs::write(root.join(PAGE), page(outcomes, explained)).context(PAGE)
}

fn page(outcomes: &[Outcome], explained: &[Explained]) -> String {
    let rows: Vec<String> = outcomes.iter().map(|one| row(one, explained)).collect();
    let mut text = format!(
        "<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->\n# Mutation testing\n\n\
         cargo-mutants changed these crates, one small change at a time, and ran the crate's own \
         tests, without those in its documentation. A change that no test detected survives. \
         `cargo xtask mutants` does it again and writes this page. It fails if 5 % of a crate's \
         changes survive, or if a survivor has no reason in `{FILE}`.\n\n\
         | crate | changes that compile | detected | survivors | with a reason | do not compile |\n\
         |---|---:|---:|---:|---:|---:|\n{}\n",
        rows.join("\n")
    );
    if !explained.is_empty() {
        text.push_str("\n## Survivors\n\n| change | why no test detects it |\n|---|---|\n");
    }
    for one in explained {
        let mutant = one.mutant.replace('|', "\\|");
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| `{mutant}` | {} |", one.why);
    }
    text
}

/// Returns a crate's row of the table.
pub(super) fn row(outcome: &Outcome, explained: &[Explained]) -> String {
    let reasons = outcome.missed.iter();
    let reasons = reasons
        .filter(|one| reason(explained, one).is_some())
        .count();
    format!(
        "| `{}` | {} | {} | {} | {reasons} | {} |",
        outcome.name,
        outcome.all(),
        outcome.caught,
        outcome.missed.len(),
        outcome.unviable
    )
}
