// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sweeps: experiments whose runs are shared by several machines.
//!
//! Each machine makes the same list of runs from the same files, and takes its shard. The results
//! are merged only if all have the same inputs and none is missing.

use super::{Bench, Subject, runs};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use weirgate_console::exit::{Failure, wrong};
use weirgate_console::output;
use weirgate_experiment::Arm;
use weirgate_ledger::{MadeWith, Measurement, Shard, SingleRun};

/// How many mistakes of runs are reported.
const MOST_TOLD: usize = 20;

/// An experiment, and the inputs of its measurement on this machine.
pub struct Swept {
    /// The experiment.
    pub subject: Subject,
    /// The inputs of its measurement.
    pub made_with: MadeWith,
}

/// The list of single runs of several experiments.
pub struct Sweep<'s> {
    experiments: &'s [Swept],
}

/// One run of the list.
#[derive(Clone, Copy)]
struct Planned<'s> {
    swept: &'s Swept,
    arm: &'s Arm,
    seed: u64,
}

/// The outcome of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// The number of runs.
    pub runs: usize,
    /// How many were already stored.
    pub there: usize,
    /// How many failed.
    pub failed: usize,
}

/// The key of a run: experiment, arm, seed.
type Key = (String, String, u64);

impl Planned<'_> {
    fn key(&self) -> Key {
        let experiment = self.swept.subject.experiment();
        (experiment.name.clone(), self.arm.name.clone(), self.seed)
    }

    /// Returns the length of the run in virtual nanoseconds.
    fn length(&self) -> u64 {
        let values = self.arm.sweep.as_ref().map_or(1, |it| it.values.len());
        let one = self.swept.subject.experiment().duration().as_nanos();
        one.saturating_mul(values as u64)
    }

    /// Returns why a stored run does not match this one; nothing if it matches.
    fn foreign(&self, run: &SingleRun) -> Option<String> {
        let key = (run.experiment.clone(), run.arm.clone(), run.seed);
        if key != self.key() {
            return Some(format!("is of {}", run_name(&key)));
        }
        let differences = self.swept.made_with.differences(&run.made_with);
        (!differences.is_empty()).then(|| {
            format!(
                "{} was made with something else than here: {}",
                run_name(&key),
                differences.join(", ")
            )
        })
    }
}

impl<'s> Sweep<'s> {
    /// Makes the sweep of these experiments; calculations have no runs.
    #[must_use]
    pub fn new(experiments: &'s [Swept]) -> Self {
        Self { experiments }
    }

