// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `weirgate` command, which a router installs: arguments, files, terminal and exit codes.
//!
//! The libraries do the rest. Each subcommand has a module here that reads files, calls the
//! libraries and prints. The laboratory and the workshop are in `weirgate-lab` (crate `lab-cli`);
//! `whole::handed` runs it.
//!
//! This file has the commands of a small router, which apply a policy and keep it in force. All
//! other commands are in `whole`; a build without the feature of that name leaves them out.

mod doctor;
mod keep;
mod metrics;
mod policy;
#[cfg(feature = "whole")]
mod whole;

use clap::{Parser, Subcommand};
use keep::{announce, track};
use policy::{apply, change, check, import, plan, rules, schema, show};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weirgate_console::exit::{self, Outcome};
use weirgate_console::json::documented;
use weirgate_console::policy::SITE;
use weirgate_console::time;

/// Keeps the queue of a shared link under control, and proves it.
#[derive(Parser)]
#[command(name = "weirgate", version, about, max_term_width = 100)]
// `try` and `init` come first in the help.
#[command(next_display_order = 2)]
struct Arguments {
    /// Where applied states are kept.
    #[arg(long, global = true, value_name = "FOLDER", default_value = weirgate_keep::STATE)]
    #[arg(env = "WEIRGATE_STATE_DIR", hide_env_values = true)]
    state_dir: PathBuf,
    #[command(subcommand)]
    command: Command,
}

// The commands are of several types to save memory: clap's code for a type takes 10 kB of stack for
// each command in it, and a service never gives its stack back.
#[derive(Subcommand)]
#[allow(
    clippy::large_enum_variant,
    reason = "a program has one, and takes it apart at once"
)]
enum Command {
    #[command(flatten)]
    Written(Written),
    #[command(flatten)]
    Applied(Applied),
    #[command(flatten)]
    Running(Running),
    #[cfg(feature = "whole")]
    #[command(flatten)]
    Whole(whole::Command),
}

/// What is done with policies before one is applied.
#[derive(Subcommand)]
enum Written {
    /// Check a policy; print what it promises to each class and what the link layer
    /// costs.
    Check(check::Arguments),
    /// Report what this kernel and machine offer, and what disturbs the shaping.
    ///
    /// Changes nothing and needs no privilege; without CAP_NET_ADMIN it sees less, and says so.
    /// Exit status 1 if there is a fault or a warning.
    Doctor(doctor::Arguments),
    /// Show what applying a policy would change in the kernel.
    ///
    /// Needs CAP_NET_ADMIN to read the kernel's state.
    Plan(plan::Arguments),
    /// Write a policy as a shell script of ip, tc, ethtool and nft commands.
    ///
    /// The script does not need weirgate. It names what tc cannot express.
    Export {
        /// The policy file.
        #[arg(default_value = SITE)]
        policy: PathBuf,
        /// Write OpenWrt's configuration instead: the same policy, for /etc/config/weirgate.
        #[arg(long)]
        uci: bool,
    },
    /// Print the fields of a policy as a JSON Schema, for editors.
    Schema,
    /// Make a policy from another tool's files; list what was left out.
    Import {
        #[command(subcommand)]
        from: import::From,
        /// Print one JSON document: the policy, and what was left out.
        #[arg(long, global = true)]
        json: bool,
    },
}

