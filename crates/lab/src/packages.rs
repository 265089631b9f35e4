// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Debian programs that tests run in the guest. They are fetched, so that they need not be
//! installed on the machine.

use crate::apt::{Apt, MAIN, Wanted, adopt, own_release};
use crate::cache::Cache;
use crate::error::LabError;
use std::path::PathBuf;

/// The directory of the cache for fetched packages.
const KEPT: &str = "packages";

/// Dependencies that few machines have: libraries, and Python with its modules.
const NEEDED: [&str; 9] = [
    "libcli",
    "libfl",
    "libjq",
    "libnet1",
    "libnl-",
    "libonig",
    "libpcap",
    "libpython3.",
    "python3.",
];

/// Packages in non-free, because their licences forbid selling them.
const NON_FREE: [&str; 1] = ["netperf"];

/// Fetches a package of this machine's own release into the cache, unless it is there. The
/// release matches so that the package runs with this machine's libraries. Returns the directory
/// with its files. `note` is called for each step.
///
/// # Errors
///
/// Returns [`LabError::Fetch`] if no suite has the package, and any errors of apt and
/// `dpkg-deb`.
pub fn package(
    name: &'static str,
    cache: &Cache,
    note: &mut dyn FnMut(&str),
) -> Result<PathBuf, LabError> {
    let kept = cache.root().join(KEPT).join(name);
    if kept.is_dir() {
        return Ok(kept);
    }
    let apt = Apt::new(
        Wanted {
            package: name,
            suites: own_release()?,
            components: if NON_FREE.contains(&name) {
                "main non-free"
            } else {
                MAIN
            },
            kept: KEPT,
            instead: "use a machine with Debian",
        },
        cache,
    )?;
    let suite = apt.update()?;
    let mut packages = apt.dependencies()?;
    packages.retain(|package| package == name || NEEDED.iter().any(|own| package.starts_with(own)));
    note(&format!("fetching {} from {suite}", packages.join(", ")));
    let root = apt.unpack(&packages)?;
    let folder = cache.root().join(KEPT).join(format!("{name}-{suite}"));
    adopt(&root, &folder, name, &root.with_file_name("replaced"))?;
    Ok(kept)
}
