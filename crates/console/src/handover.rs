// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Passes commands of `weirgate` to the laboratory's program, `weirgate-lab`.

use crate::exit::Failure;
use std::convert::Infallible;
use std::env;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

/// The name of the laboratory's program.
const LAB: &str = "weirgate-lab";

/// Returns the path of the laboratory's program, beside this one or in `PATH`.
///
/// # Errors
/// Fails if it is not installed; the message says how to get it.
pub fn lab() -> Result<PathBuf, Failure> {
    let beside = env::current_exe().ok();
    let beside = beside.as_deref().and_then(|own| own.parent());
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = beside
        .map(PathBuf::from)
        .into_iter()
        .chain(env::split_paths(&path));
    let mut found = folders.map(|folder| folder.join(LAB));
    found.find(|program| program.is_file()).ok_or_else(|| {
        Failure::Other(anyhow::anyhow!(
            "this is done by `{LAB}`, which is not installed: install the Debian package {LAB}, \
             or build it with `cargo build --release --workspace --bin weirgate-lab --bin \
             weirgate-guest`"
        ))
    })
}

/// Replaces this process by the laboratory's program, with these arguments.
///
/// # Errors
/// Fails if it is not installed or cannot be started.
pub fn become_lab<S: AsRef<OsStr>>(
    arguments: impl IntoIterator<Item = S>,
) -> Result<Infallible, Failure> {
    let program = lab()?;
    let error = Command::new(&program).args(arguments).exec();
    Err(Failure::Other(anyhow::anyhow!(
        "{}: {error}",
        program.display()
    )))
}
