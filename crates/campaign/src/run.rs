// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs experiments: every arm in its own machine, several at once; then
//! measures, judges, prints and saves.

use crate::disciplines::Kits;
use crate::here;
use crate::result::{ArmResult, ExperimentResult};
use crate::saved;
use clap::Args;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::output;
use weirgate_console::policy;
use weirgate_console::progress::Progress;
use weirgate_console::source;
use weirgate_experiment::{Arm, Experiment, Job, Recording};
use weirgate_lab::{Lab, LabError, Limits, Options, Request};
use weirgate_report::html::Section;
use weirgate_report::terminal;

/// Arguments of `lab run`.
#[derive(Args)]
pub struct Run {
    /// Experiment files.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Run only this arm (repeatable).
    #[arg(long = "arm", value_name = "ARM")]
    pub arms: Vec<String>,
    /// Use this seed instead of the file's.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Run every arm so often, with seeds from the first on, instead of as often as the file says.
    ///
    /// Figures are means with 95 % confidence intervals.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub seeds: Option<u16>,
    /// Give a parameter of the files another value: `--set rate=2mbit` (repeatable).
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = named)]
    pub set: Vec<(String, String)>,
    /// Print results as JSON, one document per experiment.
    #[arg(long)]
    pub json: bool,
    /// Write an HTML report.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Keep recordings, captures, results, commands and machine facts in this folder.
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Virtual machines at once; the number of processors unless given.
    #[arg(long, value_name = "N")]
    pub jobs: Option<std::num::NonZeroUsize>,
    /// Wall-clock limit for one arm, in seconds.
    #[arg(long, default_value_t = 900, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: u64,
    /// A kernel to use: a bzImage, or a folder with `vmlinuz` and modules.
    #[arg(long)]
    pub kernel: Option<PathBuf>,
    /// Run in namespaces of the running kernel instead, in real time; needs
    /// CAP_NET_ADMIN and CAP_SYS_ADMIN.
    #[arg(long, conflicts_with = "kernel")]
    pub here: bool,
}

