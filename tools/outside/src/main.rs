// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares weirgate with other projects: the kit's disciplines with the kernel's own, and the
//! kernel's suites for tc and TCP with and without weirgate. Also soaks weirgate for hours.
//!
//! Other projects' files are fetched, or read from a given path. None are in this repository, and
//! none are installed.

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
    /// Compare the decisions of the kernel's disciplines and the kit's about the same packets.
    Decisions {
        /// The number of decisions of each discipline.
        #[arg(long, default_value_t = 1_000_000)]
        decisions: u64,
        /// The seed of the traffic.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// An unpacked kernel; by default, Debian's is fetched.
        #[arg(long)]
        source: Option<PathBuf>,
        /// Only one discipline or case, such as `pie`; twice, one case of a discipline.
        #[arg(long)]
        only: Vec<String>,
        /// The page whose table is rewritten; without it, the table is printed.
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
        /// An unpacked kernel; by default, Debian's is fetched.
        #[arg(long)]
        source: Option<PathBuf>,
        /// The page whose section is rewritten; without it, the section is printed.
        #[arg(long)]
        page: Option<PathBuf>,
    },
    /// Run packetdrill's TCP scripts without and with weirgate.
    Scripts {
        #[command(flatten)]
        suite: Suite,
        /// A checkout of packetdrill, which is built there.
        #[arg(long)]
        packetdrill: PathBuf,
    },
    /// Run the kernel's forwarding tests of qdiscs with weirgate instead of the qdiscs.
    Forwarding {
        #[command(flatten)]
        suite: Suite,
    },
    /// Measure the same loads with irtt and flent as with weirgate's own generators.
    Generators {
        /// Only loads whose title contains this, such as `rrul`.
        #[arg(long, default_value = "")]
        only: String,
        /// The page whose section is rewritten; without it, the section is printed.
        #[arg(long)]
        page: Option<PathBuf>,
    },
    /// Run every command in turn for hours while a policy is in force, with faults in between.
    Soak {
        /// The number of runs, each in a separate machine; completed runs are not repeated.
        #[arg(long, default_value_t = 12)]
        runs: u64,
        /// The virtual seconds of each run.
        #[arg(long, default_value_t = 7_200)]
        seconds: u64,
        /// The page whose section is rewritten; without it, the section is printed.
        #[arg(long)]
        page: Option<PathBuf>,
    },
    /// The part in the laboratory's machine.
    #[command(hide = true)]
    Inside {
        #[command(subcommand)]
        what: Inside,
    },
}

/// A suite in the kernel's source.
#[derive(clap::Args)]
struct Suite {
    /// An unpacked kernel; by default, Debian's is fetched.
    #[arg(long)]
    source: Option<PathBuf>,
    /// Only files whose name contains this, such as `qdiscs/red`.
    #[arg(long, default_value = "")]
    only: String,
    /// After this time, no new part begins; the next run continues.
    #[arg(long)]
    seconds: Option<u64>,
    /// The page whose section is rewritten; without it, the section is printed.
    #[arg(long)]
    page: Option<PathBuf>,
}

impl Suite {
    /// Returns the time after which no new part begins.
    fn until(&self) -> Option<Instant> {
        let seconds = self.seconds?;
        Instant::now().checked_add(Duration::from_secs(seconds))
    }

    /// Writes a section of the page, or prints it; `suite` describes the run.
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
    /// The cases of tc-testing's files.
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
            let (text, wrong) = soak::soak(&root, runs, seconds)?;
            show(page.as_deref(), "soak", &text)?;
            ensure!(wrong == 0, "{wrong} faults and leaks");
            Ok(())
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

/// Returns the kernel's source: the given one, or Debian's.
fn tree(given: Option<PathBuf>) -> Result<PathBuf> {
    match given {
        Some(tree) => Ok(tree),
        None => Ok(source(&Cache::of_user(), &mut |note| eprintln!("{note}"))?),
    }
}
