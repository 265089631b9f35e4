// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files on which a legend depends.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A file that changed less than this ago may have changed again with the same timestamp.
const NEW: Duration = Duration::from_secs(1);

/// Files on which a legend depends, with their times of change.
#[derive(Debug, Clone, Default)]
pub struct Sources(Vec<(PathBuf, Option<SystemTime>)>);

impl Sources {
    /// Notes the times of these files. Call this before reading the legend, so that no later
    /// change is missed.
    pub fn of(files: impl IntoIterator<Item = PathBuf>) -> Self {
        let noted = |file: PathBuf| {
            let at = changed(&file);
            (file, at)
        };
        Self(files.into_iter().map(noted).collect())
    }

    /// Returns whether one of them may have changed since the previous call.
    pub fn have_changed(&mut self) -> bool {
        let mut any = false;
        for (path, last) in &mut self.0 {
            let now = changed(path);
            let age = now.and_then(|time| SystemTime::now().duration_since(time).ok());
            any |= *last != now || age.is_some_and(|age| age < NEW);
            *last = now;
        }
        any
    }
}

fn changed(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path)
        .and_then(|file| file.modified())
        .ok()
}
