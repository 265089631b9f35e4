// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares weirgate with what others wrote: so far, the kit's disciplines with the
//! kernel's own.
//!
//! What others wrote is fetched, or read where the user points to. None of it is in
//! this repository, and nothing here is installed.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program whose output is a report"
)]

mod decisions;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use weirgate_lab::{Cache, source};

#[derive(Parser)]
#[command(about = "Comparisons with what others wrote")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Have the kernel's disciplines and the kit's decide about the same packets.
    Decisions {
        /// Decisions of each discipline.
        #[arg(long, default_value_t = 1_000_000)]
        decisions: u64,
        /// Where the random numbers of the traffic begin.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// An unpacked kernel; Debian's is fetched unless given.
        #[arg(long)]
        source: Option<PathBuf>,
        /// One discipline alone.
        #[arg(long)]
        only: Option<String>,
    },
}

fn main() -> Result<()> {
    let Task::Decisions {
        decisions,
        seed,
        source: given,
        only,
    } = Arguments::parse().task;
    let tree = match given {
        Some(tree) => tree,
        None => source(&Cache::of_user(), &mut |note| eprintln!("{note}"))?,
    };
    decisions::compare(&tree, decisions, seed, only.as_deref())
}