/// What brings a policy into force, holds it there and takes it back.
#[derive(Subcommand)]
enum Applied {
    /// Apply a policy and read it back.
    ///
    /// Needs CAP_NET_ADMIN. The previous state is stored for `remove`.
    Apply {
        /// The policy file.
        #[arg(default_value = SITE)]
        policy: PathBuf,
        /// Replace a root qdisc that weirgate did not make; warn if it could not be
        /// restored.
        #[arg(long)]
        adopt: bool,
        /// Return to the previous state after this time, unless `weirgate confirm` comes
        /// first.
        #[arg(long, value_name = "TIME", value_parser = time::duration)]
        confirm: Option<std::time::Duration>,
        /// Print one JSON document: the steps, the state's number, and when the change
        /// would be undone.
        #[arg(long)]
        json: bool,
    },
    /// Keep the change that `--confirm` made.
    Confirm {
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Undo the change that waits for confirmation, or return to an earlier state.
    ///
    /// Without a number, it returns to the state that was in force before the present one.
    Rollback {
        /// The number of a state in `weirgate history`.
        number: Option<u64>,
        /// Only undo a change that waits for confirmation; do nothing if none waits.
        #[arg(long, conflicts_with_all = ["number", "confirm"])]
        waiting: bool,
        /// Return to the present state after this time, unless `weirgate confirm` comes first.
        #[arg(long, value_name = "TIME", value_parser = time::duration)]
        confirm: Option<std::time::Duration>,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// List the applied states and their outcomes.
    History {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Apply the last confirmed state; this runs when the machine starts.
    ///
    /// Stored circuits are applied too. Devices that do not exist yet are left out. Needs
    /// CAP_NET_ADMIN.
    Boot,
    /// Keep the confirmed state in force while devices come, go and change.
    ///
    /// Runs until it is terminated; notifies systemd when it is ready. Needs
    /// CAP_NET_ADMIN.
    Keep {
        /// The group that may announce sessions besides root, by name in /etc/group or by
        /// number
        ///
        /// Needs to be in that group, or CAP_CHOWN.
        #[arg(long, value_name = "GROUP")]
        announcers: Option<keep::Group>,
    },
    /// Announce a session of high priority to `weirgate keep`, for as long as a program runs.
    ///
    /// New connections of low priority then announce a small MSS, and older ones may be
    /// reset, as `[receive.announced]` of the policy says. Without a program, the
    /// announcement lasts until SIGTERM or SIGINT. Needs permission to write to the
    /// service's socket. Exit status 1 if the program fails.
    Announce {
        /// The program and its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        program: Vec<std::ffi::OsString>,
    },
    /// Show how the gate follows a line's rate, or repeat the decisions of a record.
    ///
    /// `weirgate keep` follows the rate if the policy has a table `[track]`.
    Track {
        #[command(subcommand)]
        what: track::What,
    },
    /// Remove everything that a policy applied.
    ///
    /// Needs CAP_NET_ADMIN.
    Remove {
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
}

/// What looks at what runs, and what goes beyond one policy.
#[derive(Subcommand)]
enum Running {
    /// Show the policy in force and since when, the counters of each class, and problems.
    ///
    /// Needs CAP_NET_ADMIN to read the kernel's state. Exit status 1 if the kernel differs from
    /// what was applied.
    Show {
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// List the applied policy's rules with their counters since they were created.
    ///
    /// Needs CAP_NET_ADMIN to read the kernel's state.
    Rules {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the kernel's present counters in OpenMetrics, for a collector that reads files.
    ///
    /// Changes nothing. Counters of devices, queues and classes need no privilege; those of rules
    /// need CAP_NET_ADMIN. `weirgate watch` serves the same numbers and more.
    Metrics {
        /// The policy that names classes and their promises; without it, the applied one.
        #[arg(long, value_name = "FILE")]
        policy: Option<PathBuf>,
    },
    /// List the rule sets of the applied policy, or switch one on or off.
    ///
    /// The switch is one small transaction: all other rules, counters and queues stay as they
    /// are. The next `apply` sets every rule set as its policy says. Needs CAP_NET_ADMIN.
    Ruleset {
        /// The rule set.
        #[arg(requires = "on")]
        name: Option<String>,
        /// `on` or `off`.
        #[arg(value_parser = rules::on_or_off)]
        on: Option<bool>,
        /// Return to the present state after this time, unless `weirgate confirm` comes first.
        #[arg(long, value_name = "TIME", value_parser = time::duration, requires = "name")]
        confirm: Option<std::time::Duration>,
        /// Print the list as JSON.
        #[arg(long, conflicts_with = "name")]
        json: bool,
    },
    /// The process that takes a change back; started by others.
    #[command(hide = true)]
    Guard,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return exit::usage(&error),
    };
    let state = arguments.state_dir;
    let outcome = match arguments.command {
        _ if state.exists() && !state.is_dir() => Err(exit::wrong(format!(
            "--state-dir: {} is not a folder",
            state.display()
        ))),
        Command::Written(command) => command.run(&state),
        Command::Applied(command) => command.run(&state),
        Command::Running(command) => command.run(&state),
        #[cfg(feature = "whole")]
        Command::Whole(command) => command.run(&state),
    };
    exit::code(outcome)
}

impl Written {
    fn run(self, state: &Path) -> Outcome {
        match self {
            Self::Check(arguments) => check::run(&arguments),
            Self::Doctor(arguments) => doctor::run(state, &arguments),
            Self::Plan(arguments) => plan::run(state, &arguments),
            Self::Export { policy, uci: true } => policy::export_uci(&policy),
            Self::Export { policy, uci: false } => policy::export(&policy),
            Self::Schema => schema::run(),
            Self::Import { from, json } => {
                documented(json, |document| import::run(&from, document))
            }
        }
    }
}

impl Applied {
    fn run(self, state: &Path) -> Outcome {
        match self {
            Self::Apply {
                policy,
                adopt,
                confirm,
                json,
            } => documented(json, |document| {
                apply::apply(state, &policy, adopt, confirm, document)
            }),
            Self::Confirm { json } => documented(json, |document| change::confirm(state, document)),
            Self::Rollback {
                waiting: true,
                json,
                ..
            } => documented(json, |document| change::take_back(state, document)),
            Self::Rollback {
                number,
                confirm,
                json,
                ..
            } => documented(json, |document| {
                change::rollback(state, number, confirm, document)
            }),
            Self::History { json } => change::history(state, json),
            Self::Boot => change::boot(state),
            Self::Keep { announcers } => keep::run(state, announcers),
            Self::Announce { program } => announce::run(state, &program),
            Self::Track { what } => track::run(state, &what),
            Self::Remove { json } => documented(json, |document| apply::remove(state, document)),
        }
    }
}

impl Running {
    fn run(self, state: &Path) -> Outcome {
        match self {
            Self::Show { json } => show::run(state, json),
            Self::Rules { json } => rules::list(state, json),
            Self::Metrics { policy } => metrics::run(state, policy.as_deref()),
            Self::Ruleset {
                name,
                on,
                confirm,
                json,
            } => match name.zip(on) {
                Some((name, on)) => rules::switch(state, &name, on, confirm),
                None => rules::sets(state, json),
            },
            Self::Guard => change::guard(),
        }
    }
}
