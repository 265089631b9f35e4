// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the pages for engineers. The map of ARCHITECTURE.md must have every crate, the pages must
//! agree with the checks of crates, and every path must exist.

use crate::invariants::{PURE, UNSAFE};
use anyhow::Result;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The folders in which paths of the project begin.
const FOLDERS: [&str; 11] = [
    "aqm/",
    "bpf/",
    "crates/",
    "docs/",
    "domains/",
    "experiments/",
    "fuzz/",
    "packaging/",
    "policies/",
    "tests/",
    "tools/",
];

/// The maximum sizes of pages for quick reading: lines of the README, bytes of ARCHITECTURE.md.
const README_LINES: usize = 150;
const ARCHITECTURE_BYTES: usize = 8_000;

/// Returns crates that the map lacks, paths that do not exist, and pages that are too long.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let map = fs::read_to_string(root.join("ARCHITECTURE.md"))?;
    let bytes = map.len();
    if bytes > ARCHITECTURE_BYTES {
        findings.push(format!(
            "ARCHITECTURE.md: {bytes} bytes, where {ARCHITECTURE_BYTES} are the most"
        ));
    }
    let lines = fs::read_to_string(root.join("README.md"))?.lines().count();
    if lines > README_LINES {
        findings.push(format!(
            "README.md: {lines} lines, where {README_LINES} are the most"
        ));
    }
    for entry in fs::read_dir(root.join("crates"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !map.contains(&format!("\n| `{name}` |")) {
            findings.push(format!("ARCHITECTURE.md: the map lacks `{name}`"));
        }
    }
    for (sentence, crates) in [
        ("They are ", &PURE[..]),
        ("`unsafe` stands only in ", &UNSAFE),
    ] {
        let named = map.split_once(sentence).map_or("", |(_, rest)| rest);
        let named = named.split('.').next().unwrap_or_default();
        let named: BTreeSet<&str> = named.split('`').skip(1).step_by(2).collect();
        if named != crates.iter().copied().collect() {
            findings.push(format!("ARCHITECTURE.md: \"{sentence}...\" are {crates:?}"));
        }
    }
    for page in super::pages::pages(root)? {
        let engineers = ["ARCHITECTURE.md", "CONTRIBUTING.md"];
        let for_engineers = page.starts_with("docs/adding")
            || page.starts_with("docs/decisions")
            || engineers.iter().any(|name| page == Path::new(name));
        if !for_engineers {
            continue;
        }
        let text = fs::read_to_string(root.join(&page))?;
        for path in paths(&text).filter(|path| !root.join(path).exists()) {
            findings.push(format!("{}: `{path}` is not there", page.display()));
        }
    }
    for line in map.lines().filter_map(|line| line.strip_prefix("| `")) {
        let name = line.split('`').next().unwrap_or_default();
        if !root.join("crates").join(name).exists() {
            findings.push(format!("ARCHITECTURE.md: there is no crate `{name}`"));
        }
    }
    Ok(findings)
}

/// Returns the paths in backticks, and names of source files without a path. Those with a
/// placeholder (`NAME`) or a pattern are left out.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let code = text
        .lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    code.filter(|word| {
        let plain = |c: char| !matches!(c, '*' | ' ' | '{' | '<') && !c.is_uppercase();
        let source = [".rs", ".c", ".h"].iter().any(|end| word.ends_with(end));
        let path = source || FOLDERS.iter().any(|folder| word.starts_with(folder));
        path && word.chars().all(plain)
    })
}

#[cfg(test)]
mod tests {
    use super::paths;

    #[test]
    fn paths_stand_between_backticks() {
        let text = "See `crates/units`, crates/other, `a.rs` and `aqm/NAME.c` or `docs/*.md`.";
        assert!(paths(text).eq(["crates/units", "a.rs"]));
    }
}
