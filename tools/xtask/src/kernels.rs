// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The README's promises on every kernel that the lab fetches: one short run of each. The page
//! shows where a promise holds, differs, or cannot be tested.
//!
//! Each run has one file of figures in the folder. A run whose file exists is not repeated, so that
//! an interrupted task can continue.

use crate::files::program;
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The names of the kernels (`weirgate_experiment::KernelName`).
const KERNELS: [&str; 4] = ["cloud", "generic", "6.12", "6.1"];

/// The text for a missing figure.
const NOT_RUN: &str = "not run";

/// A promise, and the run that tests it.
struct Promise {
    /// A description.
    about: &'static str,
    experiment: &'static str,
    arm: &'static str,
    /// The figure that is shown.
    metric: &'static str,
}

const fn promise(about: &'static str, [experiment, arm, metric]: [&'static str; 3]) -> Promise {
    Promise {
        about,
        experiment,
        arm,
        metric,
    }
}

/// The promises of docs/measurements/promises.md.
const PROMISES: [Promise; 14] = [
    promise(
        "`weirgate try`: mean round trip beside uploads, ms",
        ["try", "weirgate", "uploads.rtt.interactive.mean_ms"],
    ),
    promise(
        "An interactive packet beside bulk uploads: longest round trip, ms",
        ["adsl-6.2", "weirgate", "bulk.rtt.interactive.max_ms"],
    ),
    promise(
        "A class edit: the administrator's longest round trip, ms",
        ["change", "edit", "rtt.shell.max_ms"],
    ),
    promise(
        "The first apply: packets that pass unshaped",
        ["change-engine", "first", "change.1.unshaped_packets"],
    ),
    promise(
        "A change of the engine: packets that pass unshaped",
        ["change-engine", "engine", "change.1.unshaped_packets"],
    ),
    promise(
        "Connections whose rule changed: written within, ms",
        ["change-kept", "edited", "change.1.writing_ms"],
    ),
    promise(
        "`moves = \"in-order\"`: segments overtaken",
        ["bulk-move", "order", "overtaken.mover-up.segments"],
    ),
    promise(
        "Control traffic beside a saturated bad class: longest echo, ms",
        ["control", "default", "bad.rtt.echo.max_ms"],
    ),
    promise(
        "The kit's WRED: goodput of the far flow, kbit/s",
        ["ds-rtt", "wred", "full.goodput.far.mean_kbit"],
    ),
    promise(
        "An edit of the kit's shaper: use of the line",
        ["change-queues", "kit", "edits.util.up.ratio"],
    ),
    promise(
        "The waits that `check` prints: longest of a lone packet, ms",
        ["bounds", "weirgate", "single.sojourn.interactive-up.max_ms"],
    ),
    promise(
        "Limits of classes: the rate of one at its limit, kbit/s",
        ["departments", "limits", "two-up.iprate.two1-up.mean_kbit"],
    ),
    promise(
        "The engine `cake`: use of the line",
        ["engine-cake", "cake", "large.util.up.ratio"],
    ),
    promise(
        "Fairness between hosts: Jain's index downstream",
        ["fairness", "hosts-ifb", "down.jain.hosts-down.index"],
    ),
];

const HEAD: &str = "<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->\n\
    <!-- Made by `cargo xtask kernels`; do not edit. -->\n\
    # Promises on older kernels\n\n\
    The README's promises on the kernels that the lab fetches (`weirgate lab prepare --kernel \
    NAME`). `cloud` is the lab's own. `generic` is Debian's kernel for any machine, of the same \
    suite. `6.12` is that of Debian 13, and `6.1` that of Debian 12. Each cell is one run with \
    one seed: the figure, and how many of the arm's expectations it keeps. The expectations are \
    those of the experiment's file, except where one compares with another arm or another \
    figure.\n\n\
    Before Linux 6.16 there are no qdiscs of BPF programs. `engine = \"kit\"` and a discipline of \
    the kit as a queue are refused there before anything is changed. `weirgate doctor POLICY` \
    says so (`missing-module`), and `weirgate doctor --json` lists each part of the kernel.\n";

/// Makes the missing runs, unless `page_only`, then writes the page.
pub fn run(root: &Path, folder: Option<&Path>, page_only: bool) -> Result<()> {
    let folder = folder.map_or_else(|| root.join("target/kernels"), Path::to_owned);
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    for promise in &PROMISES {
        for kernel in KERNELS {
            if !page_only && cell(&folder, promise, kernel) == Cell::NotRun {
                make(root, &folder, promise, kernel)?;
            }
        }
    }
    for kernel in KERNELS {
        let file = programs(&folder, kernel);
        if !page_only && !file.exists() {
            let mut command = lab(root);
            command.args(["aqm", "verify", "--kernel", kernel]);
            let output = command
                .stderr(Stdio::inherit())
                .output()
                .context("the lab")?;
            // It also fails if a program is not taken, which it then reports.
            let reported = !output.stdout.is_empty();
            ensure!(reported, "{command:?} ended with {}", output.status);
            fs::write(&file, &output.stdout).with_context(|| file.display().to_string())?;
        }
    }
    let page = root.join("docs/measurements/kernels.md");
    fs::write(&page, text(&folder)).with_context(|| page.display().to_string())
}

