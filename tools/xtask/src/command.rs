// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that tasks run.

use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// Cargo, at the project's root, without what `cargo run` tells xtask of xtask's own
/// package. The build script of ring reads some of these variables: cargo would run
/// it again, with all that depends on it, at each change between this and a plain
/// `cargo build`.
pub fn cargo(root: &Path) -> Command {
    plain(Command::new("cargo"), root)
}

/// The same of a program that runs cargo.
pub fn plain(mut command: Command, root: &Path) -> Command {
    for (name, _) in std::env::vars_os() {
        let own = ["CARGO_PKG_", "CARGO_MANIFEST_"];
        if own
            .iter()
            .any(|own| name.to_string_lossy().starts_with(own))
        {
            command.env_remove(name);
        }
    }
    command.current_dir(root);
    command
}

/// Runs a program and fails with its command line if it fails.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .map_err(|error| anyhow::anyhow!("{command:?}: {error}"))?;
    anyhow::ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

/// Runs a test that is ignored otherwise, and shows what it prints.
pub fn long(root: &Path, target: &str, name: &str, variables: &[(&str, &str)]) -> Result<()> {
    // Of the whole workspace, as what is built already.
    let words = ["test", "--release", "--workspace", "--test", target, "--"];
    let how = ["--exact", name, "--ignored", "--nocapture"];
    let mut command = cargo(root);
    command.args(words).args(how);
    run(command.envs(variables.iter().copied()))
}
