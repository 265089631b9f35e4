// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `weirgate-lab` command: the laboratory, its reports and advice, and the
//! workshop for disciplines.
//!
//! `weirgate` runs this program for its commands of the same names.

mod advise;
mod aqm;
mod domain;
mod lab;
mod lines;
mod prague;
mod reference;
mod results;
mod sequence;
mod trial;

use clap::{CommandFactory as _, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use weirgate_console::exit;
use weirgate_console::reference::About;

/// Measures policies and disciplines in a laboratory, on stock kernels.
#[derive(Parser)]
#[command(name = "weirgate-lab", version, about, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show what weirgate does: an emulated line, before and after.
    ///
    /// Needs no root and changes nothing on this machine. Exit status 1 if a figure is not as
    /// expected and no other measured figure explains it.
    Try(trial::Arguments),
    /// Run experiments in the laboratory.
    Lab {
        #[command(subcommand)]
        command: lab::Command,
    },
    /// The ledger: the measured figures of every experiment, and what has changed since.
    Results {
        #[command(subcommand)]
        command: results::Command,
    },
    /// Compare settings for a link in the laboratory, and print the policy of the best.
    ///
    /// Contacts nobody, changes nothing and needs no root. Every setting runs in a virtual machine
    /// with the same traffic. Exit status 1 if no setting fulfils the request.
    Advise(advise::Arguments),
    /// Make the report of saved results.
    Report {
        /// Folders that `lab run --out` wrote.
        #[arg(required = true)]
        folders: Vec<PathBuf>,
        /// The HTML file to write.
        #[arg(long, default_value = "report.html")]
        output: PathBuf,
    },
    /// Write, test and measure queueing disciplines, each of one C source.
    Aqm {
        #[command(subcommand)]
        command: aqm::Command,
    },
    /// TCP Prague, the laboratory's sender for L4S, on this machine.
    Prague {
        #[command(subcommand)]
        command: prague::Command,
    },
    /// A DiffServ domain in the laboratory.
    Domain {
        #[command(subcommand)]
        command: domain::Command,
    },
    /// Play a laboratory experiment between this machine and a real host.
    Probe(sequence::Arguments),
    #[command(flatten)]
    About(About),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return exit::usage(&error),
    };
    let outcome = match arguments.command {
        Command::Try(arguments) => trial::run(&arguments),
        Command::Lab { command } => lab::run(command),
        Command::Results { command } => results::run(command),
        Command::Advise(arguments) => advise::run(arguments),
        Command::Report { folders, output } => lab::report(&folders, &output),
        Command::Aqm { command } => aqm::run(&command),
        Command::Prague { command } => prague::run(&command),
        Command::Domain { command } => domain::run(&command),
        Command::Probe(arguments) => sequence::run(&arguments),
        Command::About(about) => about.run(Arguments::command(), reference::pages),
    };
    exit::code(outcome)
}