/// `NAME=VALUE`.
fn named(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// How experiments are run.
struct Setting {
    kernel: Option<PathBuf>,
    here: bool,
    jobs: usize,
    limit: Duration,
    arms: Vec<String>,
    seed: Option<u64>,
    seeds: Option<u16>,
}

/// One experiment, read and checked, with the policies and the disciplines that
/// its arms name.
struct Loaded {
    text: String,
    experiment: Experiment,
    files: BTreeMap<String, String>,
    kits: Kits,
}

/// One arm to run: its name, and the request for the lab.
struct Planned {
    arm: String,
    request: Request,
}

impl Setting {
    fn of(arguments: &Run) -> Self {
        Self {
            kernel: arguments.kernel.clone(),
            here: arguments.here,
            jobs: arguments.jobs.map_or_else(processors, usize::from),
            limit: Duration::from_secs(arguments.limit),
            arms: arguments.arms.clone(),
            seed: arguments.seed,
            seeds: arguments.seeds,
        }
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs every file, when all were read and are right.
pub fn run(arguments: &Run) -> Outcome {
    let setting = Setting::of(arguments);
    let mut loaded = Vec::new();
    for file in &arguments.files {
        let (text, experiment) = load(file, &arguments.set)?;
        let kits = Kits::of(file, &experiment)?;
        let files = policies(file, &experiment)?;
        for arm in &setting.arms {
            if experiment.arm(arm).is_none() {
                let arms: Vec<&str> = experiment.arms.iter().map(|arm| &*arm.name).collect();
                return Err(Failure::Input(format!(
                    "weirgate: {}: there is no arm `{arm}`; it has {}",
                    file.display(),
                    arms.join(", ")
                )));
            }
        }
        loaded.push(Loaded {
            text,
            experiment,
            files,
            kits,
        });
    }
    if let Some(folder) = &arguments.out {
        for one in &loaded {
            saved::can_write_folder(&folder.join(&one.experiment.name))?;
        }
    }
    if let Some(file) = &arguments.report {
        saved::can_write_report(file)?;
    }
    let lab = open(&setting, &loaded)?;
    let mut campaign = Campaign {
        of: loaded.len(),
        ..Campaign::default()
    };
    for one in loaded {
        let name = one.experiment.name.clone();
        let outcome = experiment(&setting, lab.as_ref(), one);
        let outcome = outcome.and_then(|result| campaign.add(arguments, &result));
        if let Err(failure) = outcome {
            campaign.fail(name, failure);
        }
    }
    campaign.end(arguments)
}

/// What has come of the experiments so far.
#[derive(Default)]
struct Campaign {
    sections: Vec<Section>,
    /// Whether a figure differs from what its experiment expects.
    differs: bool,
    /// How many there are.
    of: usize,
    failures: Vec<(String, Failure)>,
}

impl Campaign {
    /// Shows and saves one result.
    fn add(&mut self, arguments: &Run, result: &ExperimentResult) -> Result<(), Failure> {
        // Before it is saved: a full disk need not keep it out of the report.
        if arguments.report.is_some() {
            self.sections.push(result.findings(Section::new));
        }
        self.differs |= !result.kept();
        show(arguments.json, result)?;
        if let Some(folder) = &arguments.out {
            saved::write(&folder.join(&result.experiment.name), result)?;
        } else if result.experiment.sampling.capture {
            output::note(&format!(
                "{}: its capture is written where `--out FOLDER` is given",
                result.experiment.name
            ));
        }
        Ok(())
    }

    /// An experiment that failed leaves the others as they are; what follows
    /// is run all the same.
    fn fail(&mut self, experiment: String, failure: Failure) {
        if self.of > 1 {
            output::note(&format!("{experiment}: {}", failure.text()));
        }
        self.failures.push((experiment, failure));
    }

    /// Writes the report of all that was run, and lists what was not.
    fn end(mut self, arguments: &Run) -> Outcome {
        let of = self.of;
        if of == 1
            && let Some((_, failure)) = self.failures.pop()
        {
            return Err(failure);
        }
        let failures = self.failures.iter();
        let failures = failures.map(|(name, failure)| (name.clone(), failure.text()));
        let failures: Vec<(String, String)> = failures.collect();
        if let Some(file) = &arguments.report {
            let title = "weirgate: experiments";
            saved::write_report(title, &self.sections, &failures, file)?;
        }
        if failures.is_empty() {
            return Ok(if self.differs {
                Status::Differs
            } else {
                Status::Done
            });
        }
        let names: Vec<&str> = failures.iter().map(|(name, _)| name.as_str()).collect();
        let (count, names) = (names.len(), names.join(", "));
        Err(anyhow::anyhow!("{count} of {of} experiments failed: {names}").into())
    }
}

/// Runs an experiment that comes with the program.
pub fn bundled(
    text: &str,
    experiment: Experiment,
    files: BTreeMap<String, String>,
    kernel: Option<PathBuf>,
) -> Result<ExperimentResult, Failure> {
    let setting = Setting {
        kernel,
        here: false,
        jobs: processors(),
        limit: Duration::from_mins(10),
        arms: Vec::new(),
        seed: None,
        seeds: None,
    };
    let loaded = Loaded {
        text: text.to_owned(),
        experiment,
        files,
        kits: Kits::default(),
    };
    let lab = open(&setting, std::slice::from_ref(&loaded))?;
    self::experiment(&setting, lab.as_ref(), loaded)
}

/// The lab, with every program that an arm needs; `None` where none is needed.
fn open(setting: &Setting, loaded: &[Loaded]) -> Result<Option<Lab>, Failure> {
    if setting.here || loaded.iter().all(|one| one.experiment.is_calculation()) {
        return Ok(None);
    }
    let arms = loaded.iter().flat_map(|one| &one.experiment.arms);
    let programs = arms.flat_map(|arm| arm.programs.iter().cloned());
    let own = loaded.iter().flat_map(|one| one.kits.programs());
    let programs: BTreeSet<String> = programs.chain(own).collect();
    let options = Options {
        kernel: setting.kernel.clone(),
        programs,
        ..Options::default()
    };
    match Lab::open(&options, &mut output::note) {
        Ok(lab) => Ok(Some(lab)),
        Err(error) => Err(unusable(error, options.kernel.as_deref())),
    }
}

/// Why the lab cannot start. A kernel that was named and cannot be used is a
/// mistake in the arguments.
pub fn unusable(error: LabError, named: Option<&Path>) -> Failure {
    let of_kernel = match &error {
        LabError::NoKernel { .. } | LabError::BadKernel { .. } | LabError::NoModules { .. } => true,
        LabError::File { path, .. } | LabError::BadModule { path, .. } => {
            named.is_some_and(|named| path.starts_with(named))
        }
        _ => false,
    };
    if named.is_some() && of_kernel {
        Failure::Input(format!("weirgate: {error}"))
    } else {
        error.into()
    }
}

/// Reads the policies that an experiment's arms name, relative to its file,
/// and checks them, so that a mistake shows before a machine boots.
fn policies(file: &Path, experiment: &Experiment) -> Result<BTreeMap<String, String>, Failure> {
    let folder = file.parent().unwrap_or_else(|| Path::new("."));
    let mut files = BTreeMap::new();
    for name in experiment.arms.iter().flat_map(Arm::policies) {
        if !files.contains_key(name) {
            let path: PathBuf = folder.join(name);
            let text = source::read(&path)?;
            policy::parse(&path, &text)?;
            files.insert(name.to_owned(), text);
        }
    }
    Ok(files)
}

fn experiment(
    setting: &Setting,
    lab: Option<&Lab>,
    loaded: Loaded,
) -> Result<ExperimentResult, Failure> {
    let seed = setting.seed.unwrap_or(loaded.experiment.seed);
    if loaded.experiment.is_calculation() {
        return Ok(ExperimentResult::calculated(
            loaded.text,
            loaded.experiment,
            seed,
        )?);
    }
    let seeds = setting.seeds.unwrap_or(loaded.experiment.seeds);
    let mut result = once(setting, lab, &loaded, seed)?;
    if seeds > 1 {
        let mut runs = vec![result.figures.clone()];
        for further in 1..u64::from(seeds) {
            // Recordings are large: of the others only the figures stay.
            runs.push(once(setting, lab, &loaded, seed.wrapping_add(further))?.figures);
        }
        result.repeat(runs);
    }
    Ok(result)
}

/// Every arm with one seed.
fn once(
    setting: &Setting,
    lab: Option<&Lab>,
    loaded: &Loaded,
    seed: u64,
) -> Result<ExperimentResult, Failure> {
    let planned = plan(setting, loaded, seed);
    let runs = match lab {
        Some(lab) => in_machines(setting, lab, &loaded.experiment.name, &planned)?,
        None => here::run(planned.iter().map(|plan| &plan.request.job))?,
    };
    Ok(ExperimentResult::new(
        loaded.text.clone(),
        loaded.experiment.clone(),
        seed,
        loaded.files.clone(),
        &runs,
    )?)
}

/// Every arm that is asked for, a sweep once for each value.
fn plan(setting: &Setting, loaded: &Loaded, seed: u64) -> Vec<Planned> {
    let limits = Limits {
        wall: setting.limit,
        memory_mib: loaded.experiment.memory_mib(),
        ..Limits::default()
    };
    let wanted = |arm: &&Arm| setting.arms.is_empty() || setting.arms.contains(&arm.name);
    let mut planned = Vec::new();
    for arm in loaded.experiment.arms.iter().filter(wanted) {
        for parameters in choices(arm) {
            let job = Job {
                experiment: loaded.text.clone(),
                arm: arm.name.clone(),
                parameters,
                seed,
                files: loaded.files.clone(),
                disciplines: loaded.kits.places(setting.here),
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

/// The values that a sweep tries; one empty choice without a sweep.
fn choices(arm: &Arm) -> Vec<BTreeMap<String, String>> {
    match &arm.sweep {
        None => vec![BTreeMap::new()],
        Some(sweep) => {
            let choice = |value: &String| (sweep.parameter.clone(), value.clone());
            sweep
                .values
                .iter()
                .map(|value| BTreeMap::from([choice(value)]))
                .collect()
        }
    }
}

fn in_machines(
    setting: &Setting,
    lab: &Lab,
    experiment: &str,
    planned: &[Planned],
) -> Result<Vec<ArmResult>, Failure> {
    let progress = Progress::default();
    let requests: Vec<Request> = planned.iter().map(|plan| plan.request.clone()).collect();
    let title = |index: usize| label(experiment, &planned[index]);
    let outputs = lab.run_all(&requests, setting.jobs, &|index, step| {
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
            traffic_seconds: Some(output.traffic.as_secs_f64()),
            memory_bytes: Some(output.memory_bytes),
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

fn show(json: bool, result: &ExperimentResult) -> Result<(), Failure> {
    if json {
        output::data(&serde_json::to_string_pretty(&result.outcome)?)?;
    } else {
        output::data(&result.findings(terminal))?;
    }
    let virtual_s = result.outcome.virtual_seconds;
    for arm in &result.arms {
        let speed = virtual_s / (arm.wall_seconds - arm.boot_seconds).max(0.001);
        let (wall, boot) = (arm.wall_seconds, arm.boot_seconds);
        let memory = arm.memory_bytes.map_or_else(String::new, |bytes| {
            format!(", {:.0} MB of memory at most", bytes as f64 / 1e6)
        });
        output::note(&format!(
            "{} {}: {wall:.1} s of wall time, {boot:.1} s of it for booting, {speed:.1} virtual seconds per second{memory}",
            result.experiment.name, arm.arm
        ));
    }
    Ok(())
}

/// Reads and checks an experiment file, with other values for some of its
/// parameters.
pub fn load(path: &Path, set: &[(String, String)]) -> Result<(String, Experiment), Failure> {
    let mut text = source::read(path)?;
    if !set.is_empty() {
        let changed = weirgate_document::with_parameters(&text, set);
        text = changed
            .map_err(|error| Failure::Input(format!("weirgate: {}: {error}", path.display())))?;
    }
    let experiment = source::parse(path, &text, weirgate_experiment::parse)?;
    Ok((text, experiment))
}
