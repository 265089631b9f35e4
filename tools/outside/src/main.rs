// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares weirgate with what others wrote: the kit's disciplines with the kernel's own,
//! and the kernel's suites for tc and TCP with weirgate in between. And it soaks weirgate
//! for hours.
//!
//! What others wrote is fetched, or read where the user points to. None of it is in
//! this repository, and nothing here is installed.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program whose output is a report"
)]

mod decisions;
mod forwarding;
mod generators;
mod kept;
mod machine;
mod packetdrill;
mod page;
mod process;
mod programs;
mod soak;
mod tdc;

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
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
        /// One discipline or case alone, such as `pie`; twice, one case of a discipline.
        #[arg(long)]
        only: Vec<String>,
        /// The page whose table is written anew; without, it is printed.
        #[arg(long)]
        page: Option<PathBuf>,
    },
    /// Apply a policy over the states of tc-testing's cases, and remove it.
    States {
        #[command(flatten)]
        suite: Suite,
    },
    /// Load the kernel's BPF qdiscs as its selftests do.
    Programs {
        /// An unpacked kernel; Debian's is fetched unless given.
        #[arg(long)]
        source: Option<PathBuf>,
        /// The page whose section is written anew; without, it is printed.
        #[arg(long)]
        page: Option<PathBuf>,
    },
    /// Run packetdrill's scripts of TCP without weirgate and with it.
    Scripts {
        #[command(flatten)]
        suite: Suite,
        /// A checkout of packetdrill, which is built there.
        #[arg(long)]
        packetdrill: PathBuf,
    },
    /// Run the kernel's forwarding tests of qdiscs with weirgate in their place.
    Forwarding {
        #[command(flatten)]
        suite: Suite,
    },
    /// Measure the same loads with irtt and flent as with weirgate's own generators.
    Generators {
        /// Loads whose title has this alone, such as `rrul`.
        #[arg(long, default_value = "")]
        only: String,
        /// The page whose section is written anew; without, it is printed.
        #[arg(long)]
        page: Option<PathBuf>,
    },
    /// Hold a policy in force for hours under every command in turn, with faults among them.
    Soak {
        /// Runs, each in a machine of its own; those that were done are not done again.
        #[arg(long, default_value_t = 12)]
        runs: u64,
        /// Virtual seconds of each.
        #[arg(long, default_value_t = 7_200)]
        seconds: u64,
        /// The page whose section is written anew; without, it is printed.
        #[arg(long)]
        page: Option<PathBuf>,
    },
    /// What runs in the laboratory's machine.
    #[command(hide = true)]
    Inside {
        #[command(subcommand)]
        what: Inside,
    },
}

/// A suite that comes with the kernel's source.
#[derive(clap::Args)]
struct Suite {
    /// An unpacked kernel; Debian's is fetched unless given.
    #[arg(long)]
    source: Option<PathBuf>,
    /// Files whose name has this alone, such as `qdiscs/red`.
    #[arg(long, default_value = "")]
    only: String,
    /// After so long nothing more is begun; the next run goes on there.
    #[arg(long)]
    seconds: Option<u64>,
    /// The page whose section is written anew; without, it is printed.
    #[arg(long)]
    page: Option<PathBuf>,
}

impl Suite {
    /// When nothing more is begun.
    fn until(&self) -> Option<Instant> {
        let seconds = self.seconds?;
        Instant::now().checked_add(Duration::from_secs(seconds))
    }

    /// Writes a section of the page, or prints it; `suite` is what was run.
    fn report(&self, name: &str, suite: &str, text: &str) -> Result<()> {
        let tree = tree(self.source.clone())?;
        let suite = format!(
            "{suite}, from the source of Linux {}.\n\n{text}",
            decisions::version(&tree)?
        );
        show(self.page.as_deref(), name, &suite)
    }
}

#[derive(Subcommand)]
enum Inside {
    /// The cases of a file of tc-testing.
    Tdc,
    /// Some of packetdrill's scripts.
    Packetdrill,
    /// The cases of BPF qdiscs.
    Programs,
    /// A part of the forwarding tests.
    Forwarding,
    /// A load of generators.
    Generators,
    /// A run of the soak.
    Soak { seed: u64, seconds: u64 },
}

fn main() -> Result<ExitCode> {
    if forwarding::called() {
        return Ok(forwarding::shim());
    }
    task(Arguments::parse().task)?;
    Ok(ExitCode::SUCCESS)
}

fn task(task: Task) -> Result<()> {
    match task {
        Task::Decisions {
            decisions,
            seed,
            source,
            only,
            page,
        } => {
            let found = decisions::compare(&tree(source)?, decisions, seed, &only)?;
            show(page.as_deref(), "decisions", &found.table)?;
            println!("{}", found.explained);
            let rest = found.unexplained.join("\n");
            ensure!(rest.is_empty(), "without an explanation:\n{rest}");
            Ok(())
        }
        Task::States { suite } => {
            let source = tree(suite.source.clone())?;
            let (files, left) = tdc::states(&source, &suite.only, suite.until())?;
            let title = format!("tc-testing with {}", tdc::version()?);
            suite.report("tc-testing", &title, &tdc::text(&files, &left))
        }
        Task::Programs { source, page } => {
            let tree = tree(source)?;
            let results = programs::loaded(&tree)?;
            let title = format!(
                "From the source of Linux {}.\n\n{}",
                decisions::version(&tree)?,
                programs::text(&results)
            );
            show(page.as_deref(), "bpf-qdisc", &title)
        }
        Task::Scripts { suite, packetdrill } => {
            let source = tree(suite.source.clone())?;
            let until = suite.until();
            let (results, left) = packetdrill::scripts(&source, &packetdrill, &suite.only, until)?;
            let of = packetdrill::version(&packetdrill)?;
            let title = format!("packetdrill {of}, with the scripts");
            suite.report("packetdrill", &title, &packetdrill::text(&results, left))
        }
        Task::Forwarding { suite } => {
            let source = tree(suite.source.clone())?;
            let (found, left) = forwarding::tests(&source, &suite.only, suite.until())?;
            let title = format!("Forwarding tests with {}", tdc::version()?);
            suite.report("forwarding", &title, &forwarding::text(&found, &left))
        }
        Task::Generators { only, page } => {
            let (found, versions) = generators::compared(&only)?;
            let text = generators::text(&found, &versions);
            show(page.as_deref(), "generators", &text)
        }
        Task::Soak {
            runs,
            seconds,
            page,
        } => {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            let text = soak::soak(&root, runs, seconds)?;
            show(page.as_deref(), "soak", &text)
        }
        Task::Inside { what: Inside::Tdc } => tdc::run(),
        Task::Inside {
            what: Inside::Soak { seed, seconds },
        } => soak::run(seed, seconds),
        Task::Inside {
            what: Inside::Packetdrill,
        } => packetdrill::run(),
        Task::Inside {
            what: Inside::Programs,
        } => programs::run(),
        Task::Inside {
            what: Inside::Forwarding,
        } => forwarding::run(),
        Task::Inside {
            what: Inside::Generators,
        } => generators::run(),
    }
}

/// Writes a section of the page, or prints it.
fn show(page: Option<&Path>, name: &str, text: &str) -> Result<()> {
    if let Some(page) = page {
        return page::write(page, name, text);
    }
    println!("{text}");
    Ok(())
}

/// The kernel's source: where the user says, or Debian's.
fn tree(given: Option<PathBuf>) -> Result<PathBuf> {
    match given {
        Some(tree) => Ok(tree),
        None => Ok(source(&Cache::of_user(), &mut |note| eprintln!("{note}"))?),
    }
}
