// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prepares an unpacked Debian Python for the guest. It is compiled here, because the guest would
//! take seconds for that at each start.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The name of the interpreter.
pub const PYTHON: &str = "python3.11";

/// The folders of Python's own modules, and of flent's.
const LIBRARY: &str = "usr/lib/python3.11";
pub const FLENT: &str = "usr/share/flent";

/// The environment of the guest's interpreter: the folders of its modules. Those in C are packed as
/// programs.
pub const SETTINGS: [&str; 3] = [
    "PYTHONHOME=/usr",
    "PYTHONPATH=/usr/share/flent:/usr/sbin",
    "PATH=/usr/sbin:/usr/bin",
];

/// C modules that flent's imports need.
const IN_C: [&str; 12] = [
    "_bz2",
    "_decimal",
    "_hashlib",
    "_json",
    "_lzma",
    "_multiprocessing",
    "_posixshmem",
    "_queue",
    "_ssl",
    "_uuid",
    "mmap",
    "resource",
];

/// Returns the C modules.
pub fn libraries(tree: &Path) -> Result<Vec<PathBuf>> {
    let folder = tree.join(LIBRARY).join("lib-dynload");
    let find = |name: &str| {
        let path = folder.join(format!("{name}.cpython-311-x86_64-linux-gnu.so"));
        ensure!(path.exists(), "{} is missing", path.display());
        Ok(path)
    };
    IN_C.into_iter().map(find).collect()
}

/// Returns all other modules, compiled, and flent's tests, by their paths in the guest.
pub fn files(tree: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let copy = tempfile::tempdir()?;
    for part in [LIBRARY, FLENT] {
        copied(&tree.join(part), &copy.path().join(part))?;
    }
    let done = Command::new(tree.join("usr/bin").join(PYTHON))
        .env("PYTHONHOME", tree.join("usr"))
        .args(["-S", "-m", "compileall", "-q", "-b"])
        // The guest need not check whether they are newer than their sources.
        .args(["--invalidation-mode", "unchecked-hash"])
        .args([LIBRARY, FLENT].map(|part| copy.path().join(part)))
        .output()?;
    ensure!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stdout)
    );
    let mut files = Vec::new();
    collect(copy.path(), copy.path(), &mut files)?;
    Ok(files)
}

fn copied(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let path = entry?.path();
        let place = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copied(&path, &place)?;
        } else if path.exists() && path.extension().is_none_or(|kind| kind != "so") {
            fs::copy(&path, &place).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    let entries: Result<Vec<_>, _> = fs::read_dir(folder)?.collect();
    for entry in entries? {
        let path = entry.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else if path.extension().is_none_or(|kind| kind != "py") {
            let place = format!("/{}", path.strip_prefix(root)?.display());
            files.push((place, fs::read(&path)?));
        }
    }
    Ok(())
}
