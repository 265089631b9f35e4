// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fetches Debian's kernels.

use super::link;
use crate::apt::{Apt, MAIN, Wanted, adopt};
use crate::cache::Cache;
use crate::error::LabError;
use std::fs;
use std::path::{Path, PathBuf};
use weirgate_experiment::KernelName;

/// The suites with the newest kernels.
const BACKPORTS: &[&str] = &["trixie-backports", "bookworm-backports"];

/// The package for generic machines.
const GENERIC: &str = "linux-image-amd64";

/// The suffix of all packages of a generic kernel.
const FLAVOUR: &str = "-amd64";

/// The suffix of all packages of a cloud kernel.
const CLOUD: &str = "-cloud-amd64";

/// Returns the package with the newest kernel of a name, and its suites.
fn wanted(name: KernelName) -> Wanted {
    let (package, suites): (_, &[_]) = match name {
        KernelName::Cloud => ("linux-image-cloud-amd64", BACKPORTS),
        KernelName::Generic => (GENERIC, BACKPORTS),
        KernelName::Linux612 => (GENERIC, &["trixie"]),
        KernelName::Linux61 => (GENERIC, &["bookworm"]),
    };
    Wanted {
        package,
        suites,
        components: MAIN,
        kept: "kernels",
        instead: "name a kernel with --kernel",
    }
}

/// Fetches a kernel into the cache, where [`Kernel::find`](super::Kernel::find) finds it, and
/// returns its directory. `note` is called for each step.
pub fn fetch(
    name: KernelName,
    cache: &Cache,
    note: &mut dyn FnMut(&str),
) -> Result<PathBuf, LabError> {
    let wanted = wanted(name);
    let apt = Apt::new(wanted, cache)?;
    note(&format!("reading the list of {}", wanted.suites.join(", ")));
    let suite = apt.update()?;
    let mut packages = apt.dependencies()?;
    packages.retain(|package| is_own(package, wanted.package));
    if packages.is_empty() {
        return Err(LabError::Fetch {
            reason: format!("{} in {suite} depends on no kernel", wanted.package),
        });
    }
    note(&format!("fetching {} from {suite}", packages.join(", ")));
    let tree = apt.unpack(&packages)?;
    let kernel = keep(&tree, link(name), cache)?;
    note(&format!("the guest kernel is in {}", kernel.display()));
    Ok(kernel)
}

/// Returns whether a package contains the kernel or its modules, among the dependencies of the
/// meta-package.
fn is_own(package: &str, standing: &str) -> bool {
    package != standing
        && package.starts_with("linux-")
        && package.ends_with(FLAVOUR)
        && package.ends_with(CLOUD) == standing.ends_with(CLOUD)
}

/// Moves an unpacked kernel into the cache. `vmlinuz` and `kernel/` go into a directory named by
/// the release, and a link points to it.
fn keep(root: &Path, link: &str, cache: &Cache) -> Result<PathBuf, LabError> {
    let modules = ["usr/lib/modules", "lib/modules"]
        .iter()
        .filter_map(|modules| fs::read_dir(root.join(modules)).ok())
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
    let folder = cache.kernels().join(&release);
    // Keep it inside the directory of this fetch, which is deleted with it.
    adopt(&tree, &folder, link, &root.join("replaced"))?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::{CLOUD, is_own, wanted};
    use weirgate_experiment::KernelName;

    #[test]
    fn a_kernel_is_fetched_without_those_of_the_other_flavour() {
        let own = |package, name| is_own(package, wanted(name).package);
        let (cloud, generic) = (KernelName::Cloud, KernelName::Generic);
        assert!(own("linux-image-7.3.4+deb13-cloud-amd64", cloud));
        assert!(own("linux-image-7.3.4+deb13-amd64", generic));
        assert!(!own("linux-image-7.3.4+deb13-cloud-amd64", generic));
        assert!(!own("linux-image-7.3.4+deb13-amd64", cloud));
        assert!(!own("linux-image-amd64", generic) && !own("linux-base", generic));
        let cloudy = KernelName::ALL.map(|(_, name)| wanted(name).package.ends_with(CLOUD));
        assert_eq!(cloudy, [true, false, false, false]);
    }
}
