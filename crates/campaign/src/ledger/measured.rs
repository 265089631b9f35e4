// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures experiments for the ledger: what a measurement is made with, and its runs.

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
use weirgate_ledger::{Digest, Machine, MadeWith, Measurement, content};
use weirgate_measure::{SOURCES, calculate};

/// How experiments are measured.
#[derive(Args)]
pub struct How {
    /// Virtual machines at once; the number of processors unless given.
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Wall-clock limit for one arm, in seconds.
    #[arg(long, default_value_t = 3600, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: u64,
    /// A kernel to use: cloud, generic, 6.12, 6.1, a bzImage, or a folder with `vmlinuz` and
    /// modules. It goes before what an experiment asks for.
    #[arg(long)]
    pub kernel: Option<KernelChoice>,
}

/// What labs differ by: the kernel, and the programs in the guest.
type Kind = (Option<KernelChoice>, BTreeSet<String>);

/// Measures experiments, one after the other; each has all processors.
pub struct Bench {
    setting: Setting,
    /// A lab for each kernel and set of programs in the guest: what one experiment needs is not in
    /// the image of another, whose digest it would change.
    labs: BTreeMap<Kind, (Lab, Machine)>,
    /// Where measurements are kept.
    folder: PathBuf,
}

impl Bench {
    /// A bench that measures like this.
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

    /// What a measurement of an experiment would be made with.
    ///
    /// # Errors
    ///
    /// Where the lab cannot be made ready.
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
            measure: SOURCES.parse().context("the digest of crate measure")?,
            machine,
        })
    }

    /// The measurement of these seeds that is kept from an earlier run, or else a new
    /// one. `fresh` asks for a new one in any case.
    ///
    /// # Errors
    ///
    /// Where a run fails.
    pub fn measured(
        &mut self,
        subject: &Subject,
        made_with: &MadeWith,
        seeds: &[u64],
        fresh: bool,
    ) -> Result<Measurement, Failure> {
        let name = &subject.experiment().name;
        let key = made_with.key(seeds);
        let file = self.folder.join(format!("{name}-{}.json", key.short()));
        let kept = || -> Option<Measurement> {
            let kept: Measurement = serde_json::from_slice(&fs::read(&file).ok()?).ok()?;
            (&kept.made_with == made_with && kept.seeds == seeds).then_some(kept)
        };
        if let Some(kept) = kept().filter(|_| !fresh) {
            return Ok(kept);
        }
        let measurement = self.run(subject, made_with, seeds)?;
        replace(&file, &serde_json::to_vec(&measurement)?)?;
        Ok(measurement)
    }

    fn run(
        &mut self,
        subject: &Subject,
        made_with: &MadeWith,
        seeds: &[u64],
    ) -> Result<Measurement, Failure> {
        let loaded = &subject.loaded;
        let mut measurement = Measurement {
            made_with: made_with.clone(),
            seeds: seeds.to_vec(),
            recordings: BTreeMap::new(),
            runs: Vec::new(),
        };
        self.lab(loaded)?;
        let Some((lab, _)) = self
            .labs
            .get(&self.kind(loaded))
            .filter(|_| !seeds.is_empty())
        else {
            let arm = calculate(&loaded.experiment)?;
            measurement.runs = vec![BTreeMap::from([(arm.arm, arm.metrics)])];
            return Ok(measurement);
        };
        each_seed(&self.setting, Some(lab), loaded, seeds, &mut |result| {
            for arm in result.arms {
                let own = measurement.recordings.entry(arm.arm).or_default();
                own.push(arm.digest);
            }
            let figures = result.figures.into_iter();
            let figures = figures.map(|(arm, figures)| (arm, figures.metrics));
            measurement.runs.push(figures.collect());
        })?;
        Ok(measurement)
    }

    fn kind(&self, loaded: &Loaded) -> Kind {
        let kernel = self.setting.kernel_of(&loaded.experiment);
        (kernel, loaded.programs())
    }

    /// The lab for an experiment, with its digests; `None` for a calculation.
    fn lab(&mut self, loaded: &Loaded) -> Result<Option<&(Lab, Machine)>, Failure> {
        let kind = self.kind(loaded);
        if !self.labs.contains_key(&kind) {
            let mut labs = open(&self.setting, std::slice::from_ref(loaded))?;
            let Some(lab) = labs.remove(&kind.0) else {
                return Ok(None);
            };
            let machine = Machine {
                guest: digest(lab.image())?,
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
