// SPDX-License-Identifier: Apache-2.0 OR MIT
//! tc-testing's states: what each case of the kernel's suite for tc makes is decoded,
//! covered by a policy, and must be there again when the policy is removed.

mod case;
mod inside;

use anyhow::{Context, Result};
use inside::{FILE, Outcome, Told};
use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weirgate_lab::{ArmOutput, Lab, Limits, Options};

pub use inside::run;

/// Where the suite is in the kernel's source.
const SUITE: &str = "tools/testing/selftests/tc-testing/tc-tests";

/// Programs that cases use, and weirgate's own.
const PROGRAMS: [&str; 18] = [
    "bash", "cat", "echo", "ethtool", "grep", "ip", "mkdir", "nft", "ping", "rm", "seq", "sh",
    "sleep", "tc", "timeout", "true", "weirgate", "outside",
];

/// How long a file of the suite may take.
const LIMITS: Limits = Limits {
    wall: Duration::from_mins(20),
    memory_mib: 512,
    console_bytes: 4 << 20,
};

/// What became of the cases of a file.
pub struct File {
    /// Its path in the suite, such as `qdiscs/red.json`.
    pub name: String,
    pub told: Vec<Told>,
}

/// Runs the files of the suite whose name has `only`.
///
/// # Errors
///
/// Where there is no suite or no laboratory.
pub fn states(source: &Path, only: &str, told: &mut dyn FnMut(&File)) -> Result<Vec<File>> {
    let lab = lab()?;
    let mut files = Vec::new();
    for (name, path) in suite(&source.join(SUITE), only)? {
        let text = fs::read(&path).with_context(|| path.display().to_string())?;
        let cases = case::cases(&String::from_utf8_lossy(&text)).context(name.clone())?;
        let words = ["outside", "inside", "tdc"];
        let ran = lab.execute(&words, &[(FILE, &text)], (1, LIMITS), &mut |_| ());
        let told_of = match ran {
            Ok(output) => read(&output)?,
            // What ends the machine is nobody's case alone.
            Err(error) => cases
                .into_iter()
                .map(|case| Told {
                    id: case.id,
                    name: case.name,
                    outcome: Outcome::Failed(format!("the machine ended: {error}")),
                })
                .collect(),
        };
        let file = File {
            name,
            told: told_of,
        };
        told(&file);
        files.push(file);
    }
    Ok(files)
}

/// The guest's lines.
fn read(output: &ArmOutput) -> Result<Vec<Told>> {
    let text = String::from_utf8_lossy(&output.result);
    let lines = text.lines().filter(|line| line.starts_with('{'));
    let told: Vec<Told> = lines
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()
        .with_context(|| text.clone().into_owned())?;
    anyhow::ensure!(text.starts_with("status: 0\n"), "{text}");
    Ok(told)
}

fn lab() -> Result<Lab> {
    let own = env::current_exe()?;
    let programs: BTreeSet<String> = PROGRAMS
        .iter()
        .map(|&name| match name {
            "weirgate" => own.with_file_name(name).to_string_lossy().into_owned(),
            "outside" => own.to_string_lossy().into_owned(),
            name => name.to_owned(),
        })
        .collect();
    let options = Options {
        programs,
        ..Options::default()
    };
    Ok(Lab::open(&options, &mut |note| eprintln!("{note}"))?)
}

/// The files of the suite, by folder and name.
fn suite(root: &Path, only: &str) -> Result<Vec<(String, PathBuf)>> {
    let mut files = Vec::new();
    for folder in ["qdiscs", "filters", "infra", "actions"] {
        let path = root.join(folder);
        for entry in fs::read_dir(&path).with_context(|| path.display().to_string())? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let name = format!("{folder}/{name}");
            if name.ends_with(".json") && name.contains(only) {
                files.push((name, path));
            }
        }
    }
    files.sort();
    Ok(files)
}
