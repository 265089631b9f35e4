// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzing: first that the fuzzer finds a planted mistake, then that it finds
//! nothing else and has gone through enough of the code.

use crate::command::run;
use anyhow::{Context, Result, bail, ensure};
use std::path::Path;
use std::process::Command;

/// A target, and the branches that a run must at least have seen: about twice what
/// its own seeds alone see. `packet` has few, so half as many again are asked. The
/// seeds of `message`, `history`, `inbound`, `imported`, `kept` and of what
/// disciplines read (`recording`, `capture`, `script`) see most, so the number is a
/// little less than what twenty seconds see. What `tree` calls is C, whose branches the
/// fuzzer does not see.
const TARGETS: [(&str, u32); 17] = [
    ("policy", 4_400),
    ("experiment", 3_300),
    ("domain", 4_700),
    ("packet", 1_400),
    ("message", 140),
    ("history", 1_150),
    ("recording", 430),
    ("capture", 840),
    ("script", 600),
    ("asked", 630),
    ("imported", 4_000),
    ("uci", 0),
    ("kept", 2_400),
    ("inbound", 690),
    ("track", 0),
    ("tree", 0),
    ("circuits", 0),
];

/// What a planted mistake says when it is met; see the targets.
const PLANTED: &str = "the planted mistake";

/// The longest that finding it may take, in seconds: many times what it takes
/// on a quiet machine, where it takes some ten thousand runs.
const PATIENCE: u32 = 900;

/// A run of fewer texts says nothing about the branches; a quiet machine tries
/// as many in a minute.
const LEAST_RUNS: u64 = 100_000;

/// Runs the named targets, or all: the planted mistake, then `seconds` without it.
#[allow(clippy::print_stdout, reason = "what takes minutes is told")]
pub fn all(root: &Path, seconds: u32, named: &[String]) -> Result<()> {
    for name in named {
        let known = TARGETS.iter().any(|(target, _)| target == name);
        ensure!(known, "there is no fuzz target {name}");
    }
    if !installed() {
        println!("installing cargo-fuzz");
        run(Command::new("cargo").args(["install", "--locked", "cargo-fuzz"]))?;
    }
    let asked = |target: &str| named.is_empty() || named.iter().any(|name| name == target);
    for (target, floor) in TARGETS.into_iter().filter(|(target, _)| asked(target)) {
        let output = fuzz(root, target, PATIENCE, "fuzzing,planted")?;
        ensure!(
            output.contains(PLANTED),
            "fuzz target {target}: the planted mistake was not found within {PATIENCE} s ({} runs)",
            ran(&output)
        );
        println!(
            "{target}: found the planted mistake ({} runs)",
            ran(&output)
        );
        let output = fuzz(root, target, seconds, "fuzzing")?;
        let covered = coverage(&output)
            .with_context(|| format!("fuzz target {target} ended early:\n{}", tail(&output)))?;
        let runs = ran(&output);
        println!("{target}: {seconds} s without a finding ({runs} runs), {covered} branches");
        if runs < LEAST_RUNS {
            println!("{target}: fewer than {LEAST_RUNS} runs; its branches are not judged");
        }
        ensure!(
            runs < LEAST_RUNS || covered >= floor,
            "fuzz target {target}: {covered} branches, at least {floor} are expected"
        );
    }
    Ok(())
}

fn installed() -> bool {
    let version = Command::new("cargo").args(["fuzz", "--version"]).output();
    version.is_ok_and(|output| output.status.success())
}

/// The messages of a run. A finding is no error here; the caller judges.
fn fuzz(root: &Path, target: &str, seconds: u32, features: &str) -> Result<String> {
    let corpus = tempfile::tempdir()?;
    let artifacts = tempfile::tempdir()?;
    let keep = if features.contains("planted") {
        artifacts.path().into()
    } else {
        root.join("fuzz/artifacts")
    };
    std::fs::create_dir_all(&keep)?;
    // The targets have no unsafe code that a sanitizer would watch.
    let output = crate::command::cargo(root)
        .args(["+nightly", "fuzz", "run", "--sanitizer", "none", target])
        .args(["--features", features])
        .arg(corpus.path())
        .arg(root.join("fuzz/seeds").join(target))
        .arg("--")
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!(
            "-dict={}/fuzz/dictionaries/{target}.dict",
            root.display()
        ))
        .arg(format!("-artifact_prefix={}/", keep.display()))
        // One or two changes at a time leave most texts readable.
        .args(["-mutate_depth=2", "-max_len=4096", "-seed=1"])
        // In seconds of wall time, which a busy machine stretches.
        .args(["-timeout=30", "-rss_limit_mb=1024"])
        .output()
        .context("cargo fuzz")?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if !text.contains("INITED") && !text.contains(PLANTED) {
        bail!("fuzz target {target} did not start:\n{}", tail(&text));
    }
    Ok(text)
}

/// The branches seen by a run that ended by itself: `#123 DONE cov: 5084 ...`.
fn coverage(output: &str) -> Option<u32> {
    let line = output.lines().find(|line| line.contains("DONE"))?;
    let number = line.split("cov: ").nth(1)?.split(' ').next()?;
    number.parse().ok()
}

/// How many texts were tried, of the last status line: `#123 NEW cov: ...`.
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
    use super::{coverage, ran};

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

    /// Whether libFuzzer cannot read a line of a dictionary: it knows no escapes
    /// but of a backslash, of a quotation mark, and of two hexadecimal digits
    /// (`ParseOneDictionaryEntry`, FuzzerUtil.cpp).
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
