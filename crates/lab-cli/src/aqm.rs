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
    /// Begin a discipline of one's own: a commented source and a scripted test.
    New {
        /// Its name: up to 10 small letters, digits and underscores.
        name: String,
        /// The folder to make; NAME here where none is given.
        folder: Option<PathBuf>,
    },
    /// Run a discipline as an ordinary program under sanitizers: its scripts, then traffic.
    Test {
        /// Its folder or file, or the name of one of the kit.
        discipline: PathBuf,
        /// Traffic of this recording, in place of some made up.
        #[arg(long, value_name = "FILE")]
        recording: Option<PathBuf>,
        /// The rate at which packets leave; 1mbit without it.
        #[arg(long)]
        rate: Option<Rate>,
    },
    /// Fuzz a discipline under sanitizers, after proof that a planted mistake is found.
    Fuzz {
        /// Its folder or file, or the name of one of the kit.
        discipline: PathBuf,
        /// Seconds.
        #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
        seconds: u32,
        /// Fail if fewer branches than this are seen.
        #[arg(long, value_name = "BRANCHES")]
        floor: Option<u32>,
    },
    /// Measure what a packet costs, in instructions, in the lab's kernel.
    ///
    /// Queues are kept from being empty, sending without a qdisc is taken off, and the kernel's
    /// own disciplines are measured the same way.
    Bench {
        /// What to measure: disciplines of the kit, pfifo, red, fq_codel, sfq, cake, htb, all
        /// where none is named.
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
    /// What a packet costs in instructions, memory, times of loading and of changes, and how far
    /// circuits are from their rates.
    Circuits {
        #[command(flatten)]
        run: bench::circuits::Run,
    },
    /// Compile a discipline for the kernel and have its verifier look at it.
    ///
    /// Nothing is put on a device. On the running kernel it needs root, in the lab it does not.
    Verify {
        /// Its folder or file, the name of one of the kit, or a compiled object; without it, every
        /// program that weirgate loads, those of receiving and measuring too. Of a discipline both
        /// programs are looked at: the qdisc's and the one for arriving packets.
        discipline: Vec<PathBuf>,
        /// The lab's kernel in place of the running one.
        #[arg(long)]
        lab: bool,
        /// A kernel for the lab: cloud, generic, 6.12, 6.1, a bzImage, or a folder with
        /// `vmlinuz` in it. Several may be named.
        #[arg(long = "kernel", value_name = "KERNEL")]
        kernels: Vec<KernelChoice>,
    },
    /// Run a discipline as the queue of a bottleneck in the lab, under real TCP, beside others.
    ///
    /// Prints goodput, round trips and what was lost and marked, flow by flow. Nothing is put on a
    /// device of this machine; it needs no root.
    Try(beside::Arguments),
    /// Compile a discipline of one's own into one file, which `load` takes on machines without a
    /// compiler too.
    Build {
        /// Its folder or file.
        discipline: PathBuf,
        /// The file to write; NAME.so beside the source without it.
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Print a source of the kit, such as the reference of the seam, `aqm.h`; without a name,
    /// their names.
    Source {
        /// Its name or path: `red.c`, `aqm/include/fixed.h`.
        file: Option<String>,
    },
    /// Make a recording of a capture.
    Record {
        /// The file to write.
        file: PathBuf,
        /// Take the packets of this capture (pcap, pcapng).
        #[arg(long, value_name = "PCAP")]
        capture: PathBuf,
    },
    /// Drive a discipline, built for this machine, by a recording.
    ///
    /// With the discipline that was recorded: its verdicts are compared with those in the
    /// recording. With any other, or with --rate: packets come as recorded and leave at the rate.
    /// Exit status 1 if a verdict or the state differs.
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
        /// Where the random words of a capture begin.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

/// Runs one of them.
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
