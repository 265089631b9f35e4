// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fetches Debian's qemu and its libraries, from a release that may be newer than that of this
//! machine.

use super::Emulator;
use crate::apt::{Apt, CURRENT, MAIN, Wanted, adopt};
use crate::cache::Cache;
use crate::error::LabError;

/// The directory of the cache for fetched emulators.
pub(super) const KEPT: &str = "emulators";

const WANTED: Wanted = Wanted {
    package: "qemu-system-x86",
    suites: &["trixie"],
    components: MAIN,
    kept: KEPT,
    instead: "install qemu 10",
};

/// Fetches the emulator into the cache, and makes it the one that [`Emulator::find`] finds.
/// `note` is called for each step.
pub(crate) fn fetch(cache: &Cache, note: &mut dyn FnMut(&str)) -> Result<Emulator, LabError> {
    let apt = Apt::new(WANTED, cache)?;
    note("reading the list of a newer Debian");
    let suite = apt.update()?;
    note(&format!("fetching {} from {suite}", WANTED.package));
    let root = apt.unpack_whole()?;
    let tree = root.join("usr");
    let version = Emulator::fetched(&tree)?.version;
    let folder = cache.root().join(KEPT).join(&version);
    // Keep it inside the directory of this fetch, which is deleted with it.
    adopt(&tree, &folder, CURRENT, &root.join("replaced"))?;
    note(&format!(
        "the emulator, qemu {version}, is in {}",
        folder.display()
    ));
    Emulator::fetched(&folder)
}