    /// Lists the runs by experiment, arm and seed.
    fn list(&self) -> Vec<Planned<'s>> {
        let mut list = Vec::new();
        for swept in self.experiments {
            for arm in &swept.subject.experiment().arms {
                let seeds = swept.subject.seeds().into_iter();
                list.extend(seeds.map(|seed| Planned { swept, arm, seed }));
            }
        }
        list
    }

    /// Returns the runs of a shard.
    fn share(&self, shard: Shard) -> Vec<Planned<'s>> {
        let list = self.list();
        let lengths: Vec<u64> = list.iter().map(Planned::length).collect();
        let own = shard.share(&lengths).into_iter();
        own.map(|place| list[place]).collect()
    }

    /// Runs what the folder lacks of a shard. A failed run is reported, and the others continue.
    ///
    /// # Errors
    ///
    /// Fails before any run if a stored run of this shard cannot be read or has other inputs. Also
    /// fails if the folder cannot be written.
    pub fn run(&self, bench: &mut Bench, shard: Shard, folder: &Path) -> Result<Done, Failure> {
        let own = self.share(shard);
        let mut lacking = Vec::new();
        for planned in &own {
            let (experiment, arm, seed) = planned.key();
            let file = runs::file(folder, &experiment, &arm, seed);
            if !file.exists() {
                lacking.push(*planned);
                continue;
            }
            let run = runs::read(&file)?;
            if let Some(why) = planned.foreign(&run) {
                return Err(wrong(format!("{}: {why}", file.display())));
            }
        }
        let mut done = Done {
            runs: own.len(),
            there: own.len() - lacking.len(),
            failed: 0,
        };
        let alike = |one: &Planned<'_>, other: &Planned<'_>| {
            std::ptr::eq(one.swept, other.swept) && one.arm.name == other.arm.name
        };
        for of_arm in lacking.chunk_by(alike) {
            for some in of_arm.chunks(bench.jobs()) {
                let Planned { swept, arm, .. } = some[0];
                let (arms, seeds) = ([arm.name.clone()], some.iter().map(|one| one.seed));
                let seeds: Vec<u64> = seeds.collect();
                let mut written = 0;
                let mut keep = |run: SingleRun| {
                    runs::write(folder, &run)?;
                    written += 1;
                    Ok(())
                };
                let (subject, made_with) = (&swept.subject, &swept.made_with);
                let ran = bench.single_runs(subject, made_with, &arms, &seeds, &mut keep);
                if let Err(failure) = ran {
                    output::note(&format!("{}: {}", run_name(&some[0].key()), failure.text()));
                    done.failed += some.len() - written;
                }
            }
        }
        Ok(done)
    }

    /// Merges the runs in these folders into a measurement for each experiment, the same as one
    /// process would have made.
    ///
    /// # Errors
    ///
    /// Fails with all mistakes: a file that is not a run, a run of another experiment or with other
    /// inputs, two files of one run that differ, or a missing run.
    pub fn merge(&self, folders: &[PathBuf]) -> Result<Vec<(String, Measurement)>, Failure> {
        let list = self.list();
        let wanted: BTreeMap<Key, &Planned<'_>> = list.iter().map(|it| (it.key(), it)).collect();
        let mut found: BTreeMap<Key, (PathBuf, SingleRun)> = BTreeMap::new();
        let mut wrong_ones = Vec::new();
        for folder in folders {
            for file in runs::files(folder)? {
                match self.take(&wanted, &mut found, &file) {
                    Ok(()) => {}
                    Err(why) => wrong_ones.push(why),
                }
            }
        }
        refuse("runs cannot be put together", &wrong_ones)?;
        let missing = missing(&list, &found);
        refuse("runs are missing", &missing)?;
        let mut by_experiment: BTreeMap<String, Vec<SingleRun>> = BTreeMap::new();
        for ((experiment, ..), (_, run)) in found {
            by_experiment.entry(experiment).or_default().push(run);
        }
        let measured = self.experiments.iter().filter_map(|swept| {
            let runs = by_experiment.remove(&swept.subject.experiment().name)?;
            let (made_with, seeds) = (&swept.made_with, swept.subject.seeds());
            let whole = Measurement::of_single_runs(made_with, &seeds, &runs);
            Some((swept.subject.experiment().name.clone(), whole))
        });
        Ok(measured.collect())
    }

    /// Takes one file, or returns why it is refused.
    fn take(
        &self,
        wanted: &BTreeMap<Key, &Planned<'_>>,
        found: &mut BTreeMap<Key, (PathBuf, SingleRun)>,
        file: &Path,
    ) -> Result<(), String> {
        let run = runs::read(file).map_err(|failure| {
            let text = failure.text();
            text.trim_start_matches("weirgate: ").to_owned()
        })?;
        let refused = |why: String| format!("{}: {why}", file.display());
        let key = (run.experiment.clone(), run.arm.clone(), run.seed);
        let Some(planned) = wanted.get(&key) else {
            return Err(refused(self.unknown(&run)));
        };
        if let Some(why) = planned.foreign(&run) {
            return Err(refused(why));
        }
        if let Some((other, earlier)) = found.get(&key)
            && earlier != &run
        {
            let other = other.display();
            return Err(refused(format!(
                "{} gave something else than in {other}",
                run_name(&key)
            )));
        }
        found.insert(key, (file.to_owned(), run));
        Ok(())
    }

    /// Returns why a run is not in the list.
    fn unknown(&self, run: &SingleRun) -> String {
        let mut experiments = self.experiments.iter().map(|it| it.subject.experiment());
        let name = &run.experiment;
        match experiments.find(|one| &one.name == name) {
            None => format!("is a run of `{name}`, which is none of the experiments asked for"),
            Some(experiment) if experiment.arm(&run.arm).is_none() => {
                format!("`{name}` has no arm `{}`", run.arm)
            }
            Some(_) => format!("seed {} is none of `{name}`", run.seed),
        }
    }
}

/// Returns the name of a run, in words.
fn run_name((experiment, arm, seed): &Key) -> String {
    format!("{experiment}, arm `{arm}`, seed {seed}")
}

/// Lists the missing runs, with the seeds of an arm on one line.
fn missing(list: &[Planned<'_>], found: &BTreeMap<Key, (PathBuf, SingleRun)>) -> Vec<String> {
    let mut lines: Vec<(String, Vec<u64>)> = Vec::new();
    for planned in list {
        let key = planned.key();
        if found.contains_key(&key) {
            continue;
        }
        let of = format!("{}, arm `{}`", key.0, key.1);
        match lines.last_mut().filter(|line| line.0 == of) {
            Some(line) => line.1.push(key.2),
            None => lines.push((of, vec![key.2])),
        }
    }
    let line = |(of, seeds): (String, Vec<u64>)| format!("{of}: seeds {}", ranges(&seeds));
    lines.into_iter().map(line).collect()
}

/// Formats sorted numbers as `1-3, 7`.
fn ranges(numbers: &[u64]) -> String {
    let next = |one: &u64, other: &u64| one.wrapping_add(1) == *other;
    let runs = numbers.chunk_by(next).map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        one => one.iter().map(ToString::to_string).collect(),
    });
    runs.collect::<Vec<_>>().join(", ")
}

/// Fails if there are mistakes.
fn refuse(what: &str, lines: &[String]) -> Result<(), Failure> {
    if lines.is_empty() {
        return Ok(());
    }
    let mut text = what.to_owned() + ":";
    for line in lines.iter().take(MOST_TOLD) {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n  {line}");
    }
    if let Some(more @ 1..) = lines.len().checked_sub(MOST_TOLD) {
        let _ = write!(text, "\n  ... and {more} more");
    }
    Err(wrong(text))
}

#[cfg(test)]
mod tests;
