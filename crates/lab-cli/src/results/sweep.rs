// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate-lab results run --shard` and `results merge`: a sweep over several machines.

use super::beside::{Beside, Which, chosen};
use clap::Args;
use std::path::{Path, PathBuf};
use weirgate_campaign::ledger::{Bench, Ledger, Sweep, Swept};
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::output;
use weirgate_ledger::Shard;

/// Selects a part of the runs.
#[derive(Args)]
pub struct Part {
    /// Run only part K of N of the single runs (experiment, arm, seed), and compare nothing.
    ///
    /// Every machine with the same files and options forms the same list. What is in the folder
    /// is not run again, so that a shard that was killed is simply run again. `results merge`
    /// puts the parts together.
    #[arg(long, value_name = "K/N", requires = "to")]
    shard: Option<Shard>,
    /// The folder for a shard's measurements, one file per run; several shards may share it.
    #[arg(long, value_name = "FOLDER", requires = "shard")]
    to: Option<PathBuf>,
}

impl Part {
    /// Returns the shard and its folder, if they are given.
    pub(super) fn named(&self) -> Option<(Shard, &Path)> {
        self.shard.zip(self.to.as_deref())
    }
}

/// Runs what the folder lacks of a shard.
pub(super) fn run(
    ledger: &Ledger,
    names: &[String],
    which: Which,
    bench: &mut Bench,
    (shard, folder): (Shard, &Path),
) -> Outcome {
    weirgate_campaign::saved::can_write_folder(folder)?;
    let experiments = swept(ledger, names, which, bench)?;
    let done = Sweep::new(&experiments).run(bench, shard, folder)?;
    let folder = folder.display();
    output::data(&format!(
        "shard {shard}: {} runs, {} of them were in {folder}",
        done.runs, done.there
    ))?;
    if done.failed > 0 {
        return Err(anyhow::anyhow!("{} runs of shard {shard} failed", done.failed).into());
    }
    Ok(Status::Done)
}

/// Merges shards, for `accept` and for comparisons.
pub(super) fn merge(
    ledger: &Ledger,
    names: &[String],
    which: Which,
    bench: &mut Bench,
    folders: &[PathBuf],
) -> Result<(), Failure> {
    let experiments = swept(ledger, names, which, bench)?;
    for (experiment, measurement) in Sweep::new(&experiments).merge(folders)? {
        bench.keep(&experiment, &measurement)?;
    }
    Ok(())
}

/// Returns the experiments that `results run` would run.
fn swept(
    ledger: &Ledger,
    names: &[String],
    which: Which,
    bench: &mut Bench,
) -> Result<Vec<Swept>, Failure> {
    let mut swept = Vec::new();
    for name in chosen(ledger, names)? {
        let changed = which == Which::Changed;
        if changed && names.is_empty() && ledger.stored(&name)?.is_none() {
            continue;
        }
        let one = Beside::read(ledger, &name, bench)?;
        if !(changed && one.unchanged()) {
            let Beside {
                subject, made_with, ..
            } = one;
            swept.push(Swept { subject, made_with });
        }
    }
    Ok(swept)
}
