// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a part of the suite in the guest: its script uses the kernel's tc, or the shim before it in
//! `PATH`.

use super::shim;
use crate::process::direct;
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// The paths of the suite and of the part to run in the guest.
pub const FOLDER: &str = "/suite";
pub const PART: &str = "/suite/part.json";

/// The paths of the shim and of this program in the guest.
const SHIM: &str = "/shim";
const OWN: &str = "/usr/sbin/outside";

/// The search path of programs.
const PATH: &str = "/usr/sbin:/usr/bin";

/// The script's output.
const REPORT: &str = "/tmp/report";
const ERRORS: &str = "/tmp/errors";

/// The interval at which refusals are checked.
const LOOK: Duration = Duration::from_millis(100);

/// What replaces the qdiscs under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// Nothing: the kernel's own qdiscs.
    Kernel,
    /// A policy with an HTB tree.
    Tree,
    /// A policy with the kit's shaper and disciplines.
    Kit,
}

impl Way {
    pub const ALL: [Self; 3] = [Self::Kernel, Self::Tree, Self::Kit];

    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Tree => "htb",
            Self::Kit => "kit",
        }
    }
}

/// Some tests of a script, one after the other, with one replacement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Part {
    pub script: String,
    /// The device whose qdisc is under test.
    pub device: String,
    pub tests: Vec<String>,
    pub way: Way,
}

impl Part {
    /// Returns the names of the script and its tests.
    pub fn title(&self) -> String {
        format!("{} {}", self.script, self.tests.join(" "))
    }
}

/// The outcome of a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    Passes,
    Fails,
    /// Its configuration could not be applied, for this reason.
    Cannot(String),
}

/// A line of the suite's report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestResult {
    pub name: String,
    pub outcome: Outcome,
    /// The suite's messages, such as measured values.
    pub messages: Vec<String>,
}

impl TestResult {
    /// Returns a result for all tests of a part.
    fn refused(why: &str) -> Self {
        Self {
            name: String::new(),
            outcome: Outcome::Cannot(why.to_owned()),
            messages: Vec::new(),
        }
    }
}

/// Runs the guest's part, and prints a line of JSON for each test.
pub fn run() -> Result<()> {
    let part: Part = serde_json::from_slice(&fs::read(PART)?)?;
    for words in [
        &["ip", "link", "set", "lo", "up"][..],
        &["ip", "netns", "add", shim::MIRROR],
    ] {
        let done = direct(words)?;
        ensure!(done.status == Some(0), "{}", done.message());
    }
    fs::create_dir_all(SHIM)?;
    symlink(OWN, format!("{SHIM}/tc"))?;
    let path = match part.way {
        Way::Kernel => PATH.to_owned(),
        Way::Tree | Way::Kit => format!("{SHIM}:{PATH}"),
    };
    let settings = [
        format!("PATH={path}"),
        format!("TESTS={}", part.tests.join(" ")),
        format!("{}={}", shim::DEVICE, part.device),
        format!("{}={}", shim::ENGINE, part.way.name()),
        "lib_dir=.".to_owned(),
    ];
    let mut script = Command::new("env")
        .args(settings)
        .args(["bash", &part.script])
        .current_dir(format!("{FOLDER}/forwarding"))
        .stdin(Stdio::null())
        .stdout(File::create(REPORT)?)
        .stderr(File::create(ERRORS)?)
        .spawn()?;
    // If the configuration cannot be applied, no traffic is needed.
    while script.try_wait()?.is_none() && !Path::new(shim::REFUSED).exists() {
        thread::sleep(LOOK);
    }
    let read = |place: &str| fs::read_to_string(place).unwrap_or_default();
    if let Some(why) = read(shim::REFUSED).lines().next() {
        script.kill()?;
        println!("{}", serde_json::to_string(&TestResult::refused(why))?);
    } else {
        for one in results(&read(REPORT)) {
            println!("{}", serde_json::to_string(&one)?);
        }
    }
    for place in [REPORT, ERRORS, shim::LOG] {
        eprintln!("{}", read(place));
    }
    Ok(())
}

/// Parses the suite's report.
fn results(output: &str) -> Vec<TestResult> {
    let mut all: Vec<TestResult> = Vec::new();
    let mut of = String::new();
    for line in output.lines() {
        if let Some(what) = line.strip_prefix("Testing ") {
            of = format!("{what}: ");
        } else if let Some(rest) = line.strip_prefix("TEST: ") {
            let (name, result) = rest.rsplit_once('[').unwrap_or((rest, ""));
            let outcome = match result.trim_end_matches(']').trim() {
                "OK" => Outcome::Passes,
                _ => Outcome::Fails,
            };
            all.push(TestResult {
                name: of.clone() + name.trim(),
                outcome,
                messages: Vec::new(),
            });
        } else if let Some(last) = all.last_mut() {
            let message = line.strip_prefix("INFO: ").or(line.strip_prefix('\t'));
            last.messages.extend(message.map(str::to_owned));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Testing ets bands 2, streams 0 1\n\
        TEST: band 0                                    [ OK ]\n\
        INFO: Expected ratio >95% Measured ratio 100.00\n\
        TEST: band 1 (x)                                [FAIL]\n\
        \tToo much traffic\n";

    #[test]
    fn a_report_is_read() {
        let results = results(TEXT);
        assert_eq!(results[0].name, "ets bands 2, streams 0 1: band 0");
        assert_eq!(results[0].outcome, Outcome::Passes);
        assert!(results[0].messages[0].starts_with("Expected"));
        assert_eq!(results[1].outcome, Outcome::Fails);
        assert_eq!(results[1].messages, ["Too much traffic"]);
    }
}
