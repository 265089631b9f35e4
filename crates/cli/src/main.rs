// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `weirgate` command: arguments, files, terminal and exit codes.
//!
//! Everything else is in the libraries; each subcommand has a module here that
//! reads files, calls them and prints.

mod campaign;
mod exit;
mod here;
mod lab;
mod output;
mod policy;
mod progress;
mod result;
mod saved;
mod source;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Keeps the queue of a shared link under control, and proves it.
#[derive(Parser)]
#[command(name = "weirgate", version, about, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check a policy; say what it promises to each class and what the link layer costs.
    Check {
        /// The policy file.
        policy: PathBuf,
    },
    /// Run experiments in the laboratory.
    Lab {
        #[command(subcommand)]
        command: lab::Command,
    },
    /// Draw the report of saved results.
    Report {
        /// Folders that `lab run --out` wrote.
        #[arg(required = true)]
        folders: Vec<PathBuf>,
        /// The HTML file to write.
        #[arg(long, default_value = "report.html")]
        output: PathBuf,
    },
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return exit::usage(&error),
    };
    let outcome = match arguments.command {
        Command::Check { policy } => policy::check(&policy),
        Command::Lab { command } => lab::run(command),
        Command::Report { folders, output } => lab::report(&folders, &output),
    };
    exit::code(outcome)
}
