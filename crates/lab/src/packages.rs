// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs of Debian that tests run in the guest, fetched so that no machine need have
//! them installed.

use crate::apt::{Apt, Wanted, adopt, own_release};
use crate::cache::Cache;
use crate::error::LabError;
use std::path::PathBuf;

/// The directory of the cache with what was fetched.
const KEPT: &str = "packages";

/// Libraries that few machines have and that such programs need.
const LIBRARIES: [&str; 6] = ["libcli", "libfl", "libjq", "libnet1", "libonig", "libpcap"];

/// Fetches a package of this machine's own release into the cache, unless it is there; the
/// directory that holds its files. The release is this machine's so that its libraries
/// serve. `note` is called for each step.
///
/// # Errors
///
/// [`LabError::Fetch`] where no suite has the package, and whatever apt and `dpkg-deb` say.
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
            kept: KEPT,
            instead: "use a machine with Debian",
        },
        cache,
    )?;
    let suite = apt.update()?;
    let mut packages = apt.dependencies()?;
    packages
        .retain(|package| package == name || LIBRARIES.iter().any(|own| package.starts_with(own)));
    note(&format!("fetching {} from {suite}", packages.join(", ")));
    let root = apt.unpack(&packages)?;
    let place = cache.root().join(KEPT).join(format!("{name}-{suite}"));
    adopt(&root, &place, name, &root.with_file_name("replaced"))?;
    Ok(kept)
}
