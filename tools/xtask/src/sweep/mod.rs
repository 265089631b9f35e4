// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a sweep of short runs on a real Slurm cluster: two nodes of one processor each, one of
//! which is killed half-way. The result must equal that of one process, bit for bit.

mod slurm;

use crate::files::{empty, put_all, target, text};
use anyhow::{Context, Result, ensure};
use slurm::{Cluster, NODES, needed, until};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The number of arms in `tests/sweep/short.toml`.
const ARMS: u16 = 2;
/// The number of runs of each array task.
const RUNS_OF_A_TASK: usize = 10;
/// The time limit of each step.
const LONGEST: Duration = Duration::from_hours(1);

/// Runs the sweep, kills a node, merges the shards, and compares with one process.
#[allow(clippy::print_stdout, reason = "tells what was measured")]
pub fn run(root: &Path, seeds: u16) -> Result<()> {
    needed()?;
    let sweep = Sweep::new(root, seeds)?;
    let (runs, tasks) = (sweep.runs, sweep.tasks());
    let started = Instant::now();
    let mut cluster = Cluster::start(&sweep.folder)?;
    sweep.submit(&cluster, root)?;
    let killed = NODES[1];
    let mut lost = String::new();
    until(
        LONGEST,
        "half of the runs are there, and a task runs on the node",
        || {
            let mut tasks = cluster.command("squeue");
            lost = text(tasks.args(["-h", "-t", "R", "-w", killed, "-o", "%K"]))?;
            Ok(sweep.there()? >= runs / 2 && !lost.trim().is_empty())
        },
    )?;
    cluster.kill(killed)?;
    let at_kill = sweep.there()?;
    until(LONGEST, "the controller takes the node for lost", || {
        Ok(cluster.states()?.iter().any(|state| state.contains("down")))
    })?;
    let noticed = started.elapsed();
    cluster.boot(killed)?;
    until(LONGEST, "all tasks have ended", || {
        Ok(text(cluster.command("squeue").arg("-h"))?.is_empty())
    })?;
    let took = started.elapsed();
    drop(cluster);
    let there = sweep.there()?;
    ensure!(there == runs, "{there} of {runs} runs are there");
    let again = sweep.report(lost.trim())?;
    let folder = sweep.folder.join("runs");
    sweep.lab(&["merge", &folder.to_string_lossy(), "--only", "short"])?;
    let parts = sweep.accepted("of-parts")?;

    let started = Instant::now();
    sweep.lab(&["run", "short", "--all"])?;
    let one = started.elapsed();
    let whole = sweep.accepted("of-one")?;
    same(&parts, &whole)?;
    println!(
        "{runs} runs in {tasks} tasks on two nodes: {:.0} s; one process with a machine for \
         each processor: {:.0} s",
        took.as_secs_f64(),
        one.as_secs_f64()
    );
    println!(
        "{killed} was killed after {at_kill} runs and taken for lost {:.0} s after the start; its \
         task {} was requeued: {again}",
        noticed.as_secs_f64(),
        lost.trim()
    );
    println!("the ledger is the same, {} bytes", parts.len());
    Ok(())
}

/// The folder of a sweep, and the program.
struct Sweep {
    folder: PathBuf,
    program: PathBuf,
    runs: usize,
}

impl Sweep {
    fn new(root: &Path, seeds: u16) -> Result<Self> {
        let sweep = Self {
            folder: target(root).join("sweep-slurm"),
            program: target(root).join("release/weirgate-lab"),
            runs: usize::from(seeds * ARMS),
        };
        ensure!(
            sweep.program.is_file(),
            "{}: `make build` makes it",
            sweep.program.display()
        );
        empty(&sweep.folder)?;
        let experiments = sweep.folder.join("experiments");
        put_all(&root.join("tests/sweep"), &experiments)?;
        let file = experiments.join("short.toml");
        let text = fs::read_to_string(&file)?;
        let others = text.replace("\nseeds = 100\n", &format!("\nseeds = {seeds}\n"));
        fs::write(&file, others)?;
        Ok(sweep)
    }

    /// Returns the number of array tasks.
    fn tasks(&self) -> usize {
        self.runs.div_ceil(RUNS_OF_A_TASK)
    }

    /// Submits the array to Slurm.
    fn submit(&self, cluster: &Cluster, root: &Path) -> Result<()> {
        fs::create_dir(self.folder.join("reports"))?;
        let mut sbatch = cluster.command("sbatch");
        sbatch.env("WEIRGATE_LAB", &self.program);
        sbatch.arg(format!("--array=1-{}", self.tasks()));
        sbatch.arg(format!("--output={}/reports/%a", self.folder.display()));
        sbatch.arg(root.join("packaging/sweeps/weirgate.sbatch"));
        sbatch.arg(self.folder.join("runs")).arg("short");
        sbatch
            .arg("--experiments")
            .arg(self.folder.join("experiments"));
        text(&mut sbatch).map(drop)
    }

    /// Returns how many runs are complete.
    fn there(&self) -> Result<usize> {
        let folder = self.folder.join("runs/short");
        if !folder.exists() {
            return Ok(0);
        }
        let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name()));
        let names = names.collect::<Result<Vec<_>>>()?;
        let whole = |name: &&std::ffi::OsString| name.to_string_lossy().ends_with(".json");
        Ok(names.iter().filter(whole).count())
    }

    /// Returns the last report of a task's shard.
    fn report(&self, task: &str) -> Result<String> {
        let file = self.folder.join("reports").join(task);
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let report = text.lines().rfind(|line| line.starts_with("shard "));
        Ok(report.with_context(|| text.clone())?.to_owned())
    }

    /// Runs `weirgate-lab results` on the sweep's experiments.
    fn lab(&self, words: &[&str]) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.arg("results").args(words);
        command
            .arg("--experiments")
            .arg(self.folder.join("experiments"));
        text(&mut command).map(drop)
    }

    /// Returns the ledger's file of the last measurement.
    fn accepted(&self, folder: &str) -> Result<String> {
        let results = self.folder.join(folder);
        self.lab(&["accept", "short", "--results", &results.to_string_lossy()])?;
        let file = results.join("short.toml");
        fs::read_to_string(&file).with_context(|| file.display().to_string())
    }
}

/// Fails with the lines that differ. If only a recording differs and its figures are equal, the
/// cause is probably one of the rare shifts of `docs/lab.md`; repeating that seed shows it.
fn same(parts: &str, whole: &str) -> Result<()> {
    let lines = parts.lines().zip(whole.lines());
    let other: Vec<String> = lines
        .filter(|(part, whole)| part != whole)
        .map(|(part, whole)| format!("\n  {part}\n  {whole}"))
        .collect();
    ensure!(
        parts == whole,
        "the ledgers of the sweep and of one process differ in {} of {} lines:{}",
        other.len(),
        whole.lines().count(),
        other.concat()
    );
    Ok(())
}
