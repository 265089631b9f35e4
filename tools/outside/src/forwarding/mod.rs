// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's forwarding tests of tbf, red, ets and prio. Each runs with the kernel's qdiscs
//! first, then with weirgate's, which a shim named `tc` installs instead.

mod inside;
mod mirror;
mod report;
mod shim;
mod translate;

use crate::kept::Kept;
use crate::machine::{LIMITS, ematches, lab, lines};
use crate::page::selected;
use crate::tdc;
use anyhow::{Context, Result};
use inside::{FOLDER, Outcome, PART, Part, TestResult, Way};
use std::fs;
use std::path::Path;
use std::time::Instant;
use weirgate_lab::{Cache, Lab, package};

pub use inside::run;
pub use report::text;
pub use shim::{called, run as shim};

/// The folder of the suite and its includes in the kernel's source.
const SUITE: &str = "tools/testing/selftests/net";

/// The libraries of every script.
const LIBRARIES: [&str; 3] = ["lib.sh", "lib/sh/defer.sh", "forwarding/lib.sh"];

/// A script, the switch port whose qdisc it tests, and its includes.
struct Script {
    name: &'static str,
    device: &'static str,
    includes: &'static [&'static str],
}

const SCRIPTS: [Script; 5] = [
    Script {
        name: "sch_tbf_root.sh",
        device: "veth2",
        includes: &["sch_tbf_core.sh"],
    },
    Script {
        name: "sch_tbf_prio.sh",
        device: "veth2",
        includes: &["sch_tbf_core.sh", "sch_tbf_etsprio.sh"],
    },
    Script {
        name: "sch_tbf_ets.sh",
        device: "veth2",
        includes: &["sch_tbf_core.sh", "sch_tbf_etsprio.sh"],
    },
    Script {
        name: "sch_red.sh",
        device: "veth4",
        includes: &[],
    },
    Script {
        name: "sch_ets.sh",
        device: "veth2",
        includes: &["sch_ets_core.sh", "sch_ets_tests.sh"],
    },
];

/// Programs of this machine that scripts use.
const PROGRAMS: [&str; 25] = [
    "basename", "bash", "bridge", "cat", "cut", "date", "dirname", "env", "ethtool", "grep", "id",
    "ip", "mkdir", "nft", "ping", "readlink", "realpath", "rm", "sed", "seq", "sleep", "sysctl",
    "tc", "tr", "wc",
];

/// Programs that few machines have: the package, and the path in it.
const FETCHED: [(&str, &str); 3] = [
    ("netsniff-ng", "usr/sbin/mausezahn"),
    ("jq", "usr/bin/jq"),
    ("bc", "usr/bin/bc"),
];

/// The results of a part: its tests with each replacement that ran.
pub struct Found {
    pub part: Part,
    pub ways: Vec<(Way, Vec<TestResult>)>,
}

/// Runs the parts of the suite whose name contains `only`. Returns the results, and the parts that
/// were not begun before `until`.
///
/// # Errors
///
/// Fails if there is no suite or no laboratory.
pub fn tests(
    source: &Path,
    only: &str,
    until: Option<Instant>,
) -> Result<(Vec<Found>, Vec<String>)> {
    let note = &mut |note: &str| eprintln!("{note}");
    let fetched: Vec<String> = FETCHED
        .into_iter()
        .map(|(name, place)| {
            let tree = package(name, &Cache::of_user(), note)?;
            Ok(tree.join(place).to_string_lossy().into_owned())
        })
        .collect::<Result<_>>()?;
    let lab = lab(PROGRAMS
        .into_iter()
        .chain(fetched.iter().map(String::as_str)))?;
    let kept = Kept::of("forwarding", &[&lab.kernel().release, &tdc::version()?])?;
    let suite = source.join(SUITE);
    let machine = Machine { lab, kept, until };
    let (mut all, mut left) = (Vec::new(), Vec::new());
    let (place, ematches) = ematches()?;
    let mut scripts = Vec::new();
    for script in &SCRIPTS {
        let mut files = files(&suite, script)?;
        files.push((place.to_owned(), ematches.clone()));
        let mut parts = parts(script, &files);
        parts.retain(|part| part.title().contains(only));
        if !parts.is_empty() {
            scripts.push((files, parts));
        }
    }
    for (files, parts) in selected(scripts, only)? {
        for part in parts {
            let mut ways: Vec<(Way, Vec<TestResult>)> = Vec::new();
            for way in Way::ALL {
                // A test that fails with the kernel's own qdiscs says nothing.
                let passes = |one: &TestResult| one.outcome == Outcome::Passes;
                if ways
                    .first()
                    .is_some_and(|(_, results)| !results.iter().any(passes))
                {
                    break;
                }
                let part = Part {
                    way,
                    ..part.clone()
                };
                let Some(results) = machine.results(&files, &part)? else {
                    // The remaining replacements are not run either.
                    left.push(part.title());
                    break;
                };
                ways.push((way, results));
            }
            all.push(Found { part, ways });
        }
    }
    Ok((all, left))
}

