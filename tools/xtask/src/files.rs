// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shared code of all packages: files of a tree, output of programs, and the version and date of
//! the sources.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns cargo's target folder.
pub fn target(root: &Path) -> PathBuf {
    let set = std::env::var_os("CARGO_TARGET_DIR");
    set.map_or_else(|| root.join("target"), |set| root.join(set))
}

/// Returns the path of a built program of the tests' profile.
pub fn program(root: &Path, name: &str) -> PathBuf {
    target(root).join("release").join(name)
}

/// Returns the workspace's version.
pub fn version(root: &Path) -> Result<String> {
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    let line = manifest
        .lines()
        .find_map(|line| line.strip_prefix("version = \""));
    let version = line.and_then(|rest| rest.split('"').next());
    Ok(version.context("Cargo.toml names no version")?.to_owned())
}

/// Returns the timestamp of all files in packages, in seconds since 1970: `SOURCE_DATE_EPOCH` if it
/// is set (reproducible-builds.org), otherwise that of the last commit.
pub fn epoch(root: &Path) -> Result<String> {
    if let Ok(set) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(set);
    }
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(root);
    let date = text(&mut git).context("no date of the sources; set SOURCE_DATE_EPOCH")?;
    Ok(date.trim().to_owned())
}

/// Returns a program's output; fails if it fails.
pub fn text(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// Makes a folder empty, and creates it if necessary.
pub fn empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())
}

/// Copies a folder with its contents. Programs stay executable.
pub fn put_all(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let path = entry?.path();
        let place = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            put_all(&path, &place)?;
        } else {
            let runs = fs::metadata(&path)?.permissions().mode() & 0o111 != 0;
            put(&path, &place, if runs { 0o755 } else { 0o644 })?;
        }
    }
    Ok(())
}

/// Copies a file.
pub fn put(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let bytes = fs::read(from).with_context(|| from.display().to_string())?;
    write(to, &bytes, mode)
}

/// Writes a file, and creates the folders above it.
pub fn write(to: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(to, bytes).with_context(|| to.display().to_string())?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    Ok(())
}

/// Returns the files below a folder, by their relative paths, sorted.
pub fn below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).with_context(|| next.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(folder)?.to_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_stay_executable() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        for (name, before, after) in [("init", 0o700, 0o755), ("page.md", 0o600, 0o644)] {
            write(&from.join("files").join(name), b"text", before).unwrap();
            put_all(&from, &to).unwrap();
            let mode = fs::metadata(to.join("files").join(name))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o7777, after, "{name}");
        }
    }
}
