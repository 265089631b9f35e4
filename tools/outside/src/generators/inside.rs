// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs an arm of an experiment in the guest, with other programs on the same line.

use super::figures::Figures;
use super::{echoes, flent, irtt};
use anyhow::{Context, Result, bail, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use weirgate_experiment::{Experiment, Job, Node, Recording};
use weirgate_guest::agent::nodes::Nodes;
use weirgate_guest::agent::{Machine, run_beside};
use weirgate_measure::measure;

/// The path of the part to run in the guest.
pub const PART: &str = "/generators/part.json";

/// The folder of the programs' output, with a file or folder for each.
const OUTPUT: &str = "/tmp/output";

/// The policy of every arm, with its path in experiments.
const POLICY: (&str, &str) = ("policy.toml", include_str!("policy.toml"));

/// An arm, and the programs that run with it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Part {
    pub experiment: String,
    pub arm: String,
    /// The seed of the machine, and of the laboratory's own generators.
    pub seed: u64,
    pub programs: Vec<Program>,
}

/// A program in one of the topology's nodes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Program {
    pub name: String,
    pub node: String,
    /// The delay in seconds after the topology is built.
    pub after: u64,
    pub words: Vec<String>,
    /// The format of its output; a server has none, and runs until the end.
    pub output: Option<Output>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Output {
    Irtt,
    Flent,
    /// The table of echoes of `weirgate probe --write`.
    Echoes,
}

/// Returns the path of a program's output.
pub fn place(name: &str) -> String {
    format!("{OUTPUT}/{name}")
}

/// Runs the guest's part, and prints its figures as a line of JSON.
pub fn run() -> Result<()> {
    let part: Part = serde_json::from_slice(&fs::read(PART)?)?;
    // Python's locks between processes are files in /dev/shm.
    for folder in [OUTPUT, "/dev/shm"] {
        fs::create_dir_all(folder)?;
    }
    let (experiment, _) = weirgate_experiment::parse(&part.experiment);
    let experiment = experiment.context("the experiment cannot be read")?;
    let job = Job {
        experiment: part.experiment.clone(),
        arm: part.arm.clone(),
        parameters: BTreeMap::new(),
        seed: part.seed,
        files: BTreeMap::from([(POLICY.0.to_owned(), POLICY.1.to_owned())]),
        disciplines: BTreeMap::new(),
    };
    let mut begun = Vec::new();
    let mut start = |nodes: &Nodes| {
        for program in &part.programs {
            begun.push(later(program.clone(), nodes)?);
        }
        Ok(())
    };
    let recording = run_beside(&job, Machine::Own, &mut start, &mut |_, _, _| ())?;
    let mut figures = measure(&experiment, &recording)?.metrics;
    figures.extend(variations(&experiment, &recording));
    for (program, begun) in part.programs.iter().zip(begun) {
        let failed = || anyhow::anyhow!("{}: its thread failed", program.name);
        let child = begun.join().map_err(|_| failed())??;
        for (name, figure) in ended(program, child)? {
            figures.insert(format!("{}.{name}", program.name), figure);
        }
    }
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}

/// Starts a program in its node, after its delay.
fn later(program: Program, nodes: &Nodes) -> Result<JoinHandle<Result<Child>>> {
    let node: Node = program.node.parse()?;
    let space = nodes.space(node)?.try_clone_to_owned()?;
    Ok(thread::spawn(move || {
        thread::sleep(Duration::from_secs(program.after));
        move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))?;
        let log = File::create(format!("{OUTPUT}/{}.log", program.name))?;
        if matches!(program.output, Some(Output::Flent)) {
            fs::create_dir(place(&program.name))?;
        }
        Command::new(&program.words[0])
            .args(&program.words[1..])
            .current_dir(OUTPUT)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| program.words.join(" "))
    }))
}

/// Returns a program's figures. The run is over, so it must have ended unless it is a server.
fn ended(program: &Program, mut child: Child) -> Result<Figures> {
    let status = child.try_wait()?;
    let log = fs::read_to_string(format!("{OUTPUT}/{}.log", program.name))?;
    let Some(output) = program.output else {
        ensure!(status.is_none(), "{} ended early: {log}", program.name);
        child.kill()?;
        return Ok(Figures::new());
    };
    let place = place(&program.name);
    match status {
        None => {
            child.kill()?;
            bail!("{} had not ended: {log}", program.name)
        }
        Some(status) if !status.success() => bail!("{} ended with {status}: {log}", program.name),
        Some(_) => {}
    }
    let read = |path: &str| fs::read_to_string(path).with_context(|| format!("{path}: {log}"));
    match output {
        Output::Irtt => irtt::figures(&read(&format!("{place}.json"))?),
        Output::Flent => flent::unpacked(&place).and_then(|text| flent::figures(&text)),
        Output::Echoes => echoes::figures(&read(&format!("{place}/echoes.csv"))?),
    }
    .with_context(|| format!("{}: {log}", program.name))
}

/// Returns the delay variation of our own echoes by irtt's definition: the mean difference between
/// consecutive round trips, if both were answered.
fn variations(experiment: &Experiment, recording: &Recording) -> Figures {
    let mut figures = Figures::new();
    for phase in &experiment.phases {
        let window = phase.start.as_nanos()..phase.end.as_nanos();
        for (number, probe) in experiment.probes.iter().enumerate() {
            let own = recording.probes.iter();
            let times: Vec<Option<u64>> = own
                .filter(|one| usize::from(one.probe) == number && window.contains(&one.sent_ns))
                .map(|one| one.rtt_ns)
                .collect();
            if let Some(mean) = variation(&times) {
                let name = format!("{}.ipdv.{}.mean_ms", phase.name, probe.name);
                figures.insert(name, mean);
            }
        }
    }
    figures
}

/// Returns the mean difference between consecutive round trips, in milliseconds.
fn variation(times: &[Option<u64>]) -> Option<f64> {
    let pairs = times.windows(2).filter_map(|pair| {
        let [Some(before), Some(after)] = pair else {
            return None;
        };
        Some(before.abs_diff(*after))
    });
    let differences: Vec<u64> = pairs.collect();
    let sum: u64 = differences.iter().sum();
    (!differences.is_empty()).then(|| sum as f64 / differences.len() as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::variation;

    #[test]
    fn a_lost_echo_has_no_difference() {
        let ms = |time: u64| Some(time * 1_000_000);
        assert_eq!(variation(&[ms(20), ms(24), ms(23)]), Some(2.5));
        assert_eq!(variation(&[ms(20), None, ms(23), ms(24)]), Some(1.0));
        assert_eq!(variation(&[ms(20), None]), None);
    }
}
