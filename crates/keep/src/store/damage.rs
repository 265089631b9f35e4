// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Damaged files of the history: they are set aside for inspection, and another state replaces
//! theirs.

use crate::error::KeepError;
use crate::store::head::Head;
use serde::Serialize;
use std::ffi::OsStr;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use weirgate_units::Arrange as _;

const ASIDE: &str = "damaged";

/// A damaged file that was set aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// Its present path.
    pub path: PathBuf,
    /// The number of the entry that was in the file; `None` for the head.
    pub number: Option<u64>,
    /// The number of the entry that is in force.
    pub serves: Option<u64>,
}

impl Damage {
    pub(super) fn of(path: PathBuf, number: Option<u64>, head: &Head) -> Self {
        let serves = head.confirmed;
        Self {
            path,
            number,
            serves,
        }
    }

    /// Returns whether this was the last confirmed state, so that the user has to apply it again.
    #[must_use]
    pub fn is_grave(&self) -> bool {
        let newest = self.number.zip(self.serves);
        newest.is_some_and(|(lost, serves)| lost >= serves)
    }
}

impl Display for Damage {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match (self.number, self.serves) {
            (None, _) => write!(
                out,
                "the file that names the state in force was damaged; its copy was used, and \
                 nothing is lost"
            )?,
            (Some(lost), Some(serves)) if lost > serves => write!(
                out,
                "state {lost}, the last confirmed one, is damaged: state {serves} replaces it \
                 until you `weirgate apply` again"
            )?,
            (Some(lost), Some(serves)) if lost == serves => write!(
                out,
                "state {lost}, which is in force, is damaged: it is kept until the machine \
                 restarts, then an earlier one, until you `weirgate apply` again"
            )?,
            (Some(lost), _) => write!(out, "state {lost} was damaged")?,
        }
        write!(out, "; the damaged file is {}", self.path.display())
    }
}

/// Returns the name for a file that is set aside.
fn aside(path: &Path) -> PathBuf {
    path.with_extension(ASIDE)
}

/// Renames a damaged file, if it exists.
pub(super) fn set_aside(path: &Path) -> Result<(), KeepError> {
    match fs::rename(path, aside(path)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other.map_err(KeepError::file(path)),
    }
}

/// Gives a damaged file a second name. The first name stays until a new file is renamed over it.
pub(crate) fn link_aside(path: &Path) -> Result<(), KeepError> {
    let aside = aside(path);
    match fs::remove_file(&aside) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(KeepError::File {
                path: aside,
                source: error,
            });
        }
        _ => {}
    }
    fs::hard_link(path, aside).map_err(KeepError::file(path))
}

/// Returns the files of a folder that were set aside; those that were entries with their numbers.
pub(crate) fn found(folder: &Path) -> Result<Vec<(PathBuf, Option<u64>)>, KeepError> {
    let listing = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(KeepError::file(folder))?,
    };
    let mut all = Vec::new();
    for file in listing {
        let path = file.map_err(KeepError::file(folder))?.path();
        if path.extension() == Some(OsStr::new(ASIDE)) {
            let stem = path.file_stem().and_then(OsStr::to_str);
            let number = stem.and_then(|stem| stem.parse().ok());
            all.push((path, number));
        }
    }
    all.arrange();
    Ok(all)
}
