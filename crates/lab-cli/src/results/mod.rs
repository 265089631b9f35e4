// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate-lab results`: the ledger of what every experiment measured.

mod beside;
mod sweep;
mod verify;

use crate::lab::own_experiments;
use beside::{Beside, Which, chosen};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use weirgate_campaign::ledger::{Bench, How, Ledger};
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::{output, reference};
use weirgate_ledger::{Change, Entry, compare};

/// Subcommands of the ledger.
#[derive(Subcommand)]
pub enum Command {
    /// Run the experiments that have changed since their results were stored, and compare.
    ///
    /// An experiment has changed if its file, a policy, the guest, the kernel or the computation of
    /// figures has. Exit status 1 if a verdict is worse than the stored one, or if expectations
    /// differ from the ledger's; an old miss is no difference.
    Run {
        /// Experiments, such as `adsl-6.2`; without names, those with a stored result.
        names: Vec<String>,
        /// Run all experiments, changed or not, including those without a stored result.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        part: sweep::Part,
        #[command(flatten)]
        how: How,
        #[command(flatten)]
        folders: Folders,
    },
    /// Merge the measurements of shards, and compare as `run` does.
    ///
    /// The runs are checked first: each must exist, from the same inputs that this machine would
    /// use. `accept` then finds the merged results, and runs nothing.
    Merge {
        /// The folders that `run --shard K/N --to FOLDER` wrote; all shards may have written into
        /// one.
        #[arg(required = true, value_name = "FOLDER")]
        folders: Vec<PathBuf>,
        /// The experiment that the shards ran (repeatable); without it, those that changed.
        #[arg(long = "only", value_name = "NAME")]
        names: Vec<String>,
        /// All experiments, if the shards ran with --all.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        how: How,
        #[command(flatten)]
        ledger: Folders,
    },
    /// Store new results, after the runs that are still missing.
    ///
    /// An expectation that is not met needs a `reason` in the experiment file.
    Accept {
        /// Experiments; without names, those whose stored result has changed.
        names: Vec<String>,
        #[command(flatten)]
        how: How,
        #[command(flatten)]
        folders: Folders,
    },
    /// Repeat experiments with the stored seeds, and compare bit for bit.
    ///
    /// If the guest's image, the kernel or anything else differs, the means are compared within
    /// their confidence intervals. Exit status 1 if they do not agree.
    Verify {
        /// Experiments.
        #[arg(required = true)]
        names: Vec<String>,
        #[command(flatten)]
        how: How,
        #[command(flatten)]
        folders: Folders,
    },
    /// Print stored results.
    Show {
        /// Experiments; without names, one line for each stored result.
        names: Vec<String>,
        #[command(flatten)]
        folders: Folders,
    },
    /// Write the ledger's pages of the documentation.
    #[command(hide = true)]
    Pages {
        /// The folder of the pages.
        folder: PathBuf,
        /// The page with the table of what is promised, and by which experiments it is held.
        #[arg(long, value_name = "FILE")]
        promises: PathBuf,
        /// Write nothing; exit status 1 if a file there differs.
        #[arg(long)]
        check: bool,
        #[command(flatten)]
        folders: Folders,
    },
}

/// The folders of the ledger.
#[derive(Args)]
pub struct Folders {
    /// The folder of experiment files; without it, those that come with weirgate.
    #[arg(long, value_name = "FOLDER")]
    experiments: Option<PathBuf>,
    /// The folder of stored results; without it, `results` beside the experiments.
    #[arg(long, value_name = "FOLDER")]
    results: Option<PathBuf>,
}

impl Folders {
    fn ledger(self) -> Result<Ledger, Failure> {
        let experiments = match self.experiments {
            Some(folder) => folder,
            None => own_experiments()?,
        };
        let beside = || experiments.with_file_name("results");
        Ok(Ledger {
            results: self.results.unwrap_or_else(beside),
            experiments,
        })
    }
}

/// Runs a subcommand.
pub fn run(command: Command) -> Outcome {
    match command {
        Command::Run {
            names,
            all,
            part,
            how,
            folders,
        } => {
            let (ledger, mut bench) = (folders.ledger()?, Bench::new(&how));
            match part.named() {
                Some(part) => sweep::run(&ledger, &names, Which::of(all), &mut bench, part),
                None => check(&ledger, &names, Which::of(all), all, &mut bench),
            }
        }
        Command::Merge {
            folders,
            names,
            all,
            how,
            ledger,
        } => {
            let (ledger, mut bench) = (ledger.ledger()?, Bench::new(&how));
            sweep::merge(&ledger, &names, Which::of(all), &mut bench, &folders)?;
            check(&ledger, &names, Which::of(all), false, &mut bench)
        }
        Command::Accept {
            names,
            how,
            folders,
        } => accept(&folders.ledger()?, &names, &mut Bench::new(&how)),
        Command::Verify {
            names,
            how,
            folders,
        } => verify::verify(&folders.ledger()?, &names, &mut Bench::new(&how)),
        Command::Show { names, folders } => show(&folders.ledger()?, &names),
        Command::Pages {
            folder,
            promises,
            check,
            folders,
        } => {
            let pages = folders.ledger()?.pages(&promises)?.into_iter();
            let pages = pages.map(|(name, text)| (name, text.into_bytes()));
            reference::write(&folder, pages.collect(), check)
        }
    }
}

