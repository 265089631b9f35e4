// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A user's own disciplines, which a router has in a folder, by name. Policies name them as they
//! name those of the kit.
//!
//! Whoever reads policies looks through the folder first ([`scan`]). What it found stands
//! for the process as the list of the kit's disciplines does, so that to read a policy
//! needs no file.

use crate::discipline::Discipline;
use std::fs;
use std::path::Path;
use std::sync::RwLock;
use weirgate_units::Arrange as _;

/// Where a router has them, as `NAME.so`.
pub const INSTALLED: &str = "/etc/weirgate/disciplines";

/// By name: the discipline, or why it is not one.
type Found = Vec<(String, Result<Discipline, String>)>;

static FOUND: RwLock<Found> = RwLock::new(Vec::new());

/// Looks through a folder for files that were built with the kit of this number. A folder
/// that is not there has none.
pub fn scan(folder: &Path, kit: u64) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let of_kind = |path: &Path| path.extension().is_some_and(|kind| kind == "so");
    let paths = entries.map(|entry| entry.path());
    let mut found: Found = Vec::new();
    for path in paths.filter(|path| of_kind(path)) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let read = open(&path, &name, kit);
        found.push((name.into_owned(), read));
    }
    found.arrange_by_key(|(name, _)| name.clone());
    if let Ok(mut known) = FOUND.write() {
        *known = found;
    }
}

fn open(path: &Path, name: &str, kit: u64) -> Result<Discipline, String> {
    let one = Discipline::open_trusted(path, kit).map_err(|error| error.to_string())?;
    let wrong = |why: &str| Err(format!("{}: {why}", path.display()));
    if one.name() != name {
        return wrong(&format!(
            "it is the discipline `{}`; name the file so",
            one.name()
        ));
    }
    if Discipline::named(name).is_some() {
        return wrong("the kit has a discipline of this name; call yours otherwise");
    }
    if one.shaper_program().is_none() {
        return wrong("it holds packets, which no class waits for, so that it is no class's queue");
    }
    Ok(one)
}

impl Discipline {
    /// The one of that name in the folder, or why its file is none; `None` where there is
    /// no such file.
    pub fn installed(name: &str) -> Option<Result<Self, String>> {
        let found = FOUND.read().ok()?;
        let own = found.iter().find(|(own, _)| own == name);
        own.map(|(_, read)| read.clone())
    }

    /// Names of files in the folder, whether they are disciplines or not.
    pub fn installed_names() -> Vec<String> {
        let found = FOUND.read();
        let names = found.map(|found| found.iter().map(|(name, _)| name.clone()).collect());
        names.unwrap_or_default()
    }

    /// One of the kit, or of the folder.
    pub fn any_named(name: &str) -> Option<Self> {
        Self::named(name).or_else(|| Self::installed(name)?.ok())
    }
}
