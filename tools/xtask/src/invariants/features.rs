// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that the guest's program has the same bits with and without the tests' build.
//!
//! cargo builds a crate once for all its dependents, with the union of their features. A feature
//! that only a dependency of tests requests therefore makes two builds of the guest differ. Stored
//! results of one build are then stale for the other.

use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// The program that must not differ.
const PROGRAM: &str = "weirgate-guest";

/// The features of each package, by its name and version.
type Features = BTreeMap<String, BTreeSet<String>>;

pub(super) fn check(root: &Path, findings: &mut Vec<String>) -> Result<()> {
    let own = tree(root, &["--package", PROGRAM, "--edges", "normal,build"])?;
    let alone = tree(root, &["--workspace", "--edges", "normal,build"])?;
    let tests = tree(root, &["--workspace", "--edges", "normal,build,dev"])?;
    findings.extend(differences(&own, &alone, &tests));
    Ok(())
}

/// Returns the program's packages that have other features with the tests.
fn differences(own: &Features, alone: &Features, tests: &Features) -> Vec<String> {
    let differing = own
        .keys()
        .filter(|name| alone.get(*name) != tests.get(*name));
    differing
        .map(|name| {
            format!(
                "Cargo.toml: {name}, which {PROGRAM} is built with, has other features when tests \
                 are built: {:?}, without them {:?}",
                tests.get(name),
                alone.get(name)
            )
        })
        .collect()
}

fn tree(root: &Path, what: &[&str]) -> Result<Features> {
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(root)
        .args(["tree", "--locked"])
        .args(what);
    let cargo = cargo.args(["--prefix", "none", "--format", "{p}|{f}"]);
    let output = cargo.output().context("cargo tree")?;
    if !output.status.success() {
        bail!("cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(features(&String::from_utf8_lossy(&output.stdout)))
}

/// Parses lines such as `rustix v1.0.2|fs,std`; the line of a workspace crate has its path after
/// the version.
fn features(text: &str) -> Features {
    let mut found = Features::new();
    for (package, features) in text.lines().filter_map(|line| line.split_once('|')) {
        let name: Vec<&str> = package.split(' ').take(2).collect();
        let features = features.trim_end_matches(" (*)").to_owned();
        found.entry(name.join(" ")).or_default().insert(features);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_that_only_tests_ask_for_is_found() {
        let own = features("weirgate-guest v0.1.0 (/here)|\nregex-syntax v0.8.11|std\n");
        let alone = features("regex-syntax v0.8.11|std\nproptest v1.0.0|std\n");
        let tests = features("regex-syntax v0.8.11|std,unicode\nproptest v1.0.0|std,timeout\n");
        let found = differences(&own, &alone, &tests);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("regex-syntax v0.8.11"), "{found:?}");
        assert!(differences(&own, &alone, &alone).is_empty());
    }
}
