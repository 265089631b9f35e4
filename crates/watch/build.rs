// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packs the page's files, which are 73 kB of text.

use lzma_rust2::{LzmaOptions, LzmaWriter};
use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::{env, fs};

/// Where the page's files are.
const PAGE: &str = "../../web";

/// How far back a repetition may be, which is also the memory that unpacking takes: more
/// than the length of any file.
const DICTIONARY: u32 = 32 * 1024;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PAGE}");
    let out = env::var("OUT_DIR")?;
    let options = LzmaOptions {
        dict_size: DICTIONARY,
        ..LzmaOptions::with_preset(9)
    };
    for entry in fs::read_dir(PAGE)? {
        let path = entry?.path();
        let content = fs::read(&path)?;
        let name = path.file_name().unwrap_or_default();
        let packed = fs::File::create(Path::new(&out).join(name))?;
        let length = Some(content.len() as u64);
        let mut writer = LzmaWriter::new_use_header(packed, &options, length)?;
        writer.write_all(&content)?;
        writer.finish()?;
    }
    Ok(())
}
