// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the speed of weirgate and its laboratory on this machine, and compares with goals.
//!
//! Wall-clock time depends on the machine and its load, so this is not part of the tests. The load
//! is shown with the figures.

mod arriving;
mod figure;
pub mod keep_order;
mod policy;
mod router;
pub mod traffic;
pub mod watch;

use crate::command::run;
use crate::files::program;
use anyhow::{Context, Result, ensure};
pub use figure::{Figure, Goal};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// The experiment and arm for the laboratory's speed: 450 virtual seconds of a full ADSL line.
const EXPERIMENT: (&str, &str) = ("adsl-3.2", "modem-only");

/// Builds, prepares and measures; fails if a goal is missed.
pub fn run_all(root: &Path) -> Result<()> {
    build(root, &["weirgate", "weirgate-lab", "weirgate-guest"])?;
    run(weirgate(root).args(["lab", "prepare"]))?;
    let before = load();
    let mut figures = of_experiment(root)?;
    figures.push(of_try(root)?);
    figures.push(of_domain(root)?);
    figures.extend(arriving::figures(root)?);
    figures.extend(policy::figures(root)?);
    figures.extend(watch::figures(root)?);
    figures.extend(router::figures(root)?);
    report(&figures, &before)?;
    let folder = tempfile::tempdir()?;
    let mut day = crate::command::cargo(root);
    day.args(["run", "--release"]);
    day.args(["-p", "weirgate-history", "--example", "day"]);
    run(day.arg(folder.path().join("history")))
}

/// Builds and measures only a large policy, without the lab.
pub fn run_policy(root: &Path) -> Result<()> {
    alone(root, policy::figures)
}

/// Builds the router's program as in packages, and measures it; needs root.
pub fn run_router(root: &Path) -> Result<()> {
    let before = load();
    report(&router::figures(root)?, &before)
}

/// Builds and measures the cost of `watch`, without the lab; needs root.
pub fn run_watch(root: &Path) -> Result<()> {
    alone(root, watch::figures)
}

fn alone(root: &Path, figures: fn(&Path) -> Result<Vec<Figure>>) -> Result<()> {
    build(root, &["weirgate", "weirgate-lab"])?;
    let before = load();
    report(&figures(root)?, &before)
}

/// Builds programs with the features of the whole workspace, as the tests do: with those of fewer
/// packages, the guest is another one.
fn build(root: &Path, programs: &[&str]) -> Result<()> {
    let mut build = crate::command::cargo(root);
    build.args(["build", "--release", "--locked", "--workspace"]);
    run(build.args(programs.iter().flat_map(|name| ["--bin", name])))
}

#[allow(clippy::print_stdout, reason = "the table is this task's result")]
pub fn report(figures: &[Figure], before: &str) -> Result<()> {
    println!("\n{:<58}{:>9}   goal", "figure", "measured");
    for figure in figures {
        println!("{}", figure.row());
    }
    println!("load of the machine: {before} before, {} after", load());
    let missed = figures.iter().filter(|figure| !figure.kept()).count();
    ensure!(missed == 0, "{missed} goals are missed");
    Ok(())
}

/// Measures one arm in the laboratory.
fn of_experiment(root: &Path) -> Result<Vec<Figure>> {
    let (experiment, arm) = EXPERIMENT;
    let folder = tempfile::tempdir()?;
    run(weirgate(root)
        .args(["lab", "run", "--arm", arm, "--out"])
        .arg(folder.path())
        .arg(experiment)
        .stdout(Stdio::null()))?;
    let read = |name: &str| -> Result<Value> {
        let path = folder.path().join(experiment).join(name);
        let text = fs::read(&path).with_context(|| path.display().to_string())?;
        serde_json::from_slice(&text).with_context(|| path.display().to_string())
    };
    figures(&read("outcome.json")?, &read("run.json")?)
}

/// Returns the figures in the files of `lab run --out`.
fn figures(outcome: &Value, run: &Value) -> Result<Vec<Figure>> {
    let number = |value: &Value, name: &str| {
        let number = value[name].as_f64();
        number.with_context(|| format!("the saved result has no `{name}`"))
    };
    let arm = &run["arms"][0];
    let wall_s = number(arm, "wall_seconds")?;
    Ok(vec![
        Figure {
            what: "virtual seconds per wall second, boot included (adsl-3.2)",
            value: number(outcome, "virtual_seconds")? / wall_s,
            goal: Goal::AtLeast(2.5),
        },
        Figure {
            what: "from start to first packet, wall s",
            value: number(arm, "traffic_seconds")?,
            goal: Goal::AtMost(8.0),
        },
        Figure {
            what: "most memory of the virtual machine, GiB",
            value: number(arm, "memory_bytes")? / f64::from(1 << 30),
            goal: Goal::AtMost(1.5),
        },
    ])
}

fn of_try(root: &Path) -> Result<Figure> {
    let folder = tempfile::tempdir()?;
    let start = Instant::now();
    run(weirgate(root)
        .arg("try")
        .arg("--report")
        .arg(folder.path().join("try.html"))
        .stdout(Stdio::null()))?;
    Ok(Figure {
        what: "`weirgate try`, wall s",
        value: start.elapsed().as_secs_f64(),
        goal: Goal::AtMost(90.0),
    })
}

/// Measures the check of a domain with eight routers, forty customers and sixty services.
fn of_domain(root: &Path) -> Result<Figure> {
    let start = Instant::now();
    run(weirgate(root)
        .args(["domain", "check", "domains/university.toml"])
        .stdout(Stdio::null()))?;
    Ok(Figure {
        what: "`weirgate domain check` of eight routers, wall s",
        value: start.elapsed().as_secs_f64(),
        goal: Goal::AtMost(1.0),
    })
}

fn weirgate(root: &Path) -> Command {
    let mut command = Command::new(program(root, "weirgate"));
    command.current_dir(root);
    command
}

/// Returns the machine's load average over one, five and fifteen minutes.
pub fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let words: Vec<&str> = text.split(' ').take(3).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_and_goals() {
        let outcome = json!({ "virtual_seconds": 450.0 });
        let arm = json!({
            "wall_seconds": 200.0,
            "traffic_seconds": 3.5,
            "memory_bytes": 1_u64 << 29,
        });
        let found = figures(&outcome, &json!({ "arms": [arm] })).unwrap();
        let kept: Vec<bool> = found.iter().map(Figure::kept).collect();
        assert_eq!(kept, [false, true, true]);
        assert!(found[0].row().ends_with(" 2.25   >= 2.5  missed"));
        assert!(found[2].row().ends_with(" 0.50   <= 1.5  kept"));
    }

    #[test]
    fn a_result_without_a_figure_is_an_error() {
        let run = json!({ "arms": [{ "wall_seconds": 200.0 }] });
        let error = figures(&json!({ "virtual_seconds": 450.0 }), &run).err();
        assert!(error.is_some_and(|error| error.to_string().contains("traffic_seconds")));
    }
}
