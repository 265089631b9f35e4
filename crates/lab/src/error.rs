// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of virtual machines, reported so that the user can act on them.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;
use weirgate_experiment::{EnvelopeError, KernelName};

/// Occurs when a virtual machine cannot be prepared, or its run fails.
#[derive(Debug, Error)]
pub enum LabError {
    /// Occurs when no guest kernel is found.
    #[error(
        "no guest kernel found; looked at {}\n  `weirgate lab prepare` fetches one, `--kernel PATH` names one",
        join(.looked)
    )]
    NoKernel {
        /// The paths that were searched.
        looked: Vec<PathBuf>,
    },
    /// Occurs when a kernel is named that has not been fetched.
    #[error(
        "the kernel `{}` has not been fetched\n  run: weirgate lab prepare --kernel {}",
        name.word(), name.word()
    )]
    NotFetched {
        /// The kernel.
        name: KernelName,
    },
    /// Occurs when a kernel file is not a complete x86-64 Linux kernel.
    #[error(
        "{}: not a usable kernel: {reason}\n  expected a complete x86-64 bzImage; `weirgate lab prepare --refresh` fetches one",
        path.display()
    )]
    BadKernel {
        /// The file.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
    /// Occurs when a kernel's modules are not found.
    #[error(
        "kernel {version}: its modules are missing; looked at {}\n  `weirgate lab prepare` fetches a kernel with its modules",
        join(.looked)
    )]
    NoModules {
        /// The kernel's release.
        version: String,
        /// The paths that were searched.
        looked: Vec<PathBuf>,
    },
    /// Occurs when a module file cannot be read as a module.
    #[error("{}: not a usable kernel module: {reason}", path.display())]
    BadModule {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Occurs when a tool of the host is missing.
    #[error("{program} is not installed ({purpose})\n  run: {install}")]
    NoTool {
        /// The program.
        program: &'static str,
        /// Why it is needed.
        purpose: &'static str,
        /// The command that installs it.
        install: &'static str,
    },
    /// Occurs when the guest's own binary is missing.
    #[error(
        "the guest binary is missing; looked at {}\n  run: cargo build --release --workspace --bin \
         weirgate-guest",
        join(.looked)
    )]
    NoGuest {
        /// The paths that were searched.
        looked: Vec<PathBuf>,
    },
    /// Occurs when a program that the experiment names is not on this machine.
    #[error("the experiment needs the program `{name}`, which is not on this machine's PATH")]
    NoProgram {
        /// The program.
        name: String,
    },
    /// Occurs when a program cannot be packed into the guest's image.
    #[error("{}: cannot be packed for the guest: {reason}", path.display())]
    BadProgram {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// Occurs when the machine's package sources cannot give what the lab needs.
    #[error("cannot fetch what the lab needs: {reason}")]
    Fetch {
        /// The reason, with a hint.
        reason: String,
    },
    /// Occurs when a host command fails.
    #[error("`{command}` failed ({status}){}", indent(.output))]
    Command {
        /// The command line.
        command: String,
        /// How it ended.
        status: String,
        /// The end of its output.
        output: String,
    },
    /// Occurs when a file of the host cannot be read or written.
    #[error("{}: {action}: {source}", path.display())]
    File {
        /// The operation that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Occurs when the host refuses something that is not about one file.
    #[error("{action}: {source}")]
    Host {
        /// The operation that failed.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// Occurs when the guest is given less memory than it needs to start.
    #[error("the guest cannot start in {given} MiB of memory; this kernel and image need {needed}")]
    Memory {
        /// The available MiB.
        given: u32,
        /// The required MiB.
        needed: u64,
    },
    /// The job cannot be serialised.
    #[error("the job cannot be encoded: {0}")]
    Job(#[from] serde_json::Error),
    /// Occurs when a run goes wrong inside the virtual machine.
    #[error("arm `{arm}`: {failure}{}", tail(.console))]
    Run {
        /// The arm.
        arm: String,
        /// What happened.
        failure: Failure,
        /// The console's last lines.
        console: Vec<String>,
    },
}

/// How a virtual machine failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Failure {
    /// Occurs when the guest's agent reports an error.
    #[error("the guest reports: {0}")]
    Guest(String),
    /// Occurs when the guest's kernel panics.
    #[error("the guest's kernel panicked: {0}")]
    Panic(String),
    /// Occurs when the wall-time limit is reached.
    #[error("the guest was stopped at its limit of {} s wall time", .limit.as_secs_f64())]
    Hang {
        /// The limit.
        limit: Duration,
    },
    /// The console output exceeds the limit.
    #[error("the guest was stopped after {limit} bytes on its console")]
    Flood {
        /// The limit in bytes.
        limit: usize,
    },
    /// Occurs when the virtual machine ends before the guest is done.
    #[error("the virtual machine ended early ({status}){}", indent(.emulator))]
    Ended {
        /// How qemu ended.
        status: String,
        /// The output of qemu itself.
        emulator: String,
    },
    /// The guest reports success, but its result is incomplete.
    #[error("the guest's result is not whole: {0}")]
    Result(#[from] EnvelopeError),
}

impl LabError {
    /// Returns a function for `map_err`, for an operation on one file.
    pub(crate) fn file<'path>(
        action: &'static str,
        path: &'path Path,
    ) -> impl FnOnce(io::Error) -> Self + 'path {
        move |source| Self::File {
            action,
            path: path.to_owned(),
            source,
        }
    }

    /// Returns a function for `map_err`, for a system call without a file.
    pub(crate) fn host<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Host {
            action,
            source: source.into(),
        }
    }
}

fn join(paths: &[PathBuf]) -> String {
    let shown: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    shown.join(", ")
}

/// Formats text on separate, indented lines, or nothing.
fn indent(text: &str) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| {
        for line in text.trim_end().lines() {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    })
}

fn tail(lines: &[String]) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| {
        if lines.is_empty() {
            return write!(f, "\n  its console stayed empty");
        }
        write!(f, "\n  the last lines of its console:")?;
        for line in lines {
            write!(f, "\n  | {line}")?;
        }
        Ok(())
    })
}
