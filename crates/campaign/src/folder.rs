// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Experiment files in folders, and the name that each has by its place.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folder for the policies of the experiments beside it.
const POLICIES: &str = "policies";

/// The name of an experiment by the place of its file in the folder of all: `adsl/3.2.toml`
/// has `adsl-3.2`. A file that is called as its folder has the folder's name:
/// `l4s/l4s.toml` has `l4s`.
#[must_use]
pub fn name(place: &Path) -> String {
    let place = place.with_extension("");
    let mut parts: Vec<_> = place.iter().map(|part| part.to_string_lossy()).collect();
    parts.dedup();
    parts.join("-")
}

/// The experiment files (`*.toml`) of a folder and of the folders in it, by their names.
///
/// Folders named `policies` are left out. Links to folders are not followed.
///
/// # Errors
///
/// Where a folder cannot be read.
pub fn files(folder: &Path) -> io::Result<BTreeMap<String, PathBuf>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                if entry.file_name() != POLICIES {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|ending| ending == "toml") {
                let place = path.strip_prefix(folder).unwrap_or(&path);
                found.insert(name(place), path);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_place() {
        for (place, expected) in [
            ("fibre.toml", "fibre"),
            ("adsl/3.2.toml", "adsl-3.2"),
            ("l4s/l4s.toml", "l4s"),
            ("rate/6.7-segments.toml", "rate-6.7-segments"),
        ] {
            assert_eq!(name(Path::new(place)), expected);
        }
    }
}