fn lab(root: &Path) -> Command {
    let mut command = Command::new(program(root, "weirgate-lab"));
    command.current_dir(root).stdin(Stdio::null());
    command
}

/// Returns the path of a kernel's verifier report on weirgate's programs.
fn programs(folder: &Path, kernel: &str) -> PathBuf {
    folder.join(format!("{kernel}-programs.txt"))
}

/// The content of a table's cell.
#[derive(Debug, PartialEq, Eq)]
enum Cell {
    NotRun,
    /// The run has no figures: the code of the message, or its first line.
    Refused(String),
    Measured(String),
}

fn at(folder: &Path, promise: &Promise, kernel: &str, ending: &str) -> PathBuf {
    let (experiment, arm) = (promise.experiment, promise.arm);
    folder.join(format!("{kernel}-{experiment}-{arm}.{ending}"))
}

fn make(root: &Path, folder: &Path, promise: &Promise, kernel: &str) -> Result<()> {
    let messages = at(folder, promise, kernel, "messages");
    let file = fs::File::create(&messages).with_context(|| messages.display().to_string())?;
    let mut command = lab(root);
    command.args(["lab", "run", promise.experiment]);
    command.args(["--arm", promise.arm, "--seeds", "1", "--jobs", "1"]);
    command.args(["--json", "--kernel", kernel]);
    let output = command.stderr(file).output().context("the lab")?;
    let figures = at(folder, promise, kernel, "json");
    fs::write(&figures, &output.stdout).with_context(|| figures.display().to_string())
}

fn cell(folder: &Path, promise: &Promise, kernel: &str) -> Cell {
    let read = |ending| fs::read_to_string(at(folder, promise, kernel, ending));
    let Ok(figures) = read("json") else {
        return Cell::NotRun;
    };
    match serde_json::from_str(&figures) {
        Ok(outcome) => Cell::Measured(measured(&outcome, promise)),
        Err(_) => refused(&read("messages").unwrap_or_default()),
    }
}

/// Returns why a run has no figures. An interrupted run counts as not run.
fn refused(messages: &str) -> Cell {
    let after = |before: &str| messages.split_once(before).map(|(_, rest)| rest);
    if let Some(code) = after("error[").and_then(|rest| rest.split(']').next()) {
        return Cell::Refused(code.to_owned());
    }
    let reason = after("the guest reports: ").and_then(|rest| rest.lines().next());
    reason.map_or(Cell::NotRun, |reason| Cell::Refused(reason.to_owned()))
}

/// Returns the figure, and how many expectations are kept.
fn measured(outcome: &Value, promise: &Promise) -> String {
    let arm = &outcome["arms"][promise.arm];
    let value = |metric: &str| arm["metrics"][metric].as_f64();
    let figure = value(promise.metric).map_or_else(|| "no figure".to_owned(), short);
    let (mut all, mut missed) = (0, Vec::new());
    for (metric, expected) in arm["expected"].as_object().into_iter().flatten() {
        let how = expected["tolerance"].as_str().unwrap_or_default();
        // A second expectation on a metric is named `METRIC#2`.
        let number = metric
            .rsplit_once('#')
            .filter(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit()));
        let name = number.map_or(metric.as_str(), |(name, _)| name);
        let Some(wanted) = expected["value"].as_f64() else {
            continue;
        };
        let Some(value) = value(name) else {
            all += 1;
            missed.push(format!("`{metric}` has no figure"));
            continue;
        };
        let Some(kept) = judge(value, wanted, how) else {
            continue;
        };
        all += 1;
        if !kept {
            let (value, wanted) = (short(value), short(wanted));
            missed.push(format!("`{metric}` {value}, expected {how} {wanted}"));
        }
    }
    match missed.as_slice() {
        [] => format!("{figure}; {all} of {all}"),
        missed => format!(
            "**{figure}; {} of {all}**: {}",
            all - missed.len(),
            missed.join("; ")
        ),
    }
}

/// Returns whether a figure is as expected; `None` for another form of tolerance.
fn judge(value: f64, wanted: f64, tolerance: &str) -> Option<bool> {
    /// The rounding error of a sum with this many terms is smaller.
    const ROUNDING: f64 = 1e-9;
    Some(match tolerance {
        "at least" => value >= wanted - ROUNDING,
        "at most" => value <= wanted + ROUNDING,
        distance => {
            let most = match distance.strip_suffix('%') {
                Some(share) => share.trim().parse::<f64>().ok()? / 100.0 * wanted.abs(),
                None => distance.parse().ok()?,
            };
            (value - wanted).abs() <= most + ROUNDING
        }
    })
}

