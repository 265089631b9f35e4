// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gives the crate the digest of its own sources, and that of the sources of formulas. Tests are
//! left out.

use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// What figures that are calculated, not run, follow from.
const FORMULAS: [&str; 2] = ["../experiment/src", "../linklayer/src"];

fn main() -> io::Result<()> {
    let own = digest_of(&["src"])?;
    println!("cargo:rustc-env=WEIRGATE_MEASURE_SOURCES={own}");
    let formulas = digest_of(&FORMULAS)?;
    println!("cargo:rustc-env=WEIRGATE_FORMULA_SOURCES={formulas}");
    Ok(())
}

/// Returns the digest of all files below folders, by name and content.
fn digest_of(folders: &[&str]) -> io::Result<String> {
    let mut files = Vec::new();
    for folder in folders {
        println!("cargo:rerun-if-changed={folder}");
        collect(Path::new(folder), &mut files)?;
    }
    files.sort();
    let mut digest = Sha256::new();
    for file in files {
        let content = fs::read(&file)?;
        digest.update(file.as_os_str().as_encoded_bytes());
        digest.update((content.len() as u64).to_le_bytes());
        digest.update(content);
    }
    let digest = digest
        .finalize()
        .iter()
        .fold(String::new(), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        });
    Ok(digest)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if !path.ends_with("tests") {
                collect(&path, files)?;
            }
        } else {
            files.push(path);
        }
    }
    Ok(())
}
