// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tasks of the kit of disciplines: their fuzzing, the long comparisons, and
//! the format of their C.

use crate::{run, test};
use anyhow::{Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A discipline, or the shaper with all of them, and the branches that a run must at least have seen: what eight
/// seconds of a busy machine saw, less a tenth.
const SUBJECTS: [(&str, u32); 12] = [
    ("droptail", 90),
    ("red", 158),
    ("ared", 185),
    ("mered", 208),
    ("meredt", 260),
    ("codel", 124),
    ("fq_codel", 177),
    ("pie", 143),
    ("wred", 236),
    ("fuzzy", 146),
    ("drt", 103),
    ("shaper", 850),
];

/// The formatter: the first of these that runs.
const FORMATTERS: [&str; 3] = ["clang-format-19", "clang-format-20", "clang-format"];

/// `weirgate aqm test` and a short `fuzz` of every discipline and of the shaper:
/// what a change breaks at once.
pub fn short(root: &Path) -> Result<()> {
    for (name, _) in SUBJECTS {
        for words in [&["test", name][..], &["fuzz", name, "--seconds", "2"]] {
            run(Command::new(root.join("target/release/weirgate"))
                .arg("aqm")
                .args(words))?;
        }
    }
    Ok(())
}

/// `weirgate aqm fuzz` of every discipline and of the shaper.
pub fn fuzz(root: &Path, seconds: u32) -> Result<()> {
    for (name, floor) in SUBJECTS {
        run(Command::new(root.join("target/release/weirgate"))
            .args(["aqm", "fuzz", name])
            .args(["--seconds", &seconds.to_string()])
            .args(["--floor", &floor.to_string()]))?;
    }
    Ok(())
}

/// So many packets of every discipline, recorded in the kernel, replayed.
pub fn parity(root: &Path, packets: u64) -> Result<()> {
    let name = "kernel_and_native_host_agree_on_many_packets";
    let packets = packets.to_string();
    let size = [("WEIRGATE_PARITY_PACKETS", packets.as_str())];
    test::long(root, "weirgate-bpf", "guest", name, &size)
}

/// A thousand times on and off.
pub fn cycles(root: &Path) -> Result<()> {
    let name = "nothing_stays_behind_a_thousand_cycles";
    test::long(root, "weirgate-cli", "aqm", name, &[])
}

/// Compares every file of aqm/ and bpf/ with what the formatter makes of it.
#[allow(clippy::print_stdout, reason = "what is left out is told")]
pub fn format(root: &Path) -> Result<()> {
    let there = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
    let Some(formatter) = FORMATTERS.iter().find(there) else {
        println!("skipped: clang-format is not installed (`cargo xtask setup` does)");
        return Ok(());
    };
    let mut files = Vec::new();
    for folder in ["aqm", "bpf"] {
        c_files(&root.join(folder), &mut files)?;
    }
    files.sort();
    let mut other = Vec::new();
    for file in files {
        let made = Command::new(formatter).arg(&file).output()?;
        if !made.status.success() || made.stdout != fs::read(&file)? {
            other.push(file.display().to_string());
        }
    }
    if !other.is_empty() {
        bail!(
            "not formatted: {}\n  run: {formatter} -i with these files",
            other.join(" ")
        );
    }
    Ok(())
}

fn c_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            c_files(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|kind| kind == "c" || kind == "h")
        {
            files.push(path);
        }
    }
    Ok(())
}
