// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fetches the source of Debian's kernel, for comparisons with the kernel's own files.

use crate::apt::{Apt, CURRENT, MAIN, Wanted, adopt};
use crate::cache::Cache;
use crate::error::LabError;
use crate::tool::{TAR, output};
use std::fs;
use std::path::{Path, PathBuf};

/// The package that stands for the newest kernel's source.
const WANTED: Wanted = Wanted {
    package: "linux-source",
    suites: &["trixie-backports", "bookworm-backports"],
    components: MAIN,
    kept: "sources",
    instead: "name an unpacked kernel with --source",
};

/// What of the source is unpacked: queueing disciplines, headers, and the suites that
/// test them.
const PARTS: [&str; 7] = [
    "Makefile",
    "net/sched",
    "include/net",
    "include/uapi/linux",
    "tools/testing/selftests/bpf",
    "tools/testing/selftests/tc-testing",
    "tools/testing/selftests/net",
];

/// Fetches the source of the newest kernel that Debian's backports have into the cache,
/// unless it is there; the directory that holds its `Makefile`. `note` is called for each step.
///
/// # Errors
///
/// [`LabError::Fetch`] where no suite has the package, and whatever apt, `dpkg-deb` and
/// `tar` say.
pub fn source(cache: &Cache, note: &mut dyn FnMut(&str)) -> Result<PathBuf, LabError> {
    let current = cache.root().join(WANTED.kept).join(CURRENT);
    // One that an older program unpacked may have less.
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
    // Into the directory of this fetch, which is deleted with it.
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
