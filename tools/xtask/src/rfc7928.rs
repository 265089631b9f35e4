// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the scenarios of RFC 7928 for every discipline of the kit, and writes their tables.
//!
//! The scenarios are experiments in `experiments/rfc7928`; `rfc7928.toml` lists the figures with a
//! column.

use crate::aqm;
use crate::files::program;
use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

/// The page whose tables are rewritten, and their place in it.
const PAGE: &str = "docs/measurements/rfc7928.md";
const BEGIN: &str = "<!-- scenarios: begin -->\n";
const END: &str = "<!-- scenarios: end -->";

/// The time limit of a run, in seconds of wall-clock time.
const LONGEST_SECONDS: &str = "3600";

/// The arm of every scenario.
const ARM: &str = "kit";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(rename = "scenario")]
    scenarios: Vec<Scenario>,
}

/// An experiment, and the figures that are shown.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    experiment: String,
    columns: Vec<Column>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Column {
    title: String,
    metric: String,
}

/// The page's texts about an experiment.
#[derive(Deserialize)]
struct Experiment {
    title: String,
    source: String,
    about: String,
}

/// Makes the runs that `folder` lacks, unless `page_only`, as many at once as there are processors.
/// Then writes the tables.
///
/// # Errors
///
/// Fails if a run fails, or a file cannot be read or written.
pub fn run(root: &Path, folder: Option<&Path>, page_only: bool) -> Result<()> {
    let folder = folder.map_or_else(|| root.join("target/rfc7928"), Path::to_owned);
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let text = include_str!("../rfc7928.toml");
    let list: List = toml::from_str(text).context("tools/xtask/rfc7928.toml")?;
    let disciplines = aqm::disciplines(root)?;
    let names: Vec<&str> = disciplines.iter().map(|(name, _)| name.as_str()).collect();
    if !page_only {
        let missing = list.scenarios.iter().flat_map(|scenario| {
            let folder = &folder;
            let runs = names
                .iter()
                .map(|name| (scenario.experiment.as_str(), *name));
            runs.filter(move |run| !folder.join(file(*run)).exists())
        });
        make(root, &folder, missing.collect())?;
    }
    let mut tables = String::new();
    for scenario in &list.scenarios {
        tables += &section(root, &folder, scenario, &names)?;
    }
    let page = root.join(PAGE);
    let text = fs::read_to_string(&page).context(PAGE)?;
    let (head, rest) = text.split_once(BEGIN).context(PAGE)?;
    let (_, tail) = rest.split_once(END).context(PAGE)?;
    fs::write(&page, format!("{head}{BEGIN}\n{tables}{END}{tail}")).context(PAGE)
}

/// Returns the file of a run's outcome.
fn file((experiment, discipline): (&str, &str)) -> String {
    format!("{experiment}-{discipline}.json")
}

/// Makes runs until all are complete or one has failed.
fn make(root: &Path, folder: &Path, mut runs: Vec<(&str, &str)>) -> Result<()> {
    // Runs are taken from the end.
    runs.reverse();
    let left = Mutex::new(runs);
    let next = || left.lock().ok().and_then(|mut runs| runs.pop());
    let worker = || -> Result<()> {
        while let Some(run) = next() {
            one(root, folder, run).with_context(|| format!("{run:?}"))?;
        }
        Ok(())
    };
    let count = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..count).map(|_| scope.spawn(worker)).collect();
        for worker in workers {
            let ended = worker
                .join()
                .map_err(|_| anyhow::anyhow!("a worker ended"))?;
            ended?;
        }
        Ok(())
    })
}

fn one(root: &Path, folder: &Path, run: (&str, &str)) -> Result<()> {
    let experiment = root.join(format!("experiments/rfc7928/{}.toml", run.0));
    let mut lab = Command::new(program(root, "weirgate-lab"));
    lab.args(["lab", "run"]).arg(experiment);
    lab.args(["--set", &format!("discipline={}", run.1)]);
    lab.args(["--jobs", "1", "--json", "--limit", LONGEST_SECONDS]);
    let output = lab.stdin(Stdio::null()).output()?;
    let message = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{message}");
    Ok(fs::write(folder.join(file(run)), &output.stdout)?)
}

/// Returns the page's section about a scenario.
fn section(root: &Path, folder: &Path, scenario: &Scenario, names: &[&str]) -> Result<String> {
    let path = format!("experiments/rfc7928/{}.toml", scenario.experiment);
    let text = fs::read_to_string(root.join(&path)).context(path.clone())?;
    let experiment: Experiment = toml::from_str(&text).context(path.clone())?;
    let about = experiment.about.trim().replace('\n', " ");
    let mut out = format!(
        "## {}\n\n{}: `{path}`. {about}\n\n| discipline |",
        experiment.title, experiment.source
    );
    for column in &scenario.columns {
        let _ = write!(
            out,
            " {}, {} |",
            column.title,
            Unit::of(&column.metric).name()
        );
    }
    out += "\n|---|";
    out += &"--:|".repeat(scenario.columns.len());
    out.push('\n');
    for name in names {
        let outcome = fs::read_to_string(folder.join(file((&scenario.experiment, name))));
        let outcome: Value = match outcome {
            Ok(outcome) => serde_json::from_str(&outcome)?,
            Err(_) => continue,
        };
        let metrics = &outcome["arms"][ARM]["metrics"];
        let _ = write!(out, "| [`{name}`](../reference/disciplines/{name}.md) |");
        for column in &scenario.columns {
            let value = metrics[&column.metric].as_f64();
            let shown = value.map(|value| Unit::of(&column.metric).shown(value));
            let _ = write!(out, " {} |", shown.as_deref().unwrap_or("-"));
        }
        out.push('\n');
    }
    out.push('\n');
    Ok(out)
}

/// The format of a figure.
#[derive(Clone, Copy)]
enum Unit {
    Mbit,
    Ms,
    Seconds,
    Percent,
}

impl Unit {
    /// Returns the unit by the suffix of a metric's name.
    fn of(metric: &str) -> Self {
        match metric.rsplit('_').next() {
            Some("kbit") => Self::Mbit,
            Some("ms") => Self::Ms,
            Some("s") => Self::Seconds,
            _ => Self::Percent,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Mbit => "Mbit/s",
            Self::Ms => "ms",
            Self::Seconds => "s",
            Self::Percent => "%",
        }
    }

    fn shown(self, value: f64) -> String {
        match self {
            Self::Mbit => format!("{:.2}", value / 1e3),
            Self::Ms => format!("{value:.1}"),
            Self::Seconds => format!("{value:.3}"),
            Self::Percent => format!("{:.2}", 100.0 * value),
        }
    }
}
