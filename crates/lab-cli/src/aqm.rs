// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate-lab aqm`: the workshop for disciplines.

mod beside;

use clap::Subcommand;
use std::path::PathBuf;
use weirgate_console::discipline::LinkArguments;
use weirgate_console::exit::Outcome;
use weirgate_lab::KernelChoice;
use weirgate_units::Rate;
use weirgate_workshop::{bench, capture, replay, verify, work};

/// What can be done with a discipline's source, or with recordings.
#[derive(Subcommand)]
pub enum Command {
    /// Start a discipline of your own: a commented source and a scripted test.
    New {
        /// Its name: up to 10 small letters, digits and underscores.
        name: String,
        /// The folder to create; without it, NAME in the current folder.
        folder: Option<PathBuf>,
    },
    /// Run a discipline as an ordinary program under sanitizers: its scripts, then traffic.
    Test {
        /// Its folder or file, or the name of one of the kit.
        discipline: PathBuf,
        /// Use the traffic of this recording instead of generated traffic.
        #[arg(long, value_name = "FILE")]
        recording: Option<PathBuf>,
        /// The rate at which packets leave; without it, 1mbit.
        #[arg(long)]
        rate: Option<Rate>,
    },
    /// Fuzz a discipline under sanitizers, after a check that a planted mistake is found.
    Fuzz {
        /// Its folder or file, or the name of one of the kit.
        discipline: PathBuf,
        /// Seconds.
        #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
        seconds: u32,
        /// Fail if fewer branches than this are covered.
        #[arg(long, value_name = "BRANCHES")]
        floor: Option<u32>,
    },
    /// Measure the instructions that a packet takes in the lab's kernel.
    ///
    /// Queues never run empty, and the cost of sending without a qdisc is subtracted. The kernel's
    /// own disciplines are measured in the same way.
    Bench {
        /// What to measure: disciplines of the kit, pfifo, red, fq_codel, sfq, cake, htb; without
        /// it, all.
        #[arg(value_name = "DISCIPLINE")]
        disciplines: Vec<String>,
        #[command(flatten)]
        run: bench::Run,
        /// A kernel for the lab: cloud, generic, 6.12, 6.1, a bzImage, or a folder with
        /// `vmlinuz` in it.
        #[arg(long)]
        kernel: Option<KernelChoice>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Measure here: what the lab's kernel is asked to run.
        #[arg(long, hide = true)]
        inside: bool,
    },
    /// Measure the engine with up to a million circuits, beside HTB, in the lab's kernel.
    ///
    /// It measures instructions per packet, memory, the times of loading and changes, and how far
    /// circuits are from their rates.
    Circuits {
        #[command(flatten)]
        run: bench::circuits::Run,
    },
    /// Compile a discipline for the kernel and run the kernel's verifier on it.
    ///
    /// Nothing is put on a device. The running kernel's verifier needs root, the lab's does not.
    Verify {
        /// The discipline's folder or file, its name in the kit, or a compiled object; without it,
        /// every program that weirgate loads, including those for receiving and measuring. Both
        /// programs of a discipline are verified: the qdisc and the one for arriving packets.
        discipline: Vec<PathBuf>,
        /// Use the lab's kernel instead of the running one.
        #[arg(long)]
        lab: bool,
        /// A kernel for the lab: cloud, generic, 6.12, 6.1, a bzImage, or a folder with
        /// `vmlinuz` in it. Several may be named.
        #[arg(long = "kernel", value_name = "KERNEL")]
        kernels: Vec<KernelChoice>,
    },
    /// Run a discipline as the queue of a bottleneck in the lab, under real TCP, beside others.
    ///
    /// Prints goodput, round trips, losses and marks of each flow. Puts nothing on a device of this
    /// machine, and needs no root.
    Try(beside::Arguments),
    /// Compile a discipline of your own into one file, which `load` accepts even on machines
    /// without a compiler.
    Build {
        /// Its folder or file.
        discipline: PathBuf,
        /// The file to write; without it, NAME.so beside the source.
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Print a source of the kit, such as `aqm.h`, the reference of its interface; without a name,
    /// list the names.
    Source {
        /// The name or path of a source: `red.c`, `aqm/include/fixed.h`.
        file: Option<String>,
    },
    /// Make a recording from a capture.
    Record {
        /// The file to write.
        file: PathBuf,
        /// Read the packets from this capture (pcap, pcapng).
        #[arg(long, value_name = "PCAP")]
        capture: PathBuf,
    },
    /// Run a discipline, built for this machine, on a recording.
    ///
    /// For the recorded discipline, its verdicts are compared with those in the recording. For any
    /// other, or with --rate, packets arrive as recorded and leave at the rate. Exit status 1 if a
    /// verdict or the state differs.
    Replay {
        /// The discipline.
        discipline: String,
        /// The recording.
        file: PathBuf,
        /// Parameters, as `name=value`.
        #[arg(value_name = "NAME=VALUE")]
        settings: Vec<String>,
        #[command(flatten)]
        link: LinkArguments,
        /// The seed of the random numbers for a capture.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

/// Runs a subcommand.
pub fn run(command: &Command) -> Outcome {
    match command {
        Command::New { name, folder } => work::new(name, folder.as_deref()),
        Command::Test {
            discipline,
            recording,
            rate,
        } => work::test(discipline, recording.as_deref(), *rate),
        Command::Fuzz {
            discipline,
            seconds,
            floor,
        } => work::fuzz(discipline, *seconds, *floor),
        Command::Bench {
            disciplines,
            run,
            kernel,
            json,
            inside,
        } => bench::bench(disciplines, run, kernel.as_ref(), *json, *inside),
        Command::Circuits { run } => bench::circuits::circuits(run),
        Command::Verify {
            discipline,
            lab,
            kernels,
        } => verify::verify(discipline, *lab, kernels),
        Command::Try(arguments) => beside::run(arguments),
        Command::Build { discipline, output } => work::build(discipline, output.as_deref()),
        Command::Source { file } => work::source(file.as_deref()),
        Command::Record { file, capture } => capture::record(capture, file),
        Command::Replay {
            discipline,
            file,
            settings,
            link,
            seed,
        } => replay::run(discipline, file, settings, link, *seed),
    }
}
