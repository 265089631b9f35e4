// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The record of all runs: a file to which each run adds, and the page that is generated from it.

use super::targets::TARGETS;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;

const FOLDER: &str = "fuzz";
const RECORD: &str = "fuzz/record.toml";
const PAGE: &str = "docs/measurements/fuzzing.md";

/// The head of the file.
const HEAD: &str = "# SPDX-License-Identifier: Apache-2.0 OR MIT
# Written by `cargo xtask fuzz`. Whoever mends a finding moves its name from `open` to
# `mended`, with a word about what it was.

";

/// The record by target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Record(BTreeMap<String, Tried>);

/// The sums of all runs of a target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// The processor time in seconds.
    pub processor_s: f64,
    /// The number of inputs.
    pub executions: u64,
    /// The branches that the last completed run covered.
    pub branches: u32,
    /// Findings that are not fixed yet, by the names of their files.
    #[serde(default)]
    pub open: Vec<String>,
    /// Fixed findings, with descriptions.
    #[serde(default)]
    pub mended: Vec<String>,
}

impl Record {
    pub fn read(root: &Path) -> Result<Self> {
        match fs::read_to_string(root.join(RECORD)) {
            Ok(text) => toml::from_str(&text).context(RECORD),
            Err(_) => Ok(Self::default()),
        }
    }

    fn write(&self, root: &Path) -> Result<()> {
        let text = format!("{HEAD}{}", toml::to_string(self)?);
        fs::write(root.join(RECORD), text).context(RECORD)
    }

    /// Returns how many inputs a target has had so far.
    pub fn executions(root: &Path, target: &str) -> Result<u64> {
        let _alone = alone(root)?;
        let record = Self::read(root)?;
        Ok(record.0.get(target).map_or(0, |tried| tried.executions))
    }

    /// Adds a run to a target's sums in the file. Other runs may do so concurrently.
    pub fn add(root: &Path, target: &str, run: Tried) -> Result<()> {
        let _alone = alone(root)?;
        let mut record = Self::read(root)?;
        let all = record.0.entry(target.to_owned()).or_default();
        all.processor_s = ((all.processor_s + run.processor_s) * 10.0).round() / 10.0;
        all.executions += run.executions;
        if run.branches > 0 {
            all.branches = run.branches;
        }
        all.open.extend(run.open);
        record.write(root)
    }

    /// Writes the page.
    pub fn page(&self, root: &Path) -> Result<()> {
        fs::write(root.join(PAGE), self.text()?).context(PAGE)
    }

    fn text(&self) -> Result<String> {
        let mut text = String::from(
            "<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->
<!-- Made by `cargo xtask fuzz --page`; do not edit. -->
# Fuzzing

Each target is fed by [libFuzzer](https://llvm.org/docs/LibFuzzer.html) with inputs that are developed by the branches which they reach. `make fuzz` runs each for ten minutes: first with a mistake that was planted and must be found, then without it. A run that finds something, or sees fewer branches than its floor, fails. `make test` runs every seed once.

Hours are of one processor, added up over all runs. Branches are those of the last run.

| target | what is read | hours | inputs | branches | floor | findings |
|---|---|---|---|---|---|---|
",
        );
        let mut all = Tried::default();
        for target in TARGETS {
            let tried = self.0.get(target.name).cloned().unwrap_or_default();
            let found = tried.open.len() + tried.mended.len();
            writeln!(
                text,
                "| `{}` | {} | {:.2} | {} | {} | {} | {found} |",
                target.name,
                target.reads,
                tried.processor_s / 3600.0,
                grouped(tried.executions),
                grouped(tried.branches.into()),
                grouped(target.floor.into()),
            )?;
            all.processor_s += tried.processor_s;
            all.executions += tried.executions;
        }
        writeln!(
            text,
            "\nTogether {:.2} hours and {} inputs.\n\n## Findings\n",
            all.processor_s / 3600.0,
            grouped(all.executions)
        )?;
        let found = |of: fn(&Tried) -> &Vec<String>| {
            let each = |(name, tried): (&String, &Tried)| {
                let line = |one: &String| format!("- `{name}`: {one}\n");
                of(tried).iter().map(line).collect::<String>()
            };
            let lines: String = self.0.iter().map(each).collect();
            if lines.is_empty() {
                String::from("None.\n")
            } else {
                lines
            }
        };
        let (mended, open) = (found(|tried| &tried.mended), found(|tried| &tried.open));
        write!(text, "Mended:\n\n{mended}\nOpen:\n\n{open}")?;
        Ok(text)
    }
}

/// Locks the record against other runs while the returned file exists.
fn alone(root: &Path) -> Result<File> {
    let folder = File::open(root.join(FOLDER)).context(FOLDER)?;
    folder.lock().context(FOLDER)?;
    Ok(folder)
}

/// Formats a number with its thousands separated.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_add_up() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("fuzz")).unwrap();
        let run = |branches, open: &[&str]| Tried {
            processor_s: 1800.0,
            executions: 1_500,
            branches,
            open: open.iter().map(|one| (*one).to_owned()).collect(),
            mended: Vec::new(),
        };
        Record::add(folder.path(), "uci", run(70, &[])).unwrap();
        // A run that ended early has no valid coverage.
        Record::add(folder.path(), "uci", run(0, &["crash-1"])).unwrap();
        let record = Record::read(folder.path()).unwrap();
        assert_eq!(Record::executions(folder.path(), "uci").unwrap(), 3_000);
        assert_eq!(Record::executions(folder.path(), "web").unwrap(), 0);
        let text = record.text().unwrap();
        assert!(text.contains(" 1.00 | 3,000 | 70 | "), "{text}");
        assert!(text.contains("Mended:\n\nNone.\n\nOpen:\n\n- `uci`: crash-1\n"));
    }
}
