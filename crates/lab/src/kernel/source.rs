// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fetches the source of Debian's kernel, for comparisons with the kernel's own files.

use crate::apt::{Apt, CURRENT, MAIN, Wanted, adopt};
use crate::cache::Cache;
use crate::error::LabError;
use crate::tool::{TAR, output};
use std::fs;
use std::path::{Path, PathBuf};

/// The package with the newest kernel's source.
const WANTED: Wanted = Wanted {
    package: "linux-source",
    suites: &["trixie-backports", "bookworm-backports"],
    components: MAIN,
    kept: "sources",
    instead: "name an unpacked kernel with --source",
};

/// The parts of the source that are unpacked: queueing disciplines, headers, and test suites.
const PARTS: [&str; 7] = [
    "Makefile",
    "net/sched",
    "include/net",
    "include/uapi/linux",
    "tools/testing/selftests/bpf",
    "tools/testing/selftests/tc-testing",
    "tools/testing/selftests/net",
];

/// Fetches the source of the newest kernel in Debian's backports into the cache, unless it is
/// there. Returns the directory that contains its `Makefile`. `note` is called for each step.
///
/// # Errors
///
/// Returns [`LabError::Fetch`] if no suite has the package, and any errors of apt, `dpkg-deb`
/// and `tar`.
pub fn source(cache: &Cache, note: &mut dyn FnMut(&str)) -> Result<PathBuf, LabError> {
    let current = cache.root().join(WANTED.kept).join(CURRENT);
    // An older version of this program may have unpacked fewer parts.
    if PARTS.iter().all(|part| current.join(part).exists()) {
        return Ok(current);
    }
    let apt = Apt::new(WANTED, cache)?;
    note("reading the list of Debian's backports");
    let suite = apt.update()?;
    let mut packages = apt.dependencies()?;
    packages.retain(|name| name.starts_with("linux-source-"));
    note(&format!("fetching {} from {suite}", packages.join(", ")));
    let root = apt.unpack(&packages)?;
    let folder = root.join("usr/src");
    let archive = first(&folder, |name| name.ends_with(".tar.xz"))?;
    note("unpacking it");
    let tree = archive.with_extension("").with_extension("");
    let name = tree
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    output(
        TAR.command()?
            .arg("-C")
            .arg(&folder)
            .arg("-xJf")
            .arg(&archive)
            .args(PARTS.map(|part| format!("{name}/{part}"))),
    )?;
    let folder = cache.root().join(WANTED.kept).join(&name);
    // Keep it inside the directory of this fetch, which is deleted with it.
    adopt(&tree, &folder, CURRENT, &root.join("replaced"))?;
    note(&format!("the kernel's source is in {}", folder.display()));
    Ok(folder)
}

fn first(folder: &Path, fits: impl Fn(&str) -> bool) -> Result<PathBuf, LabError> {
    let entries = fs::read_dir(folder).map_err(LabError::file("cannot be read", folder))?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    paths
        .find(|path| {
            path.file_name()
                .is_some_and(|name| fits(&name.to_string_lossy()))
        })
        .ok_or_else(|| LabError::Fetch {
            reason: "the fetched package holds no source".into(),
        })
}
