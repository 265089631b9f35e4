// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arms of an experiment, each in its own machine, several at once.

use crate::disciplines::Kits;
use crate::here;
use crate::result::{ArmResult, ExperimentResult};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use weirgate_console::exit::Failure;
use weirgate_console::output;
use weirgate_console::policy;
use weirgate_console::progress::Progress;
use weirgate_console::source;
use weirgate_experiment::{Arm, Experiment, Job, Recording};
use weirgate_lab::{KernelChoice, Lab, LabError, Limits, Options, Request};
use weirgate_ledger::{Digest, setup_text};

/// How experiments are run.
#[derive(Clone)]
pub(crate) struct Setting {
    /// A kernel to use, whatever an experiment asks for.
    pub(crate) kernel: Option<KernelChoice>,
    /// Whether in namespaces of the running kernel.
    pub(crate) here: bool,
    /// Machines at once.
    pub(crate) jobs: usize,
    /// Wall-clock limit of one arm.
    pub(crate) limit: Duration,
    /// The arms to run; all where empty.
    pub(crate) arms: Vec<String>,
}

impl Setting {
    /// The kernel that an experiment runs on.
    pub(crate) fn kernel_of(&self, experiment: &Experiment) -> Option<KernelChoice> {
        let asked = experiment.machine.kernel.map(KernelChoice::Named);
        self.kernel.clone().or(asked)
    }
}

/// One experiment, read and checked, with the policies and the disciplines that
/// its arms name.
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
    /// Reads an experiment file and all that it names, with other values for some of
    /// its parameters.
    pub(crate) fn read(file: &Path, set: &[(String, String)]) -> Result<Self, Failure> {
        let (text, experiment) = load(file, set)?;
        Ok(Self {
            kits: Kits::of(file, &experiment)?,
            files: policies(file, &experiment)?,
            text,
            experiment,
        })
    }

    /// The programs that its arms need in the guest.
    pub(crate) fn programs(&self) -> BTreeSet<String> {
        let arms = self.experiment.arms.iter();
        let programs = arms.flat_map(|arm| arm.programs.iter().cloned());
        programs.chain(self.kits.programs()).collect()
    }
}

/// The processors of this machine.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A lab for each kernel.
pub(crate) type Labs = BTreeMap<Option<KernelChoice>, Lab>;

/// The labs of experiments, each with every program that an arm needs; one that needs no
/// machine has none.
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

/// Why the lab cannot start. A kernel that was named and cannot be used is a
/// mistake in the arguments.
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

/// Runs every arm with every seed, as many seeds at once as keep the processors busy.
/// Each seed's result is handed on in order; its recordings are large, so that only
/// what is kept of it stays.
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

/// Every arm that is asked for, a sweep once for each value.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What the guest reads is each shipped experiment, but for words and expectations.
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
