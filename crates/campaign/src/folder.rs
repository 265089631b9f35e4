// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Experiment files in folders, and the names that follow from their paths.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folder for the policies of the experiments beside it.
const POLICIES: &str = "policies";

/// Returns the name of an experiment by the path of its file in the folder of all: `adsl/3.2.toml`
/// has the name `adsl-3.2`. If file and folder have the same name, the experiment has it too:
/// `l4s/l4s.toml` has the name `l4s`.
#[must_use]
pub fn name(place: &Path) -> String {
    let place = place.with_extension("");
    let mut parts: Vec<_> = place.iter().map(|part| part.to_string_lossy()).collect();
    if let [.., folder, file] = &parts[..]
        && folder == file
    {
        parts.pop();
    }
    parts.join("-")
}

/// Returns the experiment files (`*.toml`) below a folder, by name.
///
/// Folders named `policies` are left out. Links to folders are not followed.
///
/// # Errors
///
/// Fails if a folder cannot be read, or two files have the same name.
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
                let own = name(place);
                if let Some(other) = found.insert(own.clone(), path.clone()) {
                    let [one, other] = [path, other].map(|it| it.display().to_string());
                    let both = format!("{one} and {other} are both called `{own}`; rename one");
                    return Err(io::Error::other(both));
                }
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
            ("a/a/b.toml", "a-a-b"),
        ] {
            assert_eq!(name(Path::new(place)), expected);
        }
    }

    #[test]
    fn two_files_of_one_name_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let write = |place: &str| {
            let file = folder.path().join(place);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        };
        for place in [
            "a/1.toml",
            "a/a/1.toml",
            "a/policies/1.toml",
            "b.toml",
            "c.md",
        ] {
            write(place);
        }
        let names: Vec<String> = files(folder.path()).unwrap().into_keys().collect();
        assert_eq!(names, ["a-1", "a-a-1", "b"]);
        write("a-1.toml");
        let error = files(folder.path()).unwrap_err().to_string();
        assert!(error.contains("both called `a-1`"), "{error}");
    }
}
