// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares irtt and flent with the laboratory's own generators: the same echoes and transfers on
//! the same line under the same policy, once by each.

mod cases;
mod echoes;
mod figures;
mod flent;
mod inside;
mod irtt;
mod python;
mod report;

use crate::kept::Kept;
use crate::machine::{LIMITS, lab, lines};
use crate::page::selected;
use anyhow::{Context, Result};
use cases::{CASES, Case};
use figures::Figures;
use inside::{PART, Part};
use python::PYTHON;
use std::path::{Path, PathBuf};
use std::process::Command;
use weirgate_lab::{Cache, Lab, package};

pub use inside::run;
pub use report::text;

/// Programs of this machine that flent runs to collect facts.
const PROGRAMS: [&str; 11] = [
    "basename", "dd", "env", "ethtool", "find", "ip", "readlink", "sh", "sysctl", "tc", "uname",
];

/// Programs that few machines have: the package, and the path in it.
const FETCHED: [(&str, &str); 5] = [
    ("irtt", "usr/bin/irtt"),
    ("netperf", "usr/bin/netperf"),
    ("netperf", "usr/bin/netserver"),
    ("fping", "usr/bin/fping"),
    ("flent", "usr/bin/python3.11"),
];

/// Files in which fping looks up protocol numbers, and this machine's name, which flent pings.
const NAMES: [(&str, &[u8]); 2] = [
    ("/etc/protocols", b"icmp 1 ICMP\nipv6-icmp 58 IPv6-ICMP\n"),
    ("/etc/hosts", b"127.0.0.1 localhost\n"),
];

/// The number of seeds for each load, from 1 on.
pub const SEEDS: u64 = 5;

/// The results of a case.
pub struct Found {
    case: &'static Case,
    /// The figures by seed.
    ours: Vec<Figures>,
    theirs: Vec<Figures>,
}

/// Runs every case whose title contains `only`, or uses the results of an earlier run.
///
/// # Errors
///
/// Fails if a program cannot be fetched, there is no laboratory, or a program measured nothing.
pub fn compared(only: &str) -> Result<(Vec<Found>, String)> {
    let cases = CASES.iter().filter(|case| case.title.contains(only));
    let cases = selected(cases.collect(), only)?;
    let cache = Cache::of_user();
    let fetched = |name| package(name, &cache, &mut |note| eprintln!("{note}"));
    let mut programs = Vec::new();
    for (name, place) in FETCHED {
        programs.push(fetched(name)?.join(place));
    }
    let flent = fetched("flent")?;
    programs.extend(python::libraries(&flent)?);
    let names: Vec<String> = programs.iter().map(|path| shown(path)).collect();
    let lab = lab(PROGRAMS.into_iter().chain(names.iter().map(String::as_str)))?;
    let versions = versions(&fetched("irtt")?, &fetched("netperf")?, &flent)?;
    let machine = Machine {
        kept: Kept::of("generators", &[&lab.kernel().release, &versions])?,
        python: python::files(&flent)?,
        lab,
    };
    let mut all = Vec::new();
    for case in cases {
        let mut found = Found {
            case,
            ours: Vec::new(),
            theirs: Vec::new(),
        };
        for seed in 1..=SEEDS {
            found.ours.push(machine.figures(case, &case.ours(seed))?);
            found
                .theirs
                .push(machine.figures(case, &case.theirs(seed))?);
        }
        all.push(found);
    }
    Ok((all, versions))
}

/// Runs parts, and has the results of earlier runs.
struct Machine {
    lab: Lab,
    kept: Kept,
    python: Vec<(String, Vec<u8>)>,
}

impl Machine {
    fn figures(&self, case: &Case, part: &Part) -> Result<Figures> {
        let asked = serde_json::to_vec(part)?;
        if let Some(figures) = self.kept.read(&asked) {
            return Ok(figures);
        }
        let named = (PART.to_owned(), asked.clone());
        let files: Vec<(&str, &[u8])> = self
            .python
            .iter()
            .chain([&named])
            .map(|(path, bytes)| (&**path, &**bytes))
            .chain(NAMES)
            .collect();
        let words = ["outside", "inside", "generators"];
        let output = self
            .lab
            .execute(&words, &files, (part.seed, LIMITS), &mut |_| ())?;
        let mut measured: Vec<Figures> = lines(&output)?;
        let figures = measured.pop().context("nothing was measured")?;
        let seconds = output.wall.as_secs();
        eprintln!(
            "{} {}, seed {}: {seconds} s",
            case.title, part.arm, part.seed
        );
        self.kept.write(&asked, &figures)?;
        Ok(figures)
    }
}

/// Returns the programs' versions.
fn versions(irtt: &Path, netperf: &Path, flent: &Path) -> Result<String> {
    let first = |program: PathBuf, words: &[&str]| {
        let done = Command::new(&program)
            .env("PYTHONHOME", flent.join("usr"))
            .env("PYTHONPATH", flent.join(python::FLENT))
            .args(words)
            .output()
            .with_context(|| program.display().to_string())?;
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        let digits = |word: &&str| {
            word.trim_matches('v')
                .starts_with(|c: char| c.is_ascii_digit())
        };
        let words = text.split_whitespace().find(digits);
        let version = words.with_context(|| format!("{} says no version", program.display()))?;
        anyhow::Ok(version.trim_matches(['v', '.']).to_owned())
    };
    let python = flent.join("usr/bin").join(PYTHON);
    Ok(format!(
        "irtt {}, flent {}, netperf {}",
        first(irtt.join("usr/bin/irtt"), &["version"])?,
        first(python, &["-S", "-m", "flent", "--version"])?,
        first(netperf.join("usr/bin/netperf"), &["-V"])?,
    ))
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
