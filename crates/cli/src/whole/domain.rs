// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate domain`: handles several routers as one DiffServ domain.

use crate::whole::handed::{self, Handed};
use clap::Subcommand;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weirgate_console::exit::{Outcome, Status, wrong};
use weirgate_console::json::{Document, documented};
use weirgate_console::output;
use weirgate_console::time;
use weirgate_domain::Report;
use weirgate_rollout::json::put_check;
use weirgate_rollout::ssh::Ssh;
use weirgate_rollout::{apply, audit, circuits, end, read, verify, whole, within};
use weirgate_units::Rate;

/// What can be done with a domain.
#[derive(Subcommand)]
pub enum Command {
    /// Print what every port carries, each service's worst-case delay, and who has which
    /// circuits.
    ///
    /// Exit status 1 if a promise cannot be kept; it then prints the smallest changes,
    /// each of which would be enough.
    Check {
        /// The domain file.
        domain: PathBuf,
        /// Derive each service's worst-case delay, port by port.
        #[arg(long, conflicts_with = "json")]
        details: bool,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Show what each router's policy and circuits would change there; asks over ssh.
    ///
    /// Changes nothing. Exit status 1 if something would change.
    Plan {
        /// The domain file.
        domain: PathBuf,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        ssh: Ssh,
    },
    /// Apply each router's policy and circuits over ssh, to all routers or to none.
    ///
    /// Each router undoes its change unless it is confirmed; routers are confirmed once
    /// all have applied theirs. Exit status 3 if one failed and the old state is back on
    /// all others, 4 if some could not be told to undo it.
    Apply {
        /// The domain file.
        domain: PathBuf,
        /// Write the files of each router into this folder, and change nothing.
        #[arg(long, value_name = "FOLDER", conflicts_with_all = ["confirm", "adopt", "ssh", "remote"])]
        files: Option<PathBuf>,
        /// The time after which a router that is not confirmed undoes its change.
        #[arg(long, value_name = "TIME", value_parser = time::duration, default_value = "60s")]
        confirm: Duration,
        /// Replace root qdiscs that weirgate did not make.
        #[arg(long)]
        adopt: bool,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        ssh: Ssh,
    },
    /// Measure the promises from end to end, and report which are kept.
    ///
    /// Sends the promised traffic of all services at the same time, between the
    /// customers' machines (`host` and `address` in the domain file). Asks each router
    /// whether its policy and circuits are as planned. Exit status 1 if a promise is
    /// broken or could not be measured.
    Verify {
        /// The domain file.
        domain: PathBuf,
        /// How long the traffic is sent.
        #[arg(long, value_name = "TIME", value_parser = time::duration, default_value = "5s")]
        time: Duration,
        /// Also send best-effort traffic of this rate between the same customers.
        #[arg(long, value_name = "RATE")]
        beside: Option<Rate>,
        /// Only measure; do not ask the routers.
        #[arg(long)]
        measure_only: bool,
        /// The file that stores since when each promise has been kept or broken.
        ///
        /// Without it, a file beside the domain file that ends in `.verified.json`.
        #[arg(long, value_name = "FILE")]
        record: Option<PathBuf>,
        /// The file that keeps what each verification found, for `audit`.
        ///
        /// Without it, a file beside the domain file that ends in `.audits.json`.
        #[arg(long, value_name = "FILE")]
        history: Option<PathBuf>,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        ssh: Ssh,
    },
    /// Judge a month: availability, longest outage, and when which promises were broken.
    ///
    /// Reads what `verify` found, and contacts nobody. Exit status 1 if a promise was
    /// broken, or if too little is known.
    Audit {
        /// The domain file.
        domain: PathBuf,
        /// The calendar month in UTC, such as `2026-11`; without it, the present one.
        #[arg(long, value_name = "MONTH")]
        month: Option<String>,
        /// The file that keeps what each verification found.
        ///
        /// Without it, a file beside the domain file that ends in `.audits.json`.
        #[arg(long, value_name = "FILE")]
        history: Option<PathBuf>,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Try the domain in a virtual machine: apply it there and measure its promises.
    ///
    /// Done by `weirgate-lab`.
    Try(Handed),
    /// Run a program in a network namespace of this machine; `try` uses this in place of ssh.
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

/// Runs the subcommand.
pub fn run(command: &Command) -> Outcome {
    let json = match command {
        Command::Check { json, .. }
        | Command::Plan { json, .. }
        | Command::Apply { json, .. }
        | Command::Verify { json, .. }
        | Command::Audit { json, .. } => *json,
        Command::Try(_) | Command::Within { .. } | Command::End => false,
    };
    documented(json, |document| answer(command, document))
}

fn answer(command: &Command, document: &Document) -> Outcome {
    match command {
        Command::Check {
            domain, details, ..
        } => check(domain, *details, document),
        Command::Plan { domain, ssh, .. } => {
            let Some((domain, _, parts)) = whole(domain, document)? else {
                return Ok(Status::Differs);
            };
            apply::plan(&domain, &parts, ssh, document)
        }
        Command::Apply {
            domain,
            files,
            confirm,
            adopt,
            ssh,
            ..
        } => {
            let Some((domain, _, parts)) = whole(domain, document)? else {
                return Ok(Status::Differs);
            };
            match files {
                Some(folder) => apply::write(&parts, folder, document),
                None => apply::apply(&domain, &parts, ssh, (*confirm, *adopt), document),
            }
        }
        Command::Verify {
            domain: path,
            time,
            beside,
            measure_only,
            record,
            history,
            ssh,
            ..
        } => {
            let Some((domain, check, parts)) = whole(path, document)? else {
                return Ok(Status::Differs);
            };
            let own = verify::record::beside(path);
            let audits = audit::beside(path);
            let settings = verify::Settings {
                time: *time,
                beside: *beside,
                ask: !measure_only,
                record: record.as_ref().unwrap_or(&own),
                history: Some(history.as_ref().unwrap_or(&audits)),
            };
            verify::run(&domain, &check, &parts, ssh, &settings, document)
        }
        Command::Audit {
            domain,
            month,
            history,
            ..
        } => audit(domain, month.as_deref(), history.as_deref(), document),
        Command::Try(_) => handed::over(),
        Command::Within { space, program } => within::run(space, program),
        Command::End => end::run(),
    }
}

fn audit(path: &Path, month: Option<&str>, history: Option<&Path>, document: &Document) -> Outcome {
    let (domain, _, _) = read(path)?;
    let now = time::now();
    let present = time::month_of(now);
    let name = month.unwrap_or(&present);
    let month = time::month(name).map_err(|right| wrong(format_args!("`{name}`: {right}")))?;
    if month.start >= now {
        return Err(wrong(format_args!("`{name}` has not begun")));
    }
    let beside = audit::beside(path);
    let history = history.unwrap_or(&beside);
    audit::run(&domain, history, (name, &month), now, document)
}

fn check(path: &Path, details: bool, document: &Document) -> Outcome {
    let (domain, check, text) = read(path)?;
    let report = Report {
        domain: &domain,
        check: &check,
        details,
    };
    let lists = circuits::lists(path, &text, &domain)?;
    put_check(document, &domain, &check);
    if !document.is_wanted() {
        output::text(&report.to_string())?;
    }
    lists.show(document)?;
    Ok(if check.findings.is_empty() {
        Status::Done
    } else {
        Status::Differs
    })
}
