// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tasks of the kit of disciplines: fuzzing, long comparisons, and the format of the C sources.

use crate::command::{long, run};
use crate::files::program;
use crate::test::binaries::Extent;
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

/// The smallest number of branches that a fuzzing run of the shaper, with all disciplines, must
/// cover.
const SHAPER_BRANCHES: u32 = 850;

/// Returns every discipline in `aqm/disciplines.txt`, each with the smallest number of branches
/// that a fuzzing run must cover.
pub fn disciplines(root: &Path) -> Result<Vec<(String, u32)>> {
    let table = fs::read_to_string(root.join("aqm/disciplines.txt"))?;
    let rows = table.lines().filter(|line| !line.starts_with('#'));
    let row = |line: &str| -> Result<(String, u32)> {
        let mut words = line.split_whitespace();
        let (name, branches) = (words.next(), words.next());
        let row = name.zip(branches).context("a row is `NAME BRANCHES`")?;
        Ok((row.0.to_owned(), row.1.parse()?))
    };
    rows.map(|line| row(line).with_context(|| format!("aqm/disciplines.txt: `{line}`")))
        .collect()
}

/// Returns the disciplines, and the shaper with all of them.
fn subjects(root: &Path) -> Result<Vec<(String, u32)>> {
    let mut subjects = disciplines(root)?;
    subjects.push(("shaper".to_owned(), SHAPER_BRANCHES));
    Ok(subjects)
}

/// Names of the formatter; the first one that runs is used.
const FORMATTERS: [&str; 3] = ["clang-format-19", "clang-format-20", "clang-format"];

/// Runs `weirgate aqm test` for every discipline and the shaper, and for [`Extent::All`] a short
/// `fuzz` of each. Runs as many at once as there are processors, the shaper first, because it takes
/// longest.
pub fn short(root: &Path, extent: Extent) -> Result<()> {
    let queue = Mutex::new(subjects(root)?);
    let next = || queue.lock().ok()?.pop();
    let work = || -> Result<()> {
        while let Some((name, _)) = next() {
            let test = &["test", &name][..];
            let fuzz = &["fuzz", &name, "--seconds", "2"][..];
            let commands = match extent {
                Extent::Short => vec![test],
                Extent::All => vec![test, fuzz],
            };
            for words in commands {
                run(Command::new(program(root, "weirgate"))
                    .arg("aqm")
                    .args(words))?;
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers = thread::available_parallelism().map_or(2, usize::from);
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            let outcome = worker.join();
            outcome.unwrap_or_else(|_| bail!("a thread panicked"))?;
        }
        Ok(())
    })
}

/// Runs `weirgate aqm fuzz` for every discipline and the shaper.
pub fn fuzz(root: &Path, seconds: u32) -> Result<()> {
    for (name, floor) in subjects(root)? {
        run(Command::new(program(root, "weirgate"))
            .args(["aqm", "fuzz", &name])
            .args(["--seconds", &seconds.to_string()])
            .args(["--floor", &floor.to_string()]))?;
    }
    Ok(())
}

/// Records this many packets of every discipline in the kernel, and replays them.
pub fn parity(root: &Path, packets: u64) -> Result<()> {
    let name = "kernel_and_native_host_agree_on_many_packets";
    let packets = packets.to_string();
    let size = [("WEIRGATE_PARITY_PACKETS", packets.as_str())];
    long(root, "guest", name, &size)
}

/// Loads and unloads a discipline a thousand times.
pub fn cycles(root: &Path) -> Result<()> {
    let name = "nothing_stays_behind_a_thousand_cycles";
    long(root, "aqm", name, &[])
}

/// Compares every C file with the formatter's output.
#[allow(clippy::print_stdout, reason = "what is left out is printed")]
pub fn format(root: &Path) -> Result<()> {
    let there = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
    let Some(formatter) = FORMATTERS.iter().find(there) else {
        println!("skipped: clang-format is not installed (`cargo xtask setup` does)");
        return Ok(());
    };
    let mut files = Vec::new();
    for folder in ["aqm", "bpf", "tools/outside/kernel"] {
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
