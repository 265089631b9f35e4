// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gives the crate the digest of its own sources, and that of the sources of formulas. Tests,
//! comments and empty lines are left out, since no figure follows from them.

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
        let content = code(&fs::read_to_string(&file)?);
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

/// Returns the lines of a source without those that are empty or only a comment.
fn code(source: &str) -> String {
    let lines = source.lines().map(str::trim_end);
    let lines = lines.filter(|line| {
        let line = line.trim_start();
        !line.is_empty() && !line.starts_with("//")
    });
    lines.flat_map(|line| [line, "\n"]).collect()
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
