// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The states of tc-testing, the kernel's suite for tc. Each is decoded and replaced by a policy,
//! and must be restored when the policy is removed.

mod case;
mod inside;
mod report;
mod shares;

use crate::kept::Kept;
use crate::machine::{LIMITS, ematches, lab, lines};
use crate::page::selected;
use crate::process;
use anyhow::{Context, Result};
use inside::{CaseResult, FOLDER, Outcome};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;
use weirgate_lab::Lab;

pub use inside::{differing, dump, run};
pub use report::text;

/// The folder of the suite in the kernel's source.
const SUITE: &str = "tools/testing/selftests/tc-testing/tc-tests";

/// Programs that cases use, and that show a state.
const PROGRAMS: [&str; 16] = [
    "bash", "cat", "echo", "ethtool", "grep", "ip", "mkdir", "nft", "ping", "rm", "seq", "sh",
    "sleep", "tc", "timeout", "true",
];

/// The results of a file.
pub struct File {
    /// The file's path in the suite, such as `qdiscs/red.json`.
    pub name: String,
    pub results: Vec<CaseResult>,
}

/// The number of files in one machine: booting takes as long as a few cases.
const BATCH: usize = 4;

/// Runs the files of the suite whose name contains `only`. Returns the results, and the names of
/// files that were not begun before `until`.
///
/// # Errors
///
/// Fails if there is no suite or no laboratory.
pub fn states(
    source: &Path,
    only: &str,
    until: Option<Instant>,
) -> Result<(Vec<File>, Vec<String>)> {
    let lab = lab(PROGRAMS)?;
    let release = &lab.kernel().release;
    let kept = Kept::of("tc-testing", &[release, &version()?, inside::POLICIES])?;
    let (mut files, mut left) = (Vec::new(), Vec::new());
    for (name, path) in suite(&source.join(SUITE), only)? {
        let text = fs::read(&path).with_context(|| path.display().to_string())?;
        match kept.read(&text) {
            Some(results) => files.push(File { name, results }),
            None => left.push((name, text)),
        }
    }
    let mut begun = 0;
    for batch in left.chunks(BATCH) {
        if until.is_some_and(|until| Instant::now() > until) {
            break;
        }
        begun += batch.len();
        let found = match together(&lab, batch) {
            // One of the files crashed the machine; find out which.
            Err(_) if batch.len() > 1 => alone(&lab, batch)?,
            Err(error) => ended(&batch[0], &error)?,
            Ok(found) => found,
        };
        for (file, (_, text)) in found.iter().zip(batch) {
            kept.write(text, &file.results)?;
        }
        files.extend(found);
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    let left = left.into_iter().skip(begun).map(|(name, _)| name);
    Ok((files, left.collect()))
}

/// Runs each file in a separate machine.
fn alone(lab: &Lab, files: &[Text]) -> Result<Vec<File>> {
    let mut found = Vec::new();
    for one in files {
        let results = together(lab, std::slice::from_ref(one));
        found.extend(results.or_else(|error| ended(one, &error))?);
    }
    Ok(found)
}

/// The name of a file, and its contents.
type Text = (String, Vec<u8>);

/// Runs files in one machine.
fn together(lab: &Lab, batch: &[Text]) -> Result<Vec<File>> {
    let paths: Vec<String> = (0..batch.len())
        .map(|number| format!("{FOLDER}/{number}.json"))
        .collect();
    let texts = batch.iter().map(|(_, text)| &**text);
    let (place, ematches) = ematches()?;
    let files: Vec<(&str, &[u8])> = paths
        .iter()
        .map(|path| &**path)
        .zip(texts)
        .chain([(place, &*ematches)])
        .collect();
    let words = ["outside", "inside", "tdc"];
    let output = lab.execute(&words, &files, (1, LIMITS), &mut |_| ())?;
    let results: Vec<CaseResult> = lines(&output)?;
    let file = |(number, (name, _)): (usize, &Text)| {
        let own = results.iter().filter(|one| one.file == number);
        let own: Vec<CaseResult> = own.cloned().collect();
        for one in &own {
            eprintln!("{name} {} {:?}", one.id, one.outcome);
        }
        let name = name.clone();
        File { name, results: own }
    };
    Ok(batch.iter().enumerate().map(file).collect())
}

/// Returns the results of a file that crashes the machine: all its cases failed.
fn ended((name, text): &Text, error: &anyhow::Error) -> Result<Vec<File>> {
    let text = String::from_utf8_lossy(text);
    let cases = case::cases(&text).context(name.clone())?;
    let results = cases.into_iter().map(|case| CaseResult {
        file: 0,
        id: case.id,
        name: case.name,
        outcome: Outcome::Failed(format!("the machine ended: {error:#}")),
    });
    Ok(vec![File {
        name: name.clone(),
        results: results.collect(),
    }])
}

/// Returns the version of this machine's tc.
///
/// # Errors
///
/// Fails if there is no tc.
pub fn version() -> Result<String> {
    let done = process::direct(&["tc", "-V"])?;
    let words: Vec<&str> = done.output.split(&[' ', ','][..]).collect();
    let named = words.iter().find(|word| word.starts_with("iproute2"));
    Ok(named.map_or("an unknown tc", |word| *word).to_owned())
}

/// Returns the files of the suite, by folder and name.
fn suite(root: &Path, only: &str) -> Result<Vec<(String, PathBuf)>> {
    let mut files = Vec::new();
    for folder in ["qdiscs", "filters", "infra", "actions"] {
        let path = root.join(folder);
        for entry in fs::read_dir(&path).with_context(|| path.display().to_string())? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let name = format!("{folder}/{name}");
            if path.extension().is_some_and(|kind| kind == "json") && name.contains(only) {
                files.push((name, path));
            }
        }
    }
    files.sort();
    selected(files, only)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_no_file_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["qdiscs", "filters", "infra", "actions"] {
            fs::create_dir(root.path().join(folder)).unwrap();
        }
        fs::write(root.path().join("qdiscs/red.json"), "[]").unwrap();
        let of = |only| suite(root.path(), only).map(|files| files.len()).ok();
        assert_eq!(of("qdiscs/red"), Some(1));
        assert_eq!(of("qdisc/red"), None);
    }
}
