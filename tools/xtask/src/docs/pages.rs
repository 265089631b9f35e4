// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pages that are checked.

use anyhow::Result;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the Markdown pages of the project, by their paths from the root.
pub fn pages(root: &Path) -> Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                pages.push(path);
            }
        }
    }
    for name in [
        "README",
        "ARCHITECTURE",
        "CONTRIBUTING",
        "CHANGELOG",
        "SECURITY",
    ] {
        pages.push(PathBuf::from(format!("{name}.md")));
    }
    pages.sort();
    Ok(pages)
}
