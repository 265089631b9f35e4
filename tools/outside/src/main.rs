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
mod tdc;

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
    /// Apply a policy over the states of tc-testing's cases, and remove it.
    States {
        /// An unpacked kernel; Debian's is fetched unless given.
        #[arg(long)]
        source: Option<PathBuf>,
        /// Files whose name has this alone, such as `qdiscs/red`.
        #[arg(long, default_value = "")]
        only: String,
        /// Where to write what became of each case, as JSON.
        #[arg(long)]
        json: Option<PathBuf>,
    },
    /// What runs in the laboratory's machine.
    #[command(hide = true)]
    Inside {
        #[command(subcommand)]
        what: Inside,
    },
}

#[derive(Subcommand)]
enum Inside {
    /// The cases of a file of tc-testing.
    Tdc,
}

fn main() -> Result<()> {
    match Arguments::parse().task {
        Task::Decisions {
            decisions,
            seed,
            source,
            only,
        } => decisions::compare(&tree(source)?, decisions, seed, only.as_deref()),
        Task::States { source, only, json } => {
            let files = tdc::states(&tree(source)?, &only, &mut |file| {
                for told in &file.told {
                    println!("{} {} {:?}", file.name, told.id, told.outcome);
                }
            })?;
            let _ = (files, json);
            Ok(())
        }
        Task::Inside { what: Inside::Tdc } => tdc::run(),
    }
}

/// The kernel's source: where the user says, or Debian's.
fn tree(given: Option<PathBuf>) -> Result<PathBuf> {
    match given {
        Some(tree) => Ok(tree),
        None => Ok(source(&Cache::of_user(), &mut |note| eprintln!("{note}"))?),
    }
}
