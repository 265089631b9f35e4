// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ledger's pages, from experiments, their stored results and a table of promises.

use super::Ledger;
use crate::folder;
use std::collections::BTreeMap;
use std::path::Path;
use weirgate_console::exit::{Failure, wrong};
use weirgate_console::source;
use weirgate_ledger::{GROUPS, Row, group, index, plot};

impl Ledger {
    /// Returns the pages in Markdown by file name: one that lists all experiments, and one for each
    /// group; and a plot in SVG for each stored result. `promises` is a page with a table of promises and the experiments that verify each.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read or has mistakes, or if the table names an unknown experiment.
    pub fn pages(&self, promises: &Path) -> Result<BTreeMap<String, String>, Failure> {
        let rows = self.rows(promises)?;
        let mut pages = BTreeMap::from([("index.md".to_owned(), index(&rows))]);
        for (file, _, _) in GROUPS {
            pages.insert(format!("{file}.md"), group(file, &rows));
        }
        for row in &rows {
            if let Some(plot) = row.entry.as_ref().and_then(plot) {
                pages.insert(format!("{}.svg", row.experiment.name), plot);
            }
        }
        Ok(pages)
    }

    fn rows(&self, promises: &Path) -> Result<Vec<Row>, Failure> {
        let mut held = promised(&source::read(promises)?);
        let mut rows = Vec::new();
        for (name, file) in self.files()? {
            let text = source::read(&file)?;
            rows.push(Row {
                holds: held.remove(&name).unwrap_or_default(),
                experiment: source::parse(&file, &text, weirgate_experiment::parse)?,
                entry: self.stored(&name)?,
            });
        }
        match held.keys().next() {
            Some(unknown) => Err(wrong(format!(
                "{}: there is no experiment `{unknown}`",
                promises.display()
            ))),
            None => Ok(rows),
        }
    }
}

/// Returns the promises of the table by the experiments in its second column, which has
/// `experiments/PLACE.toml` in backticks.
fn promised(page: &str) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in page.lines().filter_map(|line| line.strip_prefix("| ")) {
        let Some((promise, held)) = row.split_once(" | ") else {
            continue;
        };
        let places = held
            .split('`')
            .filter_map(|word| word.strip_prefix("experiments/"));
        for place in places {
            let name = folder::name(Path::new(place));
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
                    | Calm | `experiments/a/1.toml`, `experiments/b.toml`: at most 3 |\n\
                    | Fair | `crates/x/tests/y.rs`, `experiments/b.toml` |\n";
        let found = promised(page);
        let of = |name: &str| found.get(name).cloned().unwrap_or_default();
        assert_eq!(of("a-1"), ["Calm"]);
        assert_eq!(of("b"), ["Calm", "Fair"]);
        assert_eq!(found.len(), 2);
    }
}
