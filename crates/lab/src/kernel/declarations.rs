// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A kernel's declarations as a C header: its types, and the functions that BPF programs may call.

use super::Kernel;
use crate::apt::{Apt, CURRENT, MAIN, Wanted, adopt};
use crate::cache::{Cache, Key};
use crate::error::LabError;
use crate::tool::output;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The tool that extracts them from a kernel; older versions omit functions.
const WANTED: Wanted = Wanted {
    package: "bpftool",
    suites: &["trixie-backports"],
    components: MAIN,
    kept: "bpftool",
    instead: "use a machine with Debian's backports",
};

/// The libraries that it needs, from the release of the backports.
const LIBRARIES: Wanted = Wanted {
    suites: &["trixie"],
    ..WANTED
};

/// Returns the header (`vmlinux.h`) of a kernel, made from its BTF. `note` is called for each
/// step.
///
/// # Errors
///
/// Returns [`LabError::Fetch`] if bpftool is not available, and any errors of bpftool.
pub fn declarations(
    kernel: &Kernel,
    cache: &Cache,
    note: &mut dyn FnMut(&str),
) -> Result<PathBuf, LabError> {
    let image = fs::read(&kernel.boot).map_err(LabError::file("kernel", &kernel.boot))?;
    let mut key = Key::default();
    key.add(&image);
    let tree = bpftool(cache, note)?;
    let kept = cache.keep("declarations", &key.name(), note, || {
        let at = |part: &str| tree.join("usr").join(part);
        let mut command = Command::new(at("lib64/ld-linux-x86-64.so.2"));
        command
            .arg("--library-path")
            .arg(at("lib/x86_64-linux-gnu"))
            .arg(at("sbin/bpftool"))
            .args(["btf", "dump", "file"])
            .arg(&kernel.boot)
            .args(["format", "c"]);
        Ok(output(&mut command)?.into_bytes())
    })?;
    Ok(kept.into_path())
}

/// Returns bpftool with the libraries that it needs.
fn bpftool(cache: &Cache, note: &mut dyn FnMut(&str)) -> Result<PathBuf, LabError> {
    let current = cache.root().join(WANTED.kept).join(CURRENT);
    if current.join("usr/sbin/bpftool").is_file() {
        return Ok(current);
    }
    let libraries = Apt::new(LIBRARIES, cache)?;
    libraries.update()?;
    let root = libraries.unpack_whole()?;
    let newer = Apt::new(WANTED, cache)?;
    let suite = newer.update()?;
    note(&format!("fetching {} from {suite}", WANTED.package));
    let program = newer.unpack(&[WANTED.package.to_owned()])?;
    let of = |root: &Path| root.join("usr/sbin/bpftool");
    fs::rename(of(&program), of(&root)).map_err(LabError::file("cannot be moved", &root))?;
    let folder = cache.root().join(WANTED.kept).join(suite);
    adopt(&root, &folder, CURRENT, &root.with_file_name("replaced"))?;
    Ok(folder)
}