/// Formats a number with at most four digits.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        large if large >= 1_000.0 => 0,
        middle if middle >= 100.0 => 1,
        small if small >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    match text.split_once('.') {
        Some(_) => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        None => text,
    }
}

fn text(folder: &Path) -> String {
    let mut text = HEAD.to_owned();
    let _ = writeln!(text, "\n| promise | {} |", KERNELS.join(" | "));
    text.push_str(&"|---".repeat(KERNELS.len() + 1));
    text.push_str("|\n");
    let mut missing = 0;
    for promise in &PROMISES {
        let cells = KERNELS.map(|kernel| match cell(folder, promise, kernel) {
            Cell::NotRun => {
                missing += 1;
                NOT_RUN.to_owned()
            }
            Cell::Refused(why) => format!("refused: {why}"),
            Cell::Measured(text) => text,
        });
        if cells.iter().all(|cell| cell == NOT_RUN) {
            continue;
        }
        let (about, experiment, arm) = (promise.about, promise.experiment, promise.arm);
        let place = format!("`{experiment}`, arm `{arm}`");
        let _ = writeln!(text, "| {about} ({place}) | {} |", cells.join(" | "));
    }
    let of = PROMISES.len() * KERNELS.len();
    let _ = writeln!(
        text,
        "\n{} of {of} runs have been made. Promises of which there is none are left out.",
        of - missing
    );
    text.push_str(
        "\n## Programs for the kernel\n\nWhat each kernel's verifier says of every program that \
         weirgate carries (`weirgate-lab aqm verify --kernel NAME`).\n\n\
         | kernel | taken | not taken |\n|---|--:|---|\n",
    );
    for kernel in KERNELS {
        let row = match fs::read_to_string(programs(folder, kernel)) {
            Ok(text) => taken(&text),
            Err(_) => "not asked | ".to_owned(),
        };
        let _ = writeln!(text, "| `{kernel}` | {row} |");
    }
    text
}

/// Returns how many programs were accepted, and which were not, by reason.
fn taken(text: &str) -> String {
    let (mut taken, mut refused) = (0, BTreeMap::<&str, Vec<&str>>::new());
    for line in text.lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        if let Some((_, why)) = line.split_once("the verifier refuses it: ") {
            // If a whole kind is missing, say so instead of the system's error.
            let why = why.split_once("; ").map_or(why, |(_, kind)| kind);
            refused.entry(why).or_default().push(name);
        } else if line.contains(" instructions,") {
            taken += 1;
        }
    }
    let refused = refused.into_iter().map(|(why, names)| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        format!("{}: {why}", names.join(", "))
    });
    let refused: Vec<String> = refused.collect();
    format!("{taken} | {}", refused.join(". "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expectations_are_judged_by_their_tolerance() {
        let kept = |value, wanted, tolerance| judge(value, wanted, tolerance) == Some(true);
        assert!(kept(38.0, 38.0, "at most") && !kept(38.1, 38.0, "at most"));
        assert!(kept(0.99, 0.99, "at least") && !kept(0.98, 0.99, "at least"));
        assert!(kept(101.0, 100.0, "1%") && !kept(101.1, 100.0, "1%"));
        assert!(kept(100.5, 100.0, "0.5") && !kept(100.6, 100.0, "0.5"));
        assert_eq!(judge(1.0, 1.0, "roughly"), None);
    }

    #[test]
    fn what_was_refused_says_its_code() {
        let text =
            "weirgate: arm `kit`: the guest reports: apply: it has mistakes: | error[C231]: x";
        assert_eq!(refused(text), Cell::Refused("C231".to_owned()));
        let text = "weirgate: arm `kit`: the guest reports: no such device\nmore";
        assert_eq!(refused(text), Cell::Refused("no such device".to_owned()));
        assert_eq!(refused("try kit: 0 of 20 virtual seconds"), Cell::NotRun);
    }

    #[test]
    fn programs_are_counted_by_their_reports() {
        let text = "kernel 6.1\nmarks  not taken: the kernel: the verifier refuses it: no\n\
                    udp  870 instructions,  5448 verified\n\
                    red  not taken: the kernel: the verifier refuses it: no; qdiscs\n\
                    pie  not taken: the kernel: the verifier refuses it: no; qdiscs\n";
        assert_eq!(taken(text), "1 | `marks`: no. `red`, `pie`: qdiscs");
    }

    #[test]
    fn figures_have_four_digits() {
        let text = [28.2345, 1685.4, 0.0, 0.998, 241.06].map(short);
        assert_eq!(text, ["28.23", "1685", "0", "0.998", "241.1"]);
    }
}
