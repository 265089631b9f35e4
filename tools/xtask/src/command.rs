// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs programs for tasks.

use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// Returns cargo at the project's root, without the variables that `cargo run` sets for the package
/// xtask. The build script of ring reads some of them. Otherwise cargo would rerun it, and rebuild
/// everything that depends on it, at each change between this and a plain `cargo build`.
pub fn cargo(root: &Path) -> Command {
    plain(Command::new("cargo"), root)
}

/// Removes these variables from a program that runs cargo.
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

/// Runs a program; an error has its command line.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .map_err(|error| anyhow::anyhow!("{command:?}: {error}"))?;
    anyhow::ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

/// Runs a test that is ignored by default, and shows its output.
pub fn long(root: &Path, target: &str, name: &str, variables: &[(&str, &str)]) -> Result<()> {
    // Select the whole workspace, to use what is already built.
    let words = ["test", "--release", "--workspace", "--test", target, "--"];
    let how = ["--exact", name, "--ignored", "--nocapture"];
    let mut command = cargo(root);
    command.args(words).args(how);
    run(command.envs(variables.iter().copied()))
}
