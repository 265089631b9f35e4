// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate domain`: several routers as one DiffServ domain.

use crate::whole::handed::{self, Handed};
use clap::Subcommand;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weirgate_console::exit::{Outcome, Status};
use weirgate_console::output;
use weirgate_console::time;
use weirgate_domain::Report;
use weirgate_rollout::ssh::Ssh;
use weirgate_rollout::{apply, circuits, end, read, verify, whole, within};
use weirgate_units::Rate;

/// What can be done with a domain.
#[derive(Subcommand)]
pub enum Command {
    /// Say what every port carries, how long every service takes at worst, and who has which circuits.
    ///
    /// Exit status 1 if something that is promised cannot be kept; then with the smallest changes
    /// that would each be enough.
    Check {
        /// The domain file.
        domain: PathBuf,
        /// Derive each service's worst case, port by port.
        #[arg(long)]
        details: bool,
    },
    /// Ask each router, over ssh, what its policy and circuits would change there.
    ///
    /// Changes nothing. Exit status 1 if something would change.
    Plan {
        /// The domain file.
        domain: PathBuf,
        #[command(flatten)]
        ssh: Ssh,
    },
    /// Apply each router's policy and circuits over ssh: on all of them, or on none.
    ///
    /// Each router returns by itself unless it is confirmed, and is confirmed when all have
    /// theirs. Exit status 3 if one failed and all others are as they were, 4 if some could not
    /// be told to return.
    Apply {
        /// The domain file.
        domain: PathBuf,
        /// Write them into this folder, files for each router, and change nothing.
        #[arg(long, value_name = "FOLDER", conflicts_with_all = ["confirm", "adopt", "ssh", "remote"])]
        files: Option<PathBuf>,
        /// After which time a router returns that is not confirmed.
        #[arg(long, value_name = "TIME", value_parser = time::duration, default_value = "60s")]
        confirm: Duration,
        /// Replace root qdiscs that weirgate did not make.
        #[arg(long)]
        adopt: bool,
        #[command(flatten)]
        ssh: Ssh,
    },
    /// Measure what was promised, from end to end, and say what is kept.
    ///
    /// Sends each service's traffic, as much as was promised, from its customer's machine to the
    /// other's (their `host` and `address` in the domain file), all at once, and asks each router
    /// whether its policy and circuits are as planned. Exit status 1 if something is broken or could not be measured.
    Verify {
        /// The domain file.
        domain: PathBuf,
        /// For how long the traffic is sent.
        #[arg(long, value_name = "TIME", value_parser = time::duration, default_value = "5s")]
        time: Duration,
        /// Send best-effort traffic of this rate beside, between the same customers.
        #[arg(long, value_name = "RATE")]
        beside: Option<Rate>,
        /// Measure only; do not ask the routers.
        #[arg(long)]
        measure_only: bool,
        /// Where it is remembered since when each promise is kept or broken.
        ///
        /// Without it, a file beside the domain file that ends in `.verified.json`.
        #[arg(long, value_name = "FILE")]
        record: Option<PathBuf>,
        #[command(flatten)]
        ssh: Ssh,
    },
    /// Try the domain in a virtual machine: apply it there and measure what was promised.
    ///
    /// Done by `weirgate-lab`.
    Try(Handed),
    /// A program in a network namespace of this machine: what `try` has in place of ssh.
    #[command(hide = true)]
    Within {
        space: String,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        program: Vec<OsString>,
    },
    /// One end of a measurement; started by `verify`.
    #[command(hide = true)]
    End,
}

/// Runs one of them.
pub fn run(command: &Command) -> Outcome {
    match command {
        Command::Check { domain, details } => check(domain, *details),
        Command::Plan { domain, ssh } => {
            let Some((domain, _, parts)) = whole(domain)? else {
                return Ok(Status::Differs);
            };
            apply::plan(&domain, &parts, ssh)
        }
        Command::Apply {
            domain,
            files,
            confirm,
            adopt,
            ssh,
        } => {
            let Some((domain, _, parts)) = whole(domain)? else {
                return Ok(Status::Differs);
            };
            match files {
                Some(folder) => apply::write(&parts, folder),
                None => apply::apply(&domain, &parts, ssh, *confirm, *adopt),
            }
        }
        Command::Verify {
            domain: path,
            time,
            beside,
            measure_only,
            record,
            ssh,
        } => {
            let Some((domain, check, parts)) = whole(path)? else {
                return Ok(Status::Differs);
            };
            let own = verify::record::beside(path);
            let settings = verify::Settings {
                time: *time,
                beside: *beside,
                ask: !measure_only,
                record: record.as_ref().unwrap_or(&own),
            };
            verify::run(&domain, &check, &parts, ssh, &settings)
        }
        Command::Try(_) => handed::over(),
        Command::Within { space, program } => within::run(space, program),
        Command::End => end::run(),
    }
}

fn check(path: &Path, details: bool) -> Outcome {
    let (domain, check, text) = read(path)?;
    let report = Report {
        domain: &domain,
        check: &check,
        details,
    };
    let lists = circuits::lists(path, &text, &domain)?;
    output::text(&report.to_string())?;
    lists.show()?;
    Ok(if check.findings.is_empty() {
        Status::Done
    } else {
        Status::Differs
    })
}
