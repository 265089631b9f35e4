// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The archive for other systems: the program, units, policies, documents, manual pages and
//! completions, in one folder.

use super::released::Release;
use crate::command::run;
use crate::files::{empty, put, put_all};
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// Parts of the archive besides the program: the path in the package, and in the archive.
const PARTS: [(&str, &str); 6] = [
    ("usr/lib/systemd/system", "systemd"),
    ("usr/share/man", "man"),
    ("usr/share/bash-completion/completions", "completions/bash"),
    ("usr/share/zsh/vendor-completions", "completions/zsh"),
    ("usr/share/fish/vendor_completions.d", "completions/fish"),
    ("usr/share/doc/weirgate", "doc"),
];

pub fn make(release: &Release<'_>) -> Result<()> {
    let work = release.folder.join("archive");
    empty(&work)?;
    let tree = work.join(&release.name);
    put(&release.program, &tree.join("weirgate"), 0o755)?;
    for (from, to) in PARTS {
        put_all(&release.tree.join(from), &tree.join(to))?;
    }
    put_all(&release.root.join("LICENSES"), &tree.join("LICENSES"))?;
    let name = format!("{}-{}-linux.tar", release.name, release.machine);
    let archive = release.folder.join(name);
    pack(&work, &release.name, &archive, &release.epoch)?;
    run(Command::new("gzip").arg("-9n").arg(&archive))?;
    Ok(std::fs::remove_dir_all(&work)?)
}

/// Makes a reproducible tar file: sorted, owned by root, with one date.
pub fn pack(folder: &Path, what: &str, to: &Path, epoch: &str) -> Result<()> {
    run(Command::new("tar")
        .args([
            "--format=posix",
            "--sort=name",
            "--owner=root:0",
            "--group=root:0",
        ])
        .args(["--numeric-owner", "--pax-option=delete=atime,delete=ctime"])
        .arg(format!("--mtime=@{epoch}"))
        .arg("-C")
        .arg(folder)
        .arg("-cf")
        .arg(to)
        .arg(what))
}
