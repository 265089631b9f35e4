// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gives the crate the digest of its own sources, its tests left out.

use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=src");
    let mut files = Vec::new();
    collect(Path::new("src"), &mut files)?;
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
    println!("cargo:rustc-env=WEIRGATE_MEASURE_SOURCES={digest}");
    Ok(())
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
