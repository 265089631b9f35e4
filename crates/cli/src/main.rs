// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `weirgate` command: arguments, files, terminal and exit codes.
//!
//! Everything else is in the libraries; each subcommand has a module here that
//! reads files, calls them and prints.

mod campaign;
mod exit;
mod here;
mod keeping;
mod lab;
mod memory;
mod output;
mod policy;
mod progress;
mod promises;
mod reference;
mod result;
mod saved;
mod shape;
mod source;
mod trial;

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
    /// Show what weirgate does: an emulated ADSL line, before and after.
    ///
    /// Needs no root and changes nothing on this machine.
    Try(trial::Arguments),
    /// Check a policy; say what it promises to each class and what the link layer costs.
    Check {
        /// The policy file.
        policy: PathBuf,
    },
    /// Show what applying a policy would change in the kernel.
    ///
    /// Needs CAP_NET_ADMIN to read the kernel's state.
    Plan {
        /// The policy file.
        policy: PathBuf,
        /// Plan as if a root qdisc that weirgate did not make may be replaced.
        #[arg(long)]
        replace: bool,
    },
    /// Apply a policy and read it back.
    ///
    /// Needs CAP_NET_ADMIN. What was there before is kept for `remove`.
    Apply {
        /// The policy file.
        policy: PathBuf,
        /// Replace a root qdisc that weirgate did not make; warns if it could not be restored.
        #[arg(long)]
        replace: bool,
    },
    /// Remove what a policy applied, without trace.
    ///
    /// Needs CAP_NET_ADMIN.
    Remove,
    /// Show what weirgate has applied, as the kernel has it now.
    ///
    /// Needs CAP_NET_ADMIN to read the kernel's state.
    Show,
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
    /// Write the reference and the manual pages into a folder.
    #[command(hide = true)]
    Reference {
        /// The folder.
        folder: PathBuf,
        /// Write nothing; exit status 1 if a file there differs.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return exit::usage(&error),
    };
    let outcome = match arguments.command {
        Command::Try(arguments) => trial::run(&arguments),
        Command::Check { policy } => policy::check(&policy),
        Command::Plan { policy, replace } => shape::plan(&policy, replace),
        Command::Apply { policy, replace } => shape::apply(&policy, replace),
        Command::Remove => shape::remove(),
        Command::Show => shape::show(),
        Command::Lab { command } => lab::run(command),
        Command::Reference { folder, check } => reference::run(&folder, check),
        Command::Report { folders, output } => lab::report(&folders, &output),
    };
    exit::code(outcome)
}