/// Runs parts, and has the results of earlier runs.
struct Machine {
    lab: Lab,
    kept: Kept,
    until: Option<Instant>,
}

impl Machine {
    /// Returns the results of a part; `None` if it must not begin any more.
    fn results(&self, files: &[Text], part: &Part) -> Result<Option<Vec<TestResult>>> {
        let asked = serde_json::to_vec(part)?;
        let mut with = asked.clone();
        for (_, text) in files {
            with.extend(text);
        }
        if let Some(results) = self.kept.read(&with) {
            return Ok(Some(results));
        }
        if self.until.is_some_and(|until| Instant::now() > until) {
            return Ok(None);
        }
        let files: Vec<(&str, &[u8])> = files
            .iter()
            .map(|(path, bytes)| (&**path, &**bytes))
            .chain([(PART, &*asked)])
            .collect();
        let words = ["outside", "inside", "forwarding"];
        let results: Vec<TestResult> =
            lines(&self.lab.execute(&words, &files, (1, LIMITS), &mut |_| ())?)?;
        eprintln!("{} {}: {results:?}", part.title(), part.way.name());
        self.kept.write(&with, &results)?;
        Ok(Some(results))
    }
}

/// The path of a file in the machine, and its contents.
type Text = (String, Vec<u8>);

/// Returns a script with all its includes, by their paths in the machine.
fn files(suite: &Path, script: &Script) -> Result<Vec<Text>> {
    let own = script.includes.iter().chain([&script.name]);
    let own = own.map(|name| format!("forwarding/{name}"));
    let shared = LIBRARIES.into_iter().map(str::to_owned);
    shared
        .chain(own)
        .map(|name| {
            let path = suite.join(&name);
            let text = fs::read(&path).with_context(|| path.display().to_string())?;
            Ok((format!("{FOLDER}/{name}"), text))
        })
        .collect()
}

/// The first test of every script, which checks the network and needs no qdisc.
const PING: &str = "ping_ipv4";

/// The beginning of the list of a script's tests.
const LIST: &str = "ALL_TESTS=\"";

/// Returns the parts of a script: each of its tests alone, after the test that sets its mode. Of
/// several lists, the last one counts.
fn parts(script: &Script, texts: &[Text]) -> Vec<Part> {
    let mut lists = texts.iter().rev().filter_map(|(_, text)| {
        let text = String::from_utf8_lossy(text);
        let (_, rest) = text.split_once(LIST)?;
        Some(rest.split('"').next()?.to_owned())
    });
    let names = lists.next().unwrap_or_default();
    let mut mode = None;
    let mut parts = Vec::new();
    for name in names.split_whitespace() {
        if name == PING {
            continue;
        }
        if name.ends_with("_mode") {
            mode = Some(name);
            continue;
        }
        let words = mode.into_iter().chain([name]).map(str::to_owned);
        parts.push(Part {
            script: script.name.to_owned(),
            device: script.device.to_owned(),
            tests: words.collect(),
            way: Way::Kernel,
        });
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_test_is_a_part_in_its_mode() {
        let text =
            b"x\nALL_TESTS=\"\n\tping_ipv4\n\tzero\n\ta_mode\n\tone\n\ttwo\n\tb_mode\n\tone\n\"\n";
        let files = [("f".to_owned(), text.to_vec())];
        let tests: Vec<String> = parts(&SCRIPTS[0], &files)
            .iter()
            .map(|part| part.tests.join(" "))
            .collect();
        assert_eq!(tests, ["zero", "a_mode one", "a_mode two", "b_mode one"]);
    }
}
