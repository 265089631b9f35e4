// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzing: checks first that the fuzzer finds a planted mistake, then that it finds nothing else
//! and covers enough of the code.

mod corpus;
mod record;
mod targets;

use crate::command::run;
use crate::test::processor;
use anyhow::{Context, Result, bail, ensure};
use record::{Record, Tried};
use std::fs;
use std::path::Path;
use std::process::Command;
use targets::{ANY, TARGETS, Target, environment};

/// The message of a planted mistake; see the targets.
const PLANTED: &str = "the planted mistake";

/// The time limit for finding it, in seconds. It is a multiple of the time on a quiet machine,
/// where it takes some ten thousand runs.
const PATIENCE: u32 = 900;

/// If a run tries fewer inputs, its coverage is not judged.
const LEAST_RUNS: u64 = 10_000;

/// The options.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Seconds for each target.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// This target alone; may be repeated.
    #[arg(long)]
    target: Vec<String>,
    /// Do not prove again that the planted mistakes are found.
    #[arg(long)]
    unplanted: bool,
    /// Run nothing; add to the seeds what runs have found to reach more, within 64 KiB for
    /// each target.
    #[arg(long)]
    fold: bool,
    /// Run nothing; write the page of what was run.
    #[arg(long)]
    page: bool,
}

/// Runs the named targets, or all: with the planted mistake, then `seconds` without it.
#[allow(clippy::print_stdout, reason = "what takes minutes is printed")]
pub fn all(root: &Path, arguments: &Arguments) -> Result<()> {
    let named = &arguments.target;
    for name in named {
        let known = TARGETS.iter().any(|target| target.name == name);
        ensure!(known, "there is no fuzz target {name}");
    }
    if arguments.page {
        return Record::read(root)?.page(root);
    }
    if !installed() {
        println!("installing cargo-fuzz");
        run(Command::new("cargo").args(["install", "--locked", "cargo-fuzz"]))?;
    }
    let asked = |target: &&Target| named.is_empty() || named.iter().any(|name| name == target.name);
    if arguments.fold {
        for target in TARGETS.iter().filter(asked) {
            let added = corpus::fold(root, target.name)?;
            println!("{}: {added} seeds more", target.name);
        }
        return Ok(());
    }
    // One feature after the other, because each needs a build. A failure does not prevent the other
    // runs.
    let mut failed = Vec::new();
    if !arguments.unplanted {
        build(root, "fuzzing,planted")?;
        for target in TARGETS.iter().filter(asked) {
            match proved(root, target.name) {
                Ok(runs) => println!("{}: found the planted mistake ({runs} runs)", target.name),
                Err(error) => failed.push(format!("{error:#}")),
            }
        }
    }
    build(root, "fuzzing")?;
    for target in TARGETS.iter().filter(asked) {
        let run = long(root, target, arguments.seconds);
        failed.extend(run.err().map(|error| format!("{error:#}")));
    }
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

/// Checks that the fuzzer finds a target's planted mistake, and returns the number of runs that it
/// took.
fn proved(root: &Path, target: &str) -> Result<u64> {
    let output = fuzz(root, target, PATIENCE, "fuzzing,planted", 1)?;
    let runs = ran(&output);
    ensure!(
        output.contains(PLANTED),
        "fuzz target {target}: the planted mistake was not found within {PATIENCE} s ({runs} runs)"
    );
    Ok(runs)
}

/// Runs a target, records the run, and judges it.
#[allow(clippy::print_stdout, reason = "what takes minutes is printed")]
fn long(root: &Path, target: &Target, seconds: u32) -> Result<()> {
    let name = target.name;
    let before = artifacts(root, name)?;
    let begin = busy();
    // A run with the seed of an earlier one would try the same inputs again.
    let seed = Record::executions(root, name)? as u32 | 1;
    let output = fuzz(root, name, seconds, "fuzzing", seed)?;
    let (covered, runs) = (coverage(&output), ran(&output));
    let mut open = artifacts(root, name)?;
    open.retain(|one| !before.contains(one));
    let tried = Tried {
        processor_s: busy() - begin,
        executions: runs,
        branches: covered.unwrap_or(0),
        open,
        mended: Vec::new(),
    };
    Record::add(root, name, tried)?;
    let covered =
        covered.with_context(|| format!("fuzz target {name} ended early:\n{}", tail(&output)))?;
    println!("{name}: {seconds} s without a finding ({runs} runs), {covered} branches");
    if runs < LEAST_RUNS {
        println!("{name}: fewer than {LEAST_RUNS} runs; its branches are not judged");
    }
    ensure!(
        runs < LEAST_RUNS || covered >= target.floor,
        "fuzz target {name}: {covered} branches, at least {} are expected",
        target.floor
    );
    Ok(())
}

/// Returns the processor time in seconds of this process and its finished children.
fn busy() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    processor::busy(&stat).unwrap_or_default()
}

/// Returns the files of a target's findings, which begin with its name. Slow inputs are left out,
/// because a busy machine causes them; an input that exceeds `-timeout` is a finding.
fn artifacts(root: &Path, target: &str) -> Result<Vec<String>> {
    let folder = root.join("fuzz/artifacts");
    fs::create_dir_all(&folder)?;
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let slow = name.contains("-slow-unit-");
        names.extend((!slow && name.starts_with(&format!("{target}-"))).then_some(name));
    }
    names.sort();
    Ok(names)
}