/// How many experiments of a run have which outcome.
#[derive(Default)]
struct Tally {
    unchanged: usize,
    run: usize,
    worse: usize,
    better: usize,
    failed: Vec<String>,
}

/// Compares with the ledger; `fresh` ignores cached measurements.
fn check(
    ledger: &Ledger,
    names: &[String],
    which: Which,
    fresh: bool,
    bench: &mut Bench,
) -> Outcome {
    let mut tally = Tally::default();
    let mut unknown = 0;
    for name in chosen(ledger, names)? {
        let stored = ledger.stored(&name)?;
        if stored.is_none() && names.is_empty() && which == Which::Changed {
            unknown += 1;
            continue;
        }
        if let Err(failure) = check_one(ledger, &name, (which, fresh), bench, &mut tally) {
            output::note(&format!("{name}: {}", failure.text()));
            tally.failed.push(name);
        }
    }
    if names.is_empty() {
        for place in ledger.orphans()? {
            let place = place.display();
            output::data(&format!(
                "worse: {place}: a stored result without an experiment; remove it, or bring the \
                 experiment back"
            ))?;
            tally.worse += 1;
        }
    }
    if unknown > 0 {
        output::note(&format!(
            "{unknown} experiments have no stored result and were not run: \
             `weirgate-lab results accept NAME` stores one"
        ));
    }
    let Tally {
        unchanged,
        run,
        worse,
        better,
        failed,
    } = tally;
    output::data(&format!(
        "{unchanged} experiments are unchanged, {run} were run: {worse} figures are worse than the \
         ledger says, {better} are better"
    ))?;
    if !failed.is_empty() {
        let count = failed.len();
        return Err(anyhow::anyhow!("{count} experiments failed: {}", failed.join(", ")).into());
    }
    Ok(if worse == 0 {
        Status::Done
    } else {
        Status::Differs
    })
}

fn check_one(
    ledger: &Ledger,
    name: &str,
    (which, fresh): (Which, bool),
    bench: &mut Bench,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let one = Beside::read(ledger, name, bench)?;
    if let Some(stored) = one.stored.as_ref()
        && one.unchanged()
        && which == Which::Changed
    {
        tally.unchanged += 1;
        // The stored figures are judged again, because the code that judges is in no digest.
        let judged = one.subject.judge_again(stored)?;
        return told(tally, stored, &judged);
    }
    if !one.stale.is_empty() {
        output::note(&format!("{name}: changed: {}", one.stale.join(", ")));
    }
    let entry = one.entry(bench, fresh)?;
    tally.run += 1;
    let Some(stored) = &one.stored else {
        output::data(&format!("{name}: no stored result; {}", counted(&entry)))?;
        return Ok(());
    };
    told(tally, stored, &entry)
}

/// Prints and counts the differences from a stored result.
fn told(tally: &mut Tally, stored: &Entry, new: &Entry) -> Result<(), Failure> {
    for finding in compare(stored, new) {
        output::data(&finding.to_string())?;
        tally.worse += usize::from(finding.change.is_worse());
        tally.better += usize::from(finding.change == Change::Better);
    }
    Ok(())
}

fn accept(ledger: &Ledger, names: &[String], bench: &mut Bench) -> Outcome {
    let mut refused = Vec::new();
    for name in chosen(ledger, names)? {
        if names.is_empty() && ledger.stored(&name)?.is_none() {
            continue;
        }
        let one = Beside::read(ledger, &name, bench)?;
        if one.unchanged() {
            continue;
        }
        let entry = one.entry(bench, false)?;
        let silent: Vec<String> = entry
            .unexplained()
            .map(|(arm, metric)| format!("arm `{arm}`: {metric}"))
            .collect();
        if !silent.is_empty() {
            output::note(&format!(
                "{name}: not stored, because these are missed and its file has no `reason` for \
                 them:\n  {}",
                silent.join("\n  ")
            ));
            refused.push(name);
            continue;
        }
        if let Some(stored) = &one.stored {
            for finding in compare(stored, &entry) {
                output::data(&finding.to_string())?;
            }
        }
        let file = ledger.store(&entry)?;
        output::data(&format!("{}: {}", file.display(), counted(&entry)))?;
    }
    Ok(if refused.is_empty() {
        Status::Done
    } else {
        Status::Differs
    })
}

fn show(ledger: &Ledger, names: &[String]) -> Outcome {
    for name in chosen(ledger, names)? {
        let Some(entry) = ledger.stored(&name)? else {
            if !names.is_empty() {
                output::data(&format!("{name}: no stored result"))?;
            }
            continue;
        };
        output::data(&format!("{name}: {}", counted(&entry)))?;
        if names.is_empty() {
            continue;
        }
        for (arm, figure, expected) in entry.expected() {
            let measured = figure
                .judged()
                .map_or("no figure".to_owned(), |it| it.to_string());
            output::data(&format!(
                "  {}: arm `{}`: {} is {measured}, expected {}",
                expected.verdict.word(),
                arm.name,
                figure.metric,
                expected.promise
            ))?;
        }
    }
    Ok(Status::Done)
}

fn counted(entry: &Entry) -> String {
    let [kept, explained, missed] = entry.counts();
    format!("{kept} kept, {explained} explained, {missed} missed")
}
