// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The project's tasks behind the Makefile: set-up, checks, tests, benchmarks, fuzzing.
//!
//! Users of weirgate need none of this.

mod aqm;
mod bench;
mod bursts;
mod campaign;
mod command;
mod deb;
mod dependencies;
mod docs;
mod ds_table;
mod faults;
mod files;
mod fuzz;
mod invariants;
mod kernels;
mod manifests;
mod musl;
mod mutants;
mod packages;
mod release;
mod rfc7928;
mod setup;
mod sweep;
mod test;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use test::binaries::Extent;

#[derive(Parser)]
#[command(about = "Tasks of the weirgate project")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what building and the lab need; without root, report what is missing.
    Setup,
    /// Check dependencies, purity, unsafe, licences; find import cycles, duplicated lines, and
    /// files and sentences that are too long.
    Invariants,
    /// Build, check and test, except for the long tests; print how long each part takes.
    Test,
    /// Build, check and run every test, the long ones too; then compare explain with this kernel.
    TestAll,
    /// Run only the tests of `test`, side by side.
    Binaries {
        /// Run only tests with this text in their name; may be repeated.
        #[arg(long)]
        only: Vec<String>,
    },
    /// Check formatting, lints, invariants, and licences of dependencies.
    Check,
    /// Measure the lab's speed, boot and memory against their goals, on a quiet machine.
    Bench,
    /// Measure `check` and `apply` of a large policy against their goals, without the lab.
    BenchPolicy,
    /// Measure size, `check` and an idle `keep` of the router's program, as root.
    BenchRouter,
    /// Find the functions that `keep` calls, and write the list by which the linker groups them, as
    /// root; needs gdb.
    KeepOrder,
    /// Measure the cost of `weirgate watch` with 300 hosts, as root.
    BenchWatch {
        /// Send and receive in the router's namespace.
        #[arg(long, hide = true)]
        inside: bool,
        /// Receive and answer in the namespace of the hosts.
        #[arg(long, hide = true)]
        hosts: bool,
        /// Print the number of series in the router's namespace.
        #[arg(long, hide = true)]
        series: bool,
    },
    /// Build the Debian packages.
    Deb,
    /// Build the router's program as one file that needs no library, as root.
    Static(musl::Arguments),
    /// Make all release files that can be made here, in one folder.
    Release(release::Arguments),
    /// Upgrade and downgrade the Debian package under systemd and traffic, in a separate virtual
    /// machine, as root.
    TestPackages(packages::Arguments),
    /// Check the manifests for Kubernetes against its schemas; needs kubernetes-validate (PyPI).
    Manifests,
    /// Run a sweep of short runs on a Slurm cluster of two nodes, kill one, and compare with one
    /// process; as root.
    SweepSlurm {
        /// Seeds of each of the two arms.
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(3..=1000))]
        seeds: u16,
    },
    /// Write generated files, check every link, and build the book.
    Docs {
        /// Only compare and check; write and build nothing.
        #[arg(long)]
        check: bool,
    },
    /// Fuzz every discipline under sanitizers, after a check that a planted mistake is found.
    AqmFuzz {
        /// Seconds for each discipline.
        #[arg(long, default_value_t = 60)]
        seconds: u32,
    },
    /// Compare explain and this kernel on random sequences of packets, as root.
    ExplainRandom {
        /// The number of sequences.
        #[arg(long, default_value_t = 10_000)]
        sequences: u32,
    },
    /// Compare kernel and native host on many packets of every discipline.
    AqmParity {
        /// Packets of each.
        #[arg(long, default_value_t = 1_000_000)]
        packets: u64,
    },
    /// Measure forty kinds of line in the lab with `weirgate probe`: with a cooperating end, then
    /// only by echoes.
    ProbeLines,
    /// Make the missing runs of the inbound campaign, then its page in docs.
    InboundCampaign {
        /// The folder of the runs, one file each; the default is below target.
        #[arg(long)]
        folder: Option<PathBuf>,
        /// The program with the lab.
        #[arg(long)]
        weirgate: Option<PathBuf>,
        /// Only write the page of the existing runs.
        #[arg(long)]
        page: bool,
    },
    /// Make the missing runs of lines and loads that a seed draws, with `inbound = "auto"` and
    /// cake, then their page in docs.
    InboundDrawn {
        /// The seed of the rows.
        #[arg(long)]
        seed: u64,
        /// The number of rows.
        #[arg(long, default_value_t = 30)]
        rows: u64,
        /// The folder of the runs, one file each; the default is below target.
        #[arg(long)]
        folder: Option<PathBuf>,
        /// The program with the lab.
        #[arg(long)]
        weirgate: Option<PathBuf>,
        /// Only write the page of the existing runs.
        #[arg(long)]
        page: bool,
    },
    /// Make the missing runs of the README's promises on every kernel that the lab fetches, then
    /// their page in docs.
    Kernels {
        /// The folder of the runs, one file each; the default is below target.
        #[arg(long)]
        folder: Option<PathBuf>,
        /// Only write the page of the existing runs.
        #[arg(long)]
        page: bool,
    },
    /// Make the missing runs of RFC 7928's scenarios, of every discipline, then their page in docs.
    Rfc7928 {
        /// The folder of the runs, one file each; the default is below target.
        #[arg(long)]
        folder: Option<PathBuf>,
        /// Only write the page of the existing runs.
        #[arg(long)]
        page: bool,
    },
    /// Print the DiffServ experiments' table of thesis, theory and measurement.
    DsTable {
        /// The folder of outcomes: the output of `weirgate lab run FILE --json`, as files with the
        /// extension `json`.
        folder: PathBuf,
        /// Report lines that this document lacks: `docs/measurements/diffserv.md`.
        #[arg(long)]
        check: Option<PathBuf>,
    },
    /// Calculate the additional capacity of a queue that does not distinguish mice from elephants.
    Bursts {
        /// Flows of each run.
        #[arg(long, default_value_t = 200_000)]
        flows: usize,
        /// Runs.
        #[arg(long, default_value_t = 5)]
        seeds: u64,
    },
    /// Load and unload a discipline a thousand times under traffic.
    AqmCycles,
    /// Put planted faults into a copy of the sources, one by one; report which test sees each.
    Faults {
        /// Try only faults with this text in their name, or of this area; may be repeated.
        #[arg(long)]
        only: Vec<String>,
    },
    /// Change crates of the product a little, again and again; report the changes that no test of
    /// the crate detects.
    Mutants {
        /// Only this crate, such as `units`; may be repeated.
        #[arg(long = "crate", value_name = "NAME")]
        only: Vec<String>,
    },
    /// Check that each fuzz target finds a planted mistake, then run it for the given time.
    Fuzz(fuzz::Arguments),
}