fn installed() -> bool {
    let version = Command::new("cargo").args(["fuzz", "--version"]).output();
    version.is_ok_and(|output| output.status.success())
}

/// Builds the targets first, so that the build does not count as run time.
fn build(root: &Path, features: &str) -> Result<()> {
    let mut build = crate::command::cargo(root);
    build.args(["+nightly", "fuzz", "build", "--sanitizer", "none", ANY]);
    run(build.args(["--features", features]))
}

/// Runs a target with the random seed `seed`, which must not be 0, and returns the messages. A
/// finding is not an error here; the caller judges.
fn fuzz(root: &Path, target: &str, seconds: u32, features: &str, seed: u32) -> Result<String> {
    let temporary = tempfile::tempdir()?;
    // Discard the corpus of a planted mistake.
    let planted = features.contains("planted");
    let corpus = if planted {
        temporary.path().to_owned()
    } else {
        corpus::found(root, target)?
    };
    let artifacts = if planted {
        format!("{}/", temporary.path().display())
    } else {
        format!("{}/fuzz/artifacts/{target}-", root.display())
    };
    let mut command = crate::command::cargo(root);
    // The targets have no unsafe code, so sanitizers are not needed.
    command
        .args(["+nightly", "fuzz", "run", "--sanitizer", "none", ANY])
        .args(["--features", features])
        .arg(corpus)
        .arg(root.join("fuzz/seeds").join(target))
        .arg("--")
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!(
            "-dict={}/fuzz/dictionaries/{target}.dict",
            root.display()
        ))
        .arg(format!("-artifact_prefix={artifacts}"))
        // One or two mutations at a time keep most texts parseable.
        .args(["-mutate_depth=2", "-max_len=4096"])
        .arg(format!("-seed={seed}"))
        // In seconds of wall-clock time, which is longer on a busy machine.
        .args(["-timeout=30", "-rss_limit_mb=1024"]);
    let output = environment(&mut command, root, target).output();
    let output = output.context("cargo fuzz")?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if !text.contains("INITED") && !text.contains(PLANTED) {
        bail!("fuzz target {target} did not start:\n{}", tail(&text));
    }
    Ok(text)
}

/// Returns the branches that a completed run covered: `#123 DONE cov: 5084 ...`.
fn coverage(output: &str) -> Option<u32> {
    let line = output.lines().find(|line| line.contains("DONE"))?;
    let number = line.split("cov: ").nth(1)?.split(' ').next()?;
    number.parse().ok()
}

/// Returns how many inputs were tried, from the last status line: `#123 NEW cov: ...`.
fn ran(output: &str) -> u64 {
    let status = |line: &str| -> Option<u64> {
        let number = line.strip_prefix('#')?.split_whitespace().next()?;
        number.parse().ok()
    };
    output.lines().rev().find_map(status).unwrap_or(0)
}

fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::targets::TARGETS;
    use super::{coverage, ran};
    use std::collections::BTreeSet;

    #[test]
    fn coverage_is_that_of_a_finished_run() {
        let run = "#4\tINITED cov: 2539 ft: 3543\n#9\tDONE   cov: 5084 ft: 14312 corp: 1758\n";
        assert_eq!(coverage(run), Some(5084));
        let dictionary = "###### Recommended dictionary. ######\n";
        assert_eq!(ran(&format!("{run}{dictionary}")), 9);
        assert_eq!(ran("error: no such target"), 0);
        assert_eq!(
            coverage("#4\tINITED cov: 2539 ft: 3543\nSUMMARY: deadly signal"),
            None
        );
    }

    #[test]
    fn every_target_has_a_row() {
        let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds");
        let folders = std::fs::read_dir(seeds).unwrap();
        let names = folders.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let rows = TARGETS.iter().map(|target| target.name.to_owned());
        assert_eq!(names.collect::<BTreeSet<_>>(), rows.collect());
    }

    /// Returns whether libFuzzer cannot parse a line of a dictionary. It knows only the escapes of
    /// a backslash, of a quotation mark, and of two hexadecimal digits (`ParseOneDictionaryEntry`,
    /// FuzzerUtil.cpp).
    fn unreadable(line: &str) -> bool {
        let quoted = line
            .split_once('"')
            .and_then(|(_, rest)| rest.strip_suffix('"'));
        let Some(mut rest) = quoted else {
            return true;
        };
        while let Some((_, escape)) = rest.split_once('\\') {
            let hexadecimal = escape.as_bytes().get(1..3);
            let hexadecimal = hexadecimal.filter(|two| two.iter().all(u8::is_ascii_hexdigit));
            rest = match escape.as_bytes().first() {
                Some(b'\\' | b'"') => &escape[1..],
                Some(b'x') if hexadecimal.is_some() => &escape[3..],
                _ => return true,
            };
        }
        !line.is_ascii()
    }

    #[test]
    fn the_fuzzer_reads_every_dictionary() {
        assert!(unreadable(r#""\\\n""#) && !unreadable(r#"name="\\\x0a\"""#));
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/dictionaries");
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            for line in text
                .lines()
                .filter(|line| !line.is_empty() && !line.starts_with('#'))
            {
                assert!(!unreadable(line), "{}: {line}", path.display());
            }
        }
    }
}
