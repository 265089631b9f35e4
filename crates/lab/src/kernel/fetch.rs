// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fetches Debian's cloud kernel from the newest backports suite.

use crate::apt::{Apt, Wanted, adopt};
use crate::cache::Cache;
use crate::error::LabError;
use std::fs;
use std::path::{Path, PathBuf};

/// The package that stands for the newest cloud kernel.
const WANTED: Wanted = Wanted {
    package: "linux-image-cloud-amd64",
    suites: &["trixie-backports", "bookworm-backports"],
    kept: "kernels",
    instead: "name a kernel with --kernel",
};

/// Ends the names of all packages of a cloud kernel.
const FLAVOUR: &str = "-cloud-amd64";

/// Fetches the kernel into the cache and makes it the one that
/// [`Kernel::find`](super::Kernel::find) finds; returns its directory. `note`
/// is told each step.
pub fn fetch(cache: &Cache, note: &mut dyn FnMut(&str)) -> Result<PathBuf, LabError> {
    let apt = Apt::new(WANTED, cache)?;
    note("reading the list of Debian's backports");
    let suite = apt.update()?;
    let packages = packages(&apt, suite)?;
    note(&format!("fetching {} from {suite}", packages.join(", ")));
    let tree = apt.unpack(&packages)?;
    let kernel = keep(&tree, cache)?;
    note(&format!("the guest kernel is in {}", kernel.display()));
    Ok(kernel)
}

/// The packages that hold the kernel and its modules: what the standing name depends on,
/// as far as it is this kernel's own.
fn packages(apt: &Apt, suite: &str) -> Result<Vec<String>, LabError> {
    let mut packages = apt.dependencies()?;
    packages.retain(|name| {
        name.starts_with("linux-") && name.ends_with(FLAVOUR) && name != WANTED.package
    });
    if packages.is_empty() {
        return Err(LabError::Fetch {
            reason: format!("{} in {suite} depends on no kernel", WANTED.package),
        });
    }
    Ok(packages)
}

/// Moves an unpacked kernel to its place in the cache: `vmlinuz` and `kernel/`
/// in a directory named by its release, and the link `current` to it.
fn keep(root: &Path, cache: &Cache) -> Result<PathBuf, LabError> {
    let modules = ["usr/lib/modules", "lib/modules"]
        .iter()
        .filter_map(|place| fs::read_dir(root.join(place)).ok())
        .flat_map(Iterator::flatten)
        .map(|entry| entry.path())
        .find(|tree| tree.join("kernel").is_dir());
    let Some(tree) = modules else {
        return Err(LabError::Fetch {
            reason: "the fetched packages hold no modules".into(),
        });
    };
    let release = tree.file_name().unwrap_or_default().to_owned();
    let image = tree.join("vmlinuz");
    let boot = root
        .join("boot")
        .join(format!("vmlinuz-{}", release.to_string_lossy()));
    if boot.is_file() {
        fs::rename(&boot, &image).map_err(LabError::file("cannot be moved", &boot))?;
    }
    if !image.is_file() {
        return Err(LabError::Fetch {
            reason: "the fetched packages hold no kernel".into(),
        });
    }
    let place = cache.kernels().join(&release);
    // Into the directory of this fetch, which is deleted with it.
    adopt(&tree, &place, &root.join("replaced"))?;
    Ok(place)
}
