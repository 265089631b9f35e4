// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `lab run`: runs experiments, measures, judges, prints and saves.

use crate::arms::{Labs, Loaded, Setting, each_seed, open, processors};
use crate::disciplines::Kits;
use crate::result::ExperimentResult;
use crate::saved;
use clap::Args;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::output;
use weirgate_experiment::Experiment;
use weirgate_lab::KernelChoice;
use weirgate_report::html::Section;
use weirgate_report::terminal;

/// Arguments of `lab run`.
#[derive(Args)]
pub struct Run {
    /// Experiment files, or names of those that come with weirgate.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Run only this arm (repeatable).
    #[arg(long = "arm", value_name = "ARM")]
    pub arms: Vec<String>,
    /// Use this seed instead of the file's.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Run every arm this many times, with consecutive seeds, instead of as often as the file says.
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
    /// Store recordings, captures, results, commands and facts about the machine in this folder.
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Virtual machines at once; without it, the number of processors.
    #[arg(long, value_name = "N")]
    pub jobs: Option<std::num::NonZeroUsize>,
    /// Wall-clock limit for one arm, in seconds.
    #[arg(long, default_value_t = 900, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: u64,
    /// A kernel to use: cloud, generic, 6.12, 6.1, a bzImage, or a folder with `vmlinuz` and
    /// modules. It overrides the kernel of an experiment.
    #[arg(long)]
    pub kernel: Option<KernelChoice>,
    /// Run in network namespaces of the running kernel instead, in real time; needs
    /// CAP_NET_ADMIN and CAP_SYS_ADMIN.
    #[arg(long, conflicts_with = "kernel")]
    pub here: bool,
}

/// Parses `NAME=VALUE`.
fn named(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Reads and checks all files, then runs them.
pub fn run(arguments: &Run) -> Outcome {
    let setting = Setting {
        kernel: arguments.kernel.clone(),
        here: arguments.here,
        jobs: arguments.jobs.map_or_else(processors, usize::from),
        limit: Duration::from_secs(arguments.limit),
        arms: arguments.arms.clone(),
    };
    let mut loaded = Vec::new();
    for file in &arguments.files {
        let one = Loaded::read(file, &arguments.set)?;
        for arm in &setting.arms {
            if one.experiment.arm(arm).is_none() {
                let arms: Vec<&str> = one.experiment.arms.iter().map(|arm| &*arm.name).collect();
                return Err(Failure::Input(format!(
                    "weirgate: {}: there is no arm `{arm}`; it has {}",
                    file.display(),
                    arms.join(", ")
                )));
            }
        }
        loaded.push(one);
    }
    if let Some(folder) = &arguments.out {
        for one in &loaded {
            saved::can_write_folder(&folder.join(&one.experiment.name))?;
        }
    }
    if let Some(file) = &arguments.report {
        saved::can_write_report(file)?;
    }
    let labs = open(&setting, &loaded)?;
    let mut campaign = Campaign {
        of: loaded.len(),
        ..Campaign::default()
    };
    for one in loaded {
        let name = one.experiment.name.clone();
        let seeds = (arguments.seed, arguments.seeds);
        let outcome = experiment(&setting, &labs, one, seeds);
        let outcome = outcome.and_then(|result| campaign.add(arguments, &result));
        if let Err(failure) = outcome {
            campaign.fail(name, failure);
        }
    }
    campaign.end(arguments)
}

/// The results of a campaign so far.
#[derive(Default)]
struct Campaign {
    sections: Vec<Section>,
    /// Whether a figure differs from what its experiment expects.
    differs: bool,
    /// The number of experiments.
    of: usize,
    failures: Vec<(String, Failure)>,
}

impl Campaign {
    /// Prints and saves one result.
    fn add(&mut self, arguments: &Run, result: &ExperimentResult) -> Result<(), Failure> {
        // Add it to the report first, so that a full disk does not prevent that.
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

    /// Records a failed experiment. The campaign continues with the others.
    fn fail(&mut self, experiment: String, failure: Failure) {
        if self.of > 1 {
            output::note(&format!("{experiment}: {}", failure.text()));
        }
        self.failures.push((experiment, failure));
    }

    /// Writes the report of all results, and lists the failures.
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

/// Runs an experiment that is part of the program or generated by it. Paths of its disciplines are
/// relative to `file`, which need not exist.
pub fn bundled(
    file: &Path,
    text: &str,
    experiment: Experiment,
    files: BTreeMap<String, String>,
    kernel: Option<KernelChoice>,
) -> Result<ExperimentResult, Failure> {
    let setting = Setting {
        kernel,
        here: false,
        jobs: processors(),
        limit: Duration::from_mins(10),
        arms: Vec::new(),
    };
    let loaded = Loaded {
        text: text.to_owned(),
        kits: Kits::of(file, &experiment)?,
        experiment,
        files,
    };
    let labs = open(&setting, std::slice::from_ref(&loaded))?;
    self::experiment(&setting, &labs, loaded, (None, None))
}

/// Runs one experiment; `seed` and `seeds` override the file's.
fn experiment(
    setting: &Setting,
    labs: &Labs,
    loaded: Loaded,
    (seed, seeds): (Option<u64>, Option<u16>),
) -> Result<ExperimentResult, Failure> {
    let seed = seed.unwrap_or(loaded.experiment.seed);
    if loaded.experiment.is_calculation() {
        return Ok(ExperimentResult::calculated(
            loaded.text,
            loaded.experiment,
            seed,
        )?);
    }
    let seeds = u64::from(seeds.unwrap_or(loaded.experiment.seeds));
    let seeds: Vec<u64> = (0..seeds)
        .map(|further| seed.wrapping_add(further))
        .collect();
    let mut runs = Vec::new();
    let mut first = None;
    let lab = labs.get(&setting.kernel_of(&loaded.experiment));
    each_seed(setting, lab, &loaded, &seeds, &mut |result| {
        runs.push(result.figures.clone());
        first.get_or_insert(result);
        Ok(())
    })?;
    let mut result = first.ok_or_else(|| anyhow::anyhow!("there is no seed to run"))?;
    if runs.len() > 1 {
        result.repeat(runs);
    }
    Ok(result)
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
