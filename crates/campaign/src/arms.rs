// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the arms of an experiment, each in its own machine, several at once.

use crate::disciplines::Kits;
use crate::here;
use crate::result::{ArmResult, ExperimentResult};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use weirgate_console::exit::Failure;
use weirgate_console::progress::Progress;
use weirgate_console::{output, policy, source};
use weirgate_experiment::{Arm, Experiment, Job, Recording};
use weirgate_lab::{KernelChoice, Lab, LabError, Limits, Options, Request};
use weirgate_ledger::{Digest, setup_text};

/// The settings of a campaign.
#[derive(Clone)]
pub(crate) struct Setting {
    /// A kernel that overrides the experiments' choice.
    pub(crate) kernel: Option<KernelChoice>,
    /// Whether to use namespaces of the running kernel.
    pub(crate) here: bool,
    /// How many machines run at once.
    pub(crate) jobs: usize,
    /// The wall-clock limit of one arm.
    pub(crate) limit: Duration,
    /// The arms to run; empty means all.
    pub(crate) arms: Vec<String>,
}

impl Setting {
    /// Returns the kernel for an experiment.
    pub(crate) fn kernel_of(&self, experiment: &Experiment) -> Option<KernelChoice> {
        let asked = experiment.machine.kernel.map(KernelChoice::Named);
        self.kernel.clone().or(asked)
    }
}

/// An experiment, read and checked, with the policies and disciplines of its arms.
pub(crate) struct Loaded {
    pub(crate) text: String,
    pub(crate) experiment: Experiment,
    pub(crate) files: BTreeMap<String, String>,
    pub(crate) kits: Kits,
}

/// One arm to run: its name, and the request for the lab.
struct Planned {
    arm: String,
    request: Request,
}

impl Loaded {
    /// Reads an experiment file and the files that it names, with `set` as values of its
    /// parameters.
    pub(crate) fn read(file: &Path, set: &[(String, String)]) -> Result<Self, Failure> {
        let (text, experiment) = load(file, set)?;
        Ok(Self {
            kits: Kits::of(file, &experiment)?,
            files: policies(file, &experiment)?,
            text,
            experiment,
        })
    }

    /// Returns the programs that its arms need in the guest.
    pub(crate) fn programs(&self) -> BTreeSet<String> {
        let arms = self.experiment.arms.iter();
        let programs = arms.flat_map(|arm| arm.programs.iter().cloned());
        programs.chain(self.kits.programs()).collect()
    }
}

/// Returns the number of processors of this machine.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A lab for each kernel.
pub(crate) type Labs = BTreeMap<Option<KernelChoice>, Lab>;

/// Opens the labs of the experiments, each with the programs of all its arms. Calculations need no
/// lab.
pub(crate) fn open(setting: &Setting, loaded: &[Loaded]) -> Result<Labs, Failure> {
    let mut programs: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for one in loaded {
        if !setting.here && !one.experiment.is_calculation() {
            let kernel = setting.kernel_of(&one.experiment);
            programs.entry(kernel).or_default().extend(one.programs());
        }
    }
    let mut labs = Labs::new();
    for (kernel, programs) in programs {
        let options = Options {
            kernel: kernel.clone(),
            programs,
            ..Options::default()
        };
        let lab = Lab::open(&options, &mut output::note);
        let lab = lab.map_err(|error| unusable(error, kernel.as_ref()))?;
        labs.insert(kernel, lab);
    }
    Ok(labs)
}

/// Converts an error of the lab. If a named kernel cannot be used, the arguments are wrong.
pub fn unusable(error: LabError, named: Option<&KernelChoice>) -> Failure {
    let named = named.and_then(KernelChoice::path);
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

/// Reads the policies of an experiment's arms, relative to its file, and checks them, so that a
/// mistake shows before a machine boots.
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

/// Runs every arm with every seed, as many seeds at once as the processors allow. Passes each
/// seed's result to `done` in order, so that its large recordings can be freed.
pub(crate) fn each_seed(
    setting: &Setting,
    lab: Option<&Lab>,
    loaded: &Loaded,
    seeds: &[u64],
    done: &mut dyn FnMut(ExperimentResult) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let of_one = plan(setting, loaded, 0).len().max(1);
    for seeds in seeds.chunks(setting.jobs.div_ceil(of_one)) {
        let planned: Vec<Planned> = seeds
            .iter()
            .flat_map(|seed| plan(setting, loaded, *seed))
            .collect();
        let mut runs = match lab {
            Some(lab) => in_machines(setting, lab, &loaded.experiment.name, &planned)?,
            None => here::run(planned.iter().map(|plan| &plan.request.job))?,
        }
        .into_iter();
        for seed in seeds {
            let own: Vec<ArmResult> = runs.by_ref().take(of_one).collect();
            done(ExperimentResult::new(
                loaded.text.clone(),
                loaded.experiment.clone(),
                *seed,
                loaded.files.clone(),
                &own,
            )?)?;
        }
    }
    Ok(())
}

/// Plans every requested arm; an arm with a sweep once for each value.
fn plan(setting: &Setting, loaded: &Loaded, seed: u64) -> Vec<Planned> {
    let limits = Limits {
        wall: setting.limit,
        memory_mib: loaded.experiment.memory_mib(),
        ..Limits::default()
    };
    let wanted = |arm: &&Arm| setting.arms.is_empty() || setting.arms.contains(&arm.name);
    let text = setup_text(&loaded.text);
    let mut planned = Vec::new();
    for arm in loaded.experiment.arms.iter().filter(wanted) {
        for parameters in choices(arm) {
            let job = Job {
                experiment: text.clone(),
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

/// Returns the values of a sweep; one empty choice without a sweep.
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
            digest: Digest::of(&output.result),
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
    let (arm, seed) = (&planned.arm, planned.request.job.seed);
    match values.as_slice() {
        [] => format!("{experiment} {arm}, seed {seed}"),
        values => format!("{experiment} {arm} {}, seed {seed}", values.join(" ")),
    }
}

/// Reads and checks an experiment file, with `set` as values of its parameters.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The guest's text of each shipped experiment differs only in texts for readers and
    /// expectations.
    #[test]
    fn guests_read_the_experiment() {
        let folder = weirgate_testing::root().join("experiments");
        let mut read = 0;
        for path in crate::folder::files(&folder).unwrap().into_values() {
            let (text, whole) = load(&path, &[]).unwrap();
            let (bare, problems) = weirgate_experiment::parse(&setup_text(&text));
            assert_eq!(problems.len(), 0, "{}: {problems:?}", path.display());
            let bare = bare.unwrap();
            assert_eq!(
                (&bare.topology, &bare.phases, &bare.traffic, &bare.probes),
                (
                    &whole.topology,
                    &whole.phases,
                    &whole.traffic,
                    &whole.probes
                )
            );
            assert_eq!(
                (bare.settle, &bare.sampling, &bare.machine),
                (whole.settle, &whole.sampling, &whole.machine)
            );
            let arms = |experiment: &Experiment| -> Vec<Arm> {
                let arms = experiment.arms.iter().cloned();
                let bare = |arm| Arm {
                    about: String::new(),
                    ..arm
                };
                arms.map(bare).collect()
            };
            assert_eq!(arms(&bare), arms(&whole));
            read += 1;
        }
        assert!(read > 100, "{read}");
    }
}
