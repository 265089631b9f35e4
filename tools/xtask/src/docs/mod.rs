// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The documents: generated pictures and lists, links, and the book.

mod commands;
mod disciplines;
mod links;
mod map;
mod pages;
mod picture;

use crate::files::program;
use anyhow::{Context, Result, bail};
pub use pages::pages;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of this project's own installation of mdbook.
const TOOLS: &str = "target/tools/mdbook";

/// The folder of the built book.
const BOOK: &str = "target/book";

/// Writes the generated files, checks all pages, and builds the book.
pub fn build(root: &Path) -> Result<()> {
    for (path, text) in generated(root)? {
        fs::write(root.join(&path), text).with_context(|| path.display().to_string())?;
    }
    crate::command::run(crate::command::cargo(root).args([
        "build",
        "--release",
        "--workspace",
        "--bins",
    ]))?;
    results(root, &[])?;
    check(root)?;
    let mdbook = mdbook(root)?;
    crate::command::run(Command::new(mdbook).arg("build").arg(root.join("docs")))?;
    report(links::of_book(&root.join(BOOK))?)
}

/// Writes or compares the pages of the ledger with the lab's program.
pub fn results(root: &Path, words: &[&str]) -> Result<()> {
    let mut pages = Command::new(program(root, "weirgate-lab"));
    pages.args(["results", "pages", "docs/results"]);
    pages.args(["--promises", "docs/measurements/promises.md"]);
    crate::command::run(pages.args(words).current_dir(root))
}

/// Compares the generated files, and checks links and the map of the crates.
pub fn check(root: &Path) -> Result<()> {
    let mut findings = links::of_pages(root)?;
    findings.extend(map::check(root)?);
    for (path, text) in generated(root)? {
        if fs::read_to_string(root.join(&path)).ok().as_ref() != Some(&text) {
            findings.push(format!(
                "{}: is not what `cargo xtask docs` writes",
                path.display()
            ));
        }
    }
    report(findings)
}

/// Returns the generated files by their paths from the root.
fn generated(root: &Path) -> Result<Vec<(PathBuf, String)>> {
    let readme = fs::read_to_string(root.join("README.md")).context("README.md")?;
    let mut files = vec![
        (
            PathBuf::from("docs/before-after.svg"),
            picture::draw(&readme)?,
        ),
        (
            PathBuf::from("docs/reference/commands.md"),
            commands::page(&root.join("docs/reference/man"))?,
        ),
    ];
    files.extend(disciplines::generated(root)?);
    Ok(files)
}

/// Returns the program mdbook: an installed one, or one that is built for this project.
fn mdbook(root: &Path) -> Result<PathBuf> {
    let found = Command::new("mdbook").arg("--version").output();
    if found.is_ok_and(|output| output.status.success()) {
        return Ok(PathBuf::from("mdbook"));
    }
    let own = root.join(TOOLS).join("bin/mdbook");
    if !own.exists() {
        let install = ["install", "--locked", "--debug", "--no-default-features"];
        let mut cargo = Command::new("cargo");
        cargo.args(install).args(["--features", "search", "--root"]);
        crate::command::run(cargo.arg(root.join(TOOLS)).arg("mdbook"))?;
    }
    Ok(own)
}

#[allow(clippy::print_stdout, reason = "the findings are this task's result")]
fn report(mut findings: Vec<String>) -> Result<()> {
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} findings in the documents", findings.len());
    }
    Ok(())
}
