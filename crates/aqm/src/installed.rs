// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A user's own disciplines, installed in a folder of the router. Policies name them like those
//! of the kit.
//!
//! A program that reads policies scans the folder once ([`scan`]). The process keeps the result,
//! so that parsing a policy needs no file access.

use crate::discipline::Discipline;
use std::fs;
use std::path::Path;
use std::sync::RwLock;
use weirgate_units::Arrange as _;

/// The folder of installed disciplines, as `NAME.so`.
pub const INSTALLED: &str = "/etc/weirgate/disciplines";

/// Names with the discipline, or with the reason why the file is not one.
type Found = Vec<(String, Result<Discipline, String>)>;

static FOUND: RwLock<Found> = RwLock::new(Vec::new());

/// Scans a folder for files that were built with the kit of this number. A missing folder counts
/// as empty.
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
        return wrong("the kit has a discipline of this name; give yours another name");
    }
    if one.shaper_program().is_none() {
        return wrong("it delays packets, which no class allows, so it cannot be a class's queue");
    }
    Ok(one)
}

impl Discipline {
    /// Returns the installed discipline of this name, or the reason why its file is not one;
    /// `None` if there is no file.
    pub fn installed(name: &str) -> Option<Result<Self, String>> {
        let found = FOUND.read().ok()?;
        let own = found.iter().find(|(own, _)| own == name);
        own.map(|(_, read)| read.clone())
    }

    /// Returns the names of all files in the folder, including invalid ones.
    pub fn installed_names() -> Vec<String> {
        let found = FOUND.read();
        let names = found.map(|found| found.iter().map(|(name, _)| name.clone()).collect());
        names.unwrap_or_default()
    }

    /// Returns a discipline of the kit or of the folder.
    pub fn any_named(name: &str) -> Option<Self> {
        Self::named(name).or_else(|| Self::installed(name)?.ok())
    }
}
