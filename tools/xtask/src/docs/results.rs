// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pages of the ledger, `docs/results/`, from `experiments/`, `results/` and the
//! table of promises.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use weirgate_ledger::{GROUPS, Row, group, index};

/// Which experiment holds which promise of the README.
const PROMISES: &str = "docs/measurements/promises.md";

/// The pages.
pub fn generated(root: &Path) -> Result<Vec<(PathBuf, String)>> {
    let rows = rows(root)?;
    let place = |file: &str| Path::new("docs/results").join(format!("{file}.md"));
    let mut pages = vec![(place("index"), index(&rows))];
    for (file, _, _) in GROUPS {
        pages.push((place(file), group(file, &rows)));
    }
    Ok(pages)
}

/// The experiments in order of name.
fn rows(root: &Path) -> Result<Vec<Row>> {
    let promises = fs::read_to_string(root.join(PROMISES)).context(PROMISES)?;
    let mut promises = promised(&promises);
    let mut files = Vec::new();
    for entry in fs::read_dir(root.join("experiments"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "toml") {
            files.push(path);
        }
    }
    files.sort();
    let mut rows = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file)?;
        let Some(experiment) = weirgate_experiment::parse(&text).0 else {
            bail!("{}: has mistakes", file.display());
        };
        let stored = root
            .join("results")
            .join(file.file_name().unwrap_or_default());
        let entry = match fs::read_to_string(&stored) {
            Ok(text) => match weirgate_ledger::parse(&text) {
                (Some(entry), _) => Some(entry),
                (None, problems) => bail!("{}: {problems:?}", stored.display()),
            },
            Err(_) => None,
        };
        rows.push(Row {
            holds: promises.remove(&experiment.name).unwrap_or_default(),
            experiment,
            entry,
        });
    }
    if let Some(unknown) = promises.keys().next() {
        bail!("{PROMISES}: there is no experiment `{unknown}`");
    }
    Ok(rows)
}

/// The promises of the table by the experiments that its second column names, as
/// `NAME.toml` in backticks.
fn promised(page: &str) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in page.lines().filter_map(|line| line.strip_prefix("| ")) {
        let Some((promise, held)) = row.split_once(" | ") else {
            continue;
        };
        let names = held
            .split('`')
            .filter_map(|word| word.strip_suffix(".toml"));
        for name in names {
            let name = name.trim_start_matches("experiments/").to_owned();
            found.entry(name).or_default().push(promise.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_are_found_by_experiment() {
        let page = "| promise | held by |\n|---|---|\n\
                    | Calm | `experiments/a.toml`, `b.toml`: at most 3 |\n\
                    | Fair | `crates/x/tests/y.rs`, `b.toml` |\n";
        let found = promised(page);
        let of = |name: &str| found.get(name).cloned().unwrap_or_default();
        assert_eq!(of("a"), ["Calm"]);
        assert_eq!(of("b"), ["Calm", "Fair"]);
        assert_eq!(found.len(), 2);
    }
}
