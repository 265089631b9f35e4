// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs experiments: every arm in its own machine, several at once; then
//! measures, judges, prints and saves.

use crate::exit::{Failure, Outcome, Status};
use crate::here;
use crate::lab::{Run, load};
use crate::progress::Progress;
use crate::result::{ArmResult, ExperimentResult};
use crate::{output, policy, saved, source};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use weirgate_experiment::{Experiment, Job, Recording};
use weirgate_lab::{Lab, Limits, Options, Request};

/// What is run, and how.
pub struct Campaign {
    arguments: Run,
}

/// One arm to run: its name, and the request for the lab.
struct Planned {
    arm: String,
    request: Request,
}

impl Campaign {
    /// From the command line.
    pub fn new(arguments: Run) -> Self {
        Self { arguments }
    }

    fn jobs(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        self.arguments.jobs.map_or_else(processors, usize::from)
    }
}

/// Runs every file; stops at the first that cannot be run.
pub fn run(campaign: &Campaign) -> Outcome {
    let mut loaded = Vec::new();
    for file in &campaign.arguments.files {
        let (text, experiment) = load(file)?;
        let files = policies(file, &experiment)?;
        for arm in &campaign.arguments.arms {
            if experiment.arm(arm).is_none() {
                let arms: Vec<&str> = experiment.arms.iter().map(|arm| &*arm.name).collect();
                return Err(Failure::Input(format!(
                    "weirgate: {}: there is no arm `{arm}`; it has {}",
                    file.display(),
                    arms.join(", ")
                )));
            }
        }
        loaded.push((text, experiment, files));
    }
    let lab = open(campaign, &loaded)?;
    let mut results = Vec::new();
    for (text, experiment, files) in loaded {
        let result = one(campaign, lab.as_ref(), text, experiment, &files)?;
        show(campaign, &result)?;
        if let Some(folder) = &campaign.arguments.out {
            saved::write(&folder.join(&result.experiment.name), &result)?;
        }
        results.push(result);
    }
    if let Some(file) = &campaign.arguments.report {
        saved::write_report(&results, file)?;
    }
    let kept = results.iter().all(ExperimentResult::kept);
    Ok(if kept { Status::Done } else { Status::Differs })
}

/// The lab, with every program that an arm needs; `None` where none is needed.
fn open(
    campaign: &Campaign,
    loaded: &[(String, Experiment, BTreeMap<String, String>)],
) -> Result<Option<Lab>, Failure> {
    let needed = loaded
        .iter()
        .any(|(_, experiment, _)| !experiment.is_calculation());
    if campaign.arguments.here || !needed {
        return Ok(None);
    }
    let arms = loaded
        .iter()
        .flat_map(|(_, experiment, _)| &experiment.arms);
    let programs: BTreeSet<String> = arms.flat_map(|arm| arm.programs.iter().cloned()).collect();
    let kernel = campaign.arguments.kernel.clone();
    let options = Options {
        kernel,
        programs,
        ..Options::default()
    };
    Ok(Some(Lab::open(&options)?))
}

/// Reads the policies that an experiment's arms name, relative to its file,
/// and checks them, so that a mistake shows before a machine boots.
fn policies(file: &Path, experiment: &Experiment) -> Result<BTreeMap<String, String>, Failure> {
    let folder = file.parent().unwrap_or_else(|| Path::new("."));
    let mut files = BTreeMap::new();
    for name in experiment.arms.iter().filter_map(|arm| arm.policy.as_ref()) {
        if !files.contains_key(name) {
            let path: PathBuf = folder.join(name);
            let text = source::read(&path)?;
            policy::parse(&path, &text)?;
            files.insert(name.clone(), text);
        }
    }
    Ok(files)
}

