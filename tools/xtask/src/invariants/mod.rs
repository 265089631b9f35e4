// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the rules of ARCHITECTURE.md and CONTRIBUTING.md.

mod algorithm;
mod circles;
mod crates;
mod features;
mod paths;
mod prose;
mod repeats;
mod size;
mod source;

pub use crates::PURE;
pub use source::UNSAFE;

use crate::files::text;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Checks every crate and reports all findings at once.
pub fn run(root: &Path) -> Result<()> {
    let mut findings = Vec::new();
    for entry in fs::read_dir(root.join("crates")).context("crates/")? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        crates::check_dependencies(&name, &path, &mut findings)?;
        circles::check(root, &path.join("src"), &mut findings)?;
        for file in rust_files(&path.join("src"))? {
            source::check_source(root, &name, &file, &mut findings)?;
        }
        for file in rust_files(&path.join("tests"))? {
            source::check_source(root, &name, &file, &mut findings)?;
        }
    }
    for entry in fs::read_dir(root.join("tools")).context("tools/")? {
        circles::check(root, &entry?.path().join("src"), &mut findings)?;
    }
    let own = files_ending(&root.join("aqm"), &["c", "h"])?;
    for file in &own {
        algorithm::check_algorithm(file, &own, &mut findings)?;
    }
    let sources = tracked(root, repeats::counts)?;
    repeats::check(&sources, &mut findings);
    size::check(&sources, &mut findings);
    prose::check(&tracked(root, prose::counts)?, &mut findings);
    features::check(root, &mut findings)?;
    report(root, findings)
}

#[allow(clippy::print_stdout, reason = "the findings are this task's result")]
fn report(root: &Path, mut findings: Vec<String>) -> Result<()> {
    findings.sort();
    for finding in &findings {
        println!("{}", finding.replace(&format!("{}/", root.display()), ""));
    }
    if !findings.is_empty() {
        bail!(
            "{} findings against ARCHITECTURE.md or CONTRIBUTING.md",
            findings.len()
        );
    }
    Ok(())
}

/// Returns the files that git tracks and `counts` selects, from the project's root, with their
/// text.
fn tracked(root: &Path, counts: impl Fn(&str) -> bool) -> Result<Vec<(String, String)>> {
    let mut git = Command::new("git");
    let listed = text(git.current_dir(root).args(["ls-files", "-z"]))?;
    let mut files = Vec::new();
    for place in listed.split('\0') {
        // A deleted file is still tracked until the deletion is committed.
        if counts(place) && root.join(place).is_file() {
            files.push((place.to_owned(), fs::read_to_string(root.join(place))?));
        }
    }
    ensure!(!files.is_empty(), "git lists none of the files to check");
    Ok(files)
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    files_ending(folder, &["rs"])
}

fn files_ending(folder: &Path, endings: &[&str]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        // A crate may have no folder of tests.
        if !folder.is_dir() {
            continue;
        }
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| endings.iter().any(|ending| extension == *ending))
            {
                files.push(path);
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_files_of_git_nothing_is_checked() {
        let folder = tempfile::tempdir().unwrap();
        assert!(tracked(folder.path(), |_| true).is_err(), "no repository");
        assert!(tracked(&crate::root(), |_| false).is_err(), "no file");
        assert!(!tracked(&crate::root(), repeats::counts).unwrap().is_empty());
    }
}