#[allow(clippy::print_stderr, reason = "a task's messages go to the terminal")]
fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Setup => setup::run().and_then(|()| dependencies::fetch(&root())),
        Task::Invariants => invariants::run(&root()),
        Task::Binaries { only } => test::some(&root(), &only),
        Task::Test => test::tests(&root(), Extent::Short),
        Task::TestAll => test::all(&root()),
        Task::Check => test::checks(&root()),
        Task::Bench => bench::run_all(&root()),
        Task::BenchPolicy => bench::run_policy(&root()),
        Task::BenchRouter => bench::run_router(&root()),
        Task::KeepOrder => bench::keep_order::write(&root()),
        Task::BenchWatch { inside: true, .. } => bench::traffic::router(),
        Task::BenchWatch { hosts: true, .. } => bench::traffic::hosts(),
        Task::BenchWatch { series: true, .. } => bench::watch::series(),
        Task::BenchWatch { .. } => bench::run_watch(&root()),
        Task::Deb => deb::build(&root()).map(|_| ()),
        Task::Static(arguments) => musl::build(&root(), &arguments),
        Task::Release(arguments) => release::make(&root(), &arguments),
        Task::TestPackages(arguments) => packages::test(&root(), &arguments),
        Task::Manifests => manifests::check(&root()),
        Task::SweepSlurm { seeds } => sweep::run(&root(), seeds),
        Task::Docs { check: true } => docs::check(&root()),
        Task::Docs { check: false } => docs::build(&root()),
        Task::AqmFuzz { seconds } => aqm::fuzz(&root(), seconds),
        Task::ExplainRandom { sequences } => test::explain_random(&root(), sequences),
        Task::AqmParity { packets } => aqm::parity(&root(), packets),
        Task::ProbeLines => test::probe_lines(&root()),
        Task::InboundCampaign {
            folder,
            weirgate,
            page,
        } => campaign::run(&root(), folder.as_deref(), weirgate.as_deref(), page),
        Task::InboundDrawn {
            seed,
            rows,
            folder,
            weirgate,
            page,
        } => {
            let (folder, weirgate) = (folder.as_deref(), weirgate.as_deref());
            campaign::random(&root(), (seed, rows), folder, weirgate, page)
        }
        Task::Kernels { folder, page } => kernels::run(&root(), folder.as_deref(), page),
        Task::Rfc7928 { folder, page } => rfc7928::run(&root(), folder.as_deref(), page),
        Task::DsTable { folder, check } => ds_table::run(&root(), &folder, check.as_deref()),
        Task::Bursts { flows, seeds } => {
            bursts::run(flows, seeds);
            Ok(())
        }
        Task::AqmCycles => aqm::cycles(&root()),
        Task::Faults { only } => faults::run(&root(), &only),
        Task::Mutants { only } => mutants::run(&root(), &only),
        Task::Fuzz(arguments) => fuzz::all(&root(), &arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the workspace's root: two folders above this crate.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .map_or_else(PathBuf::new, Path::to_owned)
}