fn one(
    campaign: &Campaign,
    lab: Option<&Lab>,
    text: String,
    experiment: Experiment,
    files: &BTreeMap<String, String>,
) -> Result<ExperimentResult, Failure> {
    let seed = campaign.arguments.seed.unwrap_or(experiment.seed);
    if experiment.is_calculation() {
        return Ok(ExperimentResult::calculated(text, experiment, seed)?);
    }
    let planned = plan(campaign, &text, &experiment, files, seed);
    let runs = match lab {
        Some(lab) => in_machines(campaign, lab, &experiment.name, &planned)?,
        None => here::run(
            &planned
                .iter()
                .map(|plan| plan.request.job.clone())
                .collect::<Vec<_>>(),
        )?,
    };
    Ok(ExperimentResult::new(
        text,
        experiment,
        seed,
        files.clone(),
        runs,
    )?)
}

/// Every arm that is asked for, a sweep once for each value.
fn plan(
    campaign: &Campaign,
    text: &str,
    experiment: &Experiment,
    files: &BTreeMap<String, String>,
    seed: u64,
) -> Vec<Planned> {
    let arguments = &campaign.arguments;
    let limits = Limits {
        wall: Duration::from_secs(arguments.limit),
        ..Limits::default()
    };
    let wanted = |arm: &&weirgate_experiment::Arm| {
        arguments.arms.is_empty() || arguments.arms.contains(&arm.name)
    };
    let mut planned = Vec::new();
    for arm in experiment.arms.iter().filter(wanted) {
        let choices: Vec<BTreeMap<String, String>> = match &arm.sweep {
            None => vec![BTreeMap::new()],
            Some(sweep) => {
                let choice = |value: &String| (sweep.parameter.clone(), value.clone());
                sweep
                    .values
                    .iter()
                    .map(|value| BTreeMap::from([choice(value)]))
                    .collect()
            }
        };
        for parameters in choices {
            let job = Job {
                experiment: text.to_owned(),
                arm: arm.name.clone(),
                parameters,
                seed,
                files: files.clone(),
            };
            let boot_options = arm.kernel_options.clone();
            planned.push(Planned {
                arm: arm.name.clone(),
                request: Request {
                    job,
                    boot_options,
                    limits,
                },
            });
        }
    }
    planned
}

fn in_machines(
    campaign: &Campaign,
    lab: &Lab,
    experiment: &str,
    planned: &[Planned],
) -> Result<Vec<ArmResult>, Failure> {
    let progress = Progress::new();
    let requests: Vec<Request> = planned.iter().map(|plan| plan.request.clone()).collect();
    let title = |index: usize| label(experiment, &planned[index]);
    let outputs = lab.run_all(&requests, campaign.jobs(), &|index, step| {
        progress.update(&title(index), step.at_s, step.of_s, &step.what);
    });
    let mut results = Vec::new();
    for (index, output) in outputs.into_iter().enumerate() {
        let output = output?;
        progress.finished(&title(index), output.wall.as_secs_f64());
        results.push(ArmResult {
            arm: planned[index].arm.clone(),
            parameters: planned[index].request.job.parameters.clone(),
            recording: Recording::decode(&output.result)?,
            wall_seconds: output.wall.as_secs_f64(),
            boot_seconds: output.boot.as_secs_f64(),
            command: output.command,
        });
    }
    Ok(results)
}

fn label(experiment: &str, planned: &Planned) -> String {
    let values: Vec<&str> = planned
        .request
        .job
        .parameters
        .values()
        .map(String::as_str)
        .collect();
    let arm = &planned.arm;
    match values.as_slice() {
        [] => format!("{experiment} {arm}"),
        values => format!("{experiment} {arm} {}", values.join(" ")),
    }
}

fn show(campaign: &Campaign, result: &ExperimentResult) -> Result<(), Failure> {
    if campaign.arguments.json {
        output::data(&serde_json::to_string_pretty(&result.outcome)?)?;
    } else {
        output::data(&result.terminal())?;
    }
    let virtual_s = result.outcome.virtual_seconds;
    for arm in &result.arms {
        let speed = virtual_s / (arm.wall_seconds - arm.boot_seconds).max(0.001);
        let (wall, boot) = (arm.wall_seconds, arm.boot_seconds);
        output::note(&format!(
            "{} {}: {wall:.1} s of wall time, {boot:.1} s of it for booting, {speed:.1} virtual seconds per second",
            result.experiment.name, arm.arm
        ));
    }
    Ok(())
}
