// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures experiments for the ledger: the inputs of a measurement, and its runs.

use super::Subject;
use crate::arms::{Loaded, Setting, each_seed, open, processors};
use crate::saved::replace;
use anyhow::Context as _;
use clap::Args;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weirgate_console::exit::Failure;
use weirgate_lab::{Cache, KernelChoice, Lab};
use weirgate_ledger::{Digest, Machine, MadeWith, Measurement, SingleRun, content};
use weirgate_measure::{FORMULAS, SOURCES, calculate};

/// How experiments are measured.
#[derive(Args)]
pub struct How {
    /// Virtual machines at once; without it, the number of processors.
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Wall-clock limit for one arm, in seconds.
    #[arg(long, default_value_t = 3600, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: u64,
    /// A kernel to use: cloud, generic, 6.12, 6.1, a bzImage, or a folder with `vmlinuz` and
    /// modules. It overrides the kernel of an experiment.
    #[arg(long)]
    pub kernel: Option<KernelChoice>,
}

/// The differences between labs: the kernel, and the programs in the guest.
type Kind = (Option<KernelChoice>, BTreeSet<String>);

/// Measures experiments one after the other; each uses all processors.
pub struct Bench {
    setting: Setting,
    /// A lab for each kernel and set of programs. A guest's image has only the programs of its
    /// experiment, because any other would change its digest.
    labs: BTreeMap<Kind, (Lab, Machine)>,
    /// The cache of measurements.
    folder: PathBuf,
}

impl Bench {
    /// Makes a bench with these options.
    #[must_use]
    pub fn new(how: &How) -> Self {
        Self {
            setting: Setting {
                kernel: how.kernel.clone(),
                here: false,
                jobs: how.jobs.map_or_else(processors, usize::from),
                limit: Duration::from_secs(how.limit),
                arms: Vec::new(),
            },
            labs: BTreeMap::new(),
            folder: Cache::of_user().root().join("measurements"),
        }
    }

    /// Returns the inputs of a measurement of an experiment.
    ///
    /// # Errors
    ///
    /// Fails if the lab cannot be prepared.
    pub fn made_with(&mut self, subject: &Subject) -> Result<MadeWith, Failure> {
        let loaded = &subject.loaded;
        let machine = self.lab(loaded)?.map(|(_, machine)| machine.clone());
        let mut files: BTreeMap<String, Digest> = BTreeMap::new();
        for (path, text) in &loaded.files {
            files.insert(path.clone(), Digest::of(text.as_bytes()));
        }
        for (word, path) in loaded.kits.places(true) {
            files.insert(word, digest(Path::new(&path))?);
        }
        Ok(MadeWith {
            setup: content(&loaded.text).setup,
            files,
            measure: match &machine {
                Some(_) => SOURCES.parse().context("the digest of crate measure")?,
                None => Digest::of(format!("{SOURCES}{FORMULAS}").as_bytes()),
            },
            machine,
        })
    }

    /// Returns the cached measurement of these seeds, or makes a new one. `fresh` always makes a
    /// new one.
    ///
    /// # Errors
    ///
    /// Fails if a run fails.
    pub fn measured(
        &mut self,
        subject: &Subject,
        made_with: &MadeWith,
        seeds: &[u64],
        fresh: bool,
    ) -> Result<Measurement, Failure> {
        let name = &subject.experiment().name;
        let file = self.file(name, made_with, seeds);
        let kept = || -> Option<Measurement> {
            let kept: Measurement = serde_json::from_slice(&fs::read(&file).ok()?).ok()?;
            (&kept.made_with == made_with && kept.seeds == seeds).then_some(kept)
        };
        if let Some(kept) = kept().filter(|_| !fresh) {
            return Ok(kept);
        }
        let measurement = self.run(subject, made_with, seeds)?;
        self.keep(name, &measurement)?;
        Ok(measurement)
    }

    /// Caches a measurement, so that [`measured`](Self::measured) finds it.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub fn keep(&self, experiment: &str, measurement: &Measurement) -> anyhow::Result<()> {
        let file = self.file(experiment, &measurement.made_with, &measurement.seeds);
        replace(&file, &serde_json::to_vec(measurement)?)
    }

    fn file(&self, experiment: &str, made_with: &MadeWith, seeds: &[u64]) -> PathBuf {
        let key = made_with.key(seeds);
        self.folder
            .join(format!("{experiment}-{}.json", key.short()))
    }

    fn run(
        &mut self,
        subject: &Subject,
        made_with: &MadeWith,
        seeds: &[u64],
    ) -> Result<Measurement, Failure> {
        let experiment = subject.experiment();
        if experiment.is_calculation() {
            let arm = calculate(experiment)?;
            let mut whole = Measurement::of_single_runs(made_with, &[], &[]);
            whole.runs = vec![BTreeMap::from([(arm.arm, arm.metrics)])];
            return Ok(whole);
        }
        let mut runs = Vec::new();
        self.single_runs(subject, made_with, &[], seeds, &mut |run| {
            runs.push(run);
            Ok(())
        })?;
        Ok(Measurement::of_single_runs(made_with, seeds, &runs))
    }

    /// Runs these arms, or all if none is named, with these seeds, and passes on each result.
    pub(super) fn single_runs(
        &mut self,
        subject: &Subject,
        made_with: &MadeWith,
        arms: &[String],
        seeds: &[u64],
        done: &mut dyn FnMut(SingleRun) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let loaded = &subject.loaded;
        let setting = Setting {
            arms: arms.to_vec(),
            ..self.setting.clone()
        };
        let Some((lab, _)) = self.lab(loaded)? else {
            return Ok(());
        };
        each_seed(&setting, Some(lab), loaded, seeds, &mut |mut result| {
            for arm in result.arms {
                let figures = result.figures.remove(&arm.arm).map(|own| own.metrics);
                done(SingleRun {
                    experiment: loaded.experiment.name.clone(),
                    seed: result.seed,
                    made_with: made_with.clone(),
                    recording: arm.digest,
                    figures: figures.unwrap_or_default(),
                    arm: arm.arm,
                })?;
            }
            Ok(())
        })
    }

    /// Returns how many machines run at once.
    pub(super) fn jobs(&self) -> usize {
        self.setting.jobs
    }

    fn kind(&self, loaded: &Loaded) -> Kind {
        let kernel = self.setting.kernel_of(&loaded.experiment);
        (kernel, loaded.programs())
    }

    /// Returns the lab for an experiment, with its digests; `None` for a calculation.
    fn lab(&mut self, loaded: &Loaded) -> Result<Option<&(Lab, Machine)>, Failure> {
        let kind = self.kind(loaded);
        if !self.labs.contains_key(&kind) {
            let mut labs = open(&self.setting, std::slice::from_ref(loaded))?;
            let Some(lab) = labs.remove(&kind.0) else {
                return Ok(None);
            };
            let machine = Machine {
                guest: Digest::of(&lab.effective_image()?),
                kernel: digest(&lab.kernel().boot)?,
                release: lab.kernel().release.clone(),
                emulator: lab.emulator().to_owned(),
            };
            self.labs.insert(kind.clone(), (lab, machine));
        }
        let needed = |_: &&(Lab, Machine)| !loaded.experiment.is_calculation();
        Ok(self.labs.get(&kind).filter(needed))
    }
}

fn digest(file: &Path) -> anyhow::Result<Digest> {
    let bytes = fs::read(file).with_context(|| file.display().to_string())?;
    Ok(Digest::of(&bytes))
}
