// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ledger on disk: experiments and their stored results. Measurements that are not accepted yet
//! are in the lab's cache, by digest.

mod measured;
mod pages;
mod runs;
mod sweep;

pub use measured::{Bench, How};
pub use sweep::{Done, Sweep, Swept};

use crate::arms::Loaded;
use crate::folder;
use crate::result::ExperimentResult;
use crate::saved::replace;
use anyhow::Context as _;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use weirgate_console::exit::{Failure, wrong};
use weirgate_console::source;
use weirgate_document::did_you_mean;
use weirgate_experiment::Experiment;
use weirgate_ledger::{Digest, Entry, Measurement, RunFigures, content};
use weirgate_measure::ArmFigures;

/// The smallest number of seeds of a stored result, so that confidence intervals are meaningful.
const LEAST_SEEDS: u16 = 3;

/// The folders of experiments and of their stored results.
pub struct Ledger {
    /// The folder of the experiment files.
    pub experiments: PathBuf,
    /// The folder of the stored results.
    pub results: PathBuf,
}

/// An experiment file with the files that it names, ready to be measured.
pub struct Subject {
    pub(crate) loaded: Loaded,
}

impl Ledger {
    /// Returns the names of all experiments, in order.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot be read.
    pub fn names(&self) -> Result<Vec<String>, Failure> {
        Ok(self.files()?.into_keys().collect())
    }

    /// Checks that experiments with these names exist, and returns the names.
    ///
    /// # Errors
    ///
    /// Fails if a name is unknown.
    pub fn chosen(&self, names: &[String]) -> Result<Vec<String>, Failure> {
        for name in names {
            self.place(name)?;
        }
        Ok(names.to_vec())
    }

    /// Reads an experiment and the files that it names.
    ///
    /// # Errors
    ///
    /// Fails if a file is missing or invalid.
    pub fn subject(&self, name: &str) -> Result<Subject, Failure> {
        let file = self.experiments.join(self.place(name)?);
        let loaded = Loaded::read(&file, &[])?;
        Ok(Subject { loaded })
    }

    /// Returns the stored result of an experiment; `None` if there is none.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be read or parsed.
    pub fn stored(&self, name: &str) -> Result<Option<Entry>, Failure> {
        let file = self.results.join(self.place(name)?);
        if !file.exists() {
            return Ok(None);
        }
        let text = source::read(&file)?;
        Ok(Some(source::parse(&file, &text, weirgate_ledger::parse)?))
    }

    /// Stores a result.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be written.
    pub fn store(&self, entry: &Entry) -> Result<PathBuf, Failure> {
        let file = self.results.join(self.place(&entry.experiment)?);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        replace(&file, entry.to_toml().as_bytes())?;
        Ok(file)
    }

    /// Returns the stored results that no experiment has, as paths in the folder of results.
    ///
    /// # Errors
    ///
    /// Fails if a folder cannot be read.
    pub fn orphans(&self) -> Result<Vec<PathBuf>, Failure> {
        if !self.results.exists() {
            return Ok(Vec::new());
        }
        let folder = &self.results;
        let stored = folder::files(folder)
            .map_err(|error| wrong(format!("{}: {error}", folder.display())))?;
        let places = stored
            .values()
            .filter_map(|file| file.strip_prefix(folder).ok());
        let orphans = places.filter(|place| !self.experiments.join(place).exists());
        Ok(orphans.map(Path::to_owned).collect())
    }

    /// Returns the experiment files by name.
    fn files(&self) -> Result<BTreeMap<String, PathBuf>, Failure> {
        let folder = &self.experiments;
        folder::files(folder).map_err(|error| wrong(format!("{}: {error}", folder.display())))
    }

    /// Returns the path of an experiment in the folder of all; its result has the same path in the
    /// results' folder.
    fn place(&self, name: &str) -> Result<PathBuf, Failure> {
        let folder = &self.experiments;
        let files = self.files()?;
        let place = files
            .get(name)
            .and_then(|file| file.strip_prefix(folder).ok());
        place.map(Path::to_owned).ok_or_else(|| {
            let known = files.keys().map(String::as_str);
            let otherwise = || "`weirgate-lab lab list` names them".to_owned();
            let hint = did_you_mean(name, known, otherwise);
            let folder = folder.display();
            wrong(format!(
                "there is no experiment `{name}` in {folder}; {hint}"
            ))
        })
    }
}

impl Subject {
    /// Returns the experiment.
    #[must_use]
    pub fn experiment(&self) -> &Experiment {
        &self.loaded.experiment
    }

    /// Returns the seeds of a stored result: those of the file, but at least three; none for a
    /// calculation.
    #[must_use]
    pub fn seeds(&self) -> Vec<u64> {
        let experiment = self.experiment();
        if experiment.is_calculation() {
            return Vec::new();
        }
        let count = u64::from(experiment.seeds.max(LEAST_SEEDS));
        let seed = |further| experiment.seed.wrapping_add(further);
        (0..count).map(seed).collect()
    }

    /// Judges a measurement by the file's current expectations.
    ///
    /// # Errors
    ///
    /// Fails if it has no run.
    pub fn judge(&self, measurement: &Measurement) -> anyhow::Result<Entry> {
        let figures = |run: &RunFigures| -> BTreeMap<String, ArmFigures> {
            let arm = |(arm, metrics): (&String, &BTreeMap<String, f64>)| {
                let figures = ArmFigures {
                    arm: arm.clone(),
                    metrics: metrics.clone(),
                };
                (arm.clone(), figures)
            };
            run.iter().map(arm).collect()
        };
        let result = ExperimentResult::of_runs(
            self.loaded.text.clone(),
            self.loaded.experiment.clone(),
            measurement.seeds.first().copied().unwrap_or_default(),
            self.loaded.files.clone(),
            measurement.runs.iter().map(figures).collect(),
        )?;
        let expectations = content(&self.loaded.text).expectations;
        let (experiment, verdicts) = (self.experiment(), &result.verdicts);
        Ok(Entry::new(experiment, expectations, measurement, verdicts))
    }

    /// Judges the figures of a stored result by the current expectations. If the result is of this
    /// experiment, the verdicts are the stored ones, unless the program judges differently.
    ///
    /// # Errors
    ///
    /// Fails if the result has no run.
    pub fn judge_again(&self, stored: &Entry) -> anyhow::Result<Entry> {
        self.judge(&Measurement::of_entry(stored))
    }

    /// Returns whether a stored result is of the current experiment, its policies and its
    /// expectations, whatever machine it was made with.
    #[must_use]
    pub fn is_of(&self, stored: &Entry) -> bool {
        let (now, made_with) = (content(&self.loaded.text), &stored.made_with);
        let same = |(path, text): (&String, &String)| {
            made_with.files.get(path) == Some(&Digest::of(text.as_bytes()))
        };
        (&made_with.setup, &stored.expectations) == (&now.setup, &now.expectations)
            && self.loaded.files.iter().all(same)
    }

    /// Returns why a stored result is not of the current experiment; nothing if it is current.
    #[must_use]
    pub fn stale(&self, stored: &Entry, made_with: &weirgate_ledger::MadeWith) -> Vec<String> {
        let mut reasons = stored.made_with.differences(made_with);
        if stored.expectations != content(&self.loaded.text).expectations {
            reasons.push("what is expected".to_owned());
        }
        if stored.seeds != self.seeds() {
            reasons.push("the seeds".to_owned());
        }
        reasons
    }
}
