// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `weirgate` command, which a router installs: arguments, files, terminal
//! and exit codes.
//!
//! Everything else is in the libraries; each subcommand has a module here that
//! reads files, calls them and prints. The laboratory and the workshop are
//! `weirgate-lab` (crate `lab-cli`), to which `handed` hands over.
//!
//! Without the feature `whole` it is the program of a small router: what applies a policy and
//! holds it.

#[cfg(feature = "whole")]
mod aqm;
#[cfg(feature = "whole")]
mod circuits;
mod doctor;
#[cfg(feature = "whole")]
mod domain;
#[cfg(feature = "whole")]
mod explain;
#[cfg(feature = "whole")]
mod flows;
#[cfg(feature = "whole")]
mod handed;
#[cfg(feature = "whole")]
mod init;
mod keep;
#[cfg(feature = "whole")]
mod links;
#[cfg(feature = "whole")]
mod pods;
mod policy;
#[cfg(feature = "whole")]
mod probe;
#[cfg(feature = "whole")]
mod survey;
#[cfg(feature = "whole")]
mod top;
#[cfg(feature = "whole")]
mod watch;

#[cfg(feature = "whole")]
use clap::CommandFactory as _;
use clap::{Parser, Subcommand};
#[cfg(feature = "whole")]
use handed::Handed;
use keep::{announce, track};
use policy::{apply, change, check, import, plan, rules, schema, show};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weirgate_console::exit::{self, Outcome};
use weirgate_console::policy::SITE;
#[cfg(feature = "whole")]
use weirgate_console::reference::{About, Pages};
use weirgate_console::time;

/// Keeps the queue of a shared link under control, and proves it.
#[derive(Parser)]
#[command(name = "weirgate", version, about, max_term_width = 100)]
struct Arguments {
    /// Where applied states are kept.
    #[arg(long, global = true, value_name = "FOLDER", default_value = weirgate_keep::STATE)]
    #[arg(env = "WEIRGATE_STATE_DIR", hide_env_values = true)]
    state_dir: PathBuf,
    #[command(subcommand)]
    command: Command,
}

// The commands are of several types for the sake of memory: what clap makes of one takes
// 10 kB of the stack for each command in it, and a service never gives its stack back.
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
    About(About),
}

/// What is done with policies before one is applied.
#[derive(Subcommand)]
enum Written {
    #[cfg(feature = "whole")]
    /// Show what weirgate does: an emulated line, before and after.
    ///
    /// Done by `weirgate-lab`.
    Try(Handed),
    #[cfg(feature = "whole")]
    /// Make a first policy: find the link, ask at most three questions, write it, offer to apply it.
    ///
    /// Options answer the questions, so that scripts can run it. Contacts nobody but the host of
    /// --measure. Until the policy is written nothing is changed, and whatever interrupts it
    /// before the end takes everything back. Applying needs CAP_NET_ADMIN.
    Init(init::Arguments),
    /// Check a policy; say what it promises to each class and what the link layer costs.
    Check(check::Arguments),
    /// Say what this kernel and machine offer, and what disturbs the shaping.
    ///
    /// Changes nothing and needs no privilege; without CAP_NET_ADMIN it sees less, and says so.
    /// Exit status 1 if there is a fault or a warning.
    Doctor(doctor::Arguments),
    /// Show what applying a policy would change in the kernel.
    ///
    /// Needs CAP_NET_ADMIN to read the kernel's state.
    Plan(plan::Arguments),
    #[cfg(feature = "whole")]
    /// Say which class packets get under a policy, and which rule decides.
    ///
    /// Changes nothing and asks no kernel: the policy's rules are run on the packets here.
    Explain(explain::Arguments),
    /// Write a policy as a shell script of ip, tc, ethtool and nft commands.
    ///
    /// It needs no weirgate. What tc cannot express is named.
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
    /// Make a policy from another tool's files; name what was left out.
    Import {
        #[command(subcommand)]
        from: import::From,
    },
}

/// What brings a policy into force, holds it there and takes it back.
#[derive(Subcommand)]
enum Applied {
    /// Apply a policy and read it back.
    ///
    /// Needs CAP_NET_ADMIN. What was there before is kept for `remove`.
    Apply {
        /// The policy file.
        #[arg(default_value = SITE)]
        policy: PathBuf,
        /// Replace a root qdisc that weirgate did not make; warns if it could not be restored.
        #[arg(long)]
        adopt: bool,
        /// Return to the state before by itself after this time, unless `weirgate confirm` comes.
        #[arg(long, value_name = "TIME", value_parser = time::duration)]
        confirm: Option<std::time::Duration>,
    },
    /// Keep the change that `--confirm` made.
    Confirm,
    /// Take back the change that waits for confirmation, or go back to an earlier state.
    ///
    /// Without a number: to the state that was in force before the present one.
    Rollback {
        /// The number of a state in `weirgate history`.
        number: Option<u64>,
        /// Only take back what waits for confirmation; do nothing where nothing waits.
        #[arg(long, conflicts_with_all = ["number", "confirm"])]
        waiting: bool,
        /// Return by itself after this time, unless `weirgate confirm` comes.
        #[arg(long, value_name = "TIME", value_parser = time::duration)]
        confirm: Option<std::time::Duration>,
    },
    /// List the states that were applied, and what became of them.
    History {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Bring the state that was confirmed last into force: what runs when the machine starts.
    ///
    /// Circuits that are kept, too. Devices that are not there yet are left out. Needs
    /// CAP_NET_ADMIN.
    Boot,
    /// Keep the confirmed state in force while devices come, go and change.
    ///
    /// Runs until it is ended; tells systemd when it is ready. Needs CAP_NET_ADMIN.
    Keep {
        /// Who may announce sessions besides root, by name in /etc/group or by number
        ///
        /// Needs to be in that group, or CAP_CHOWN.
        #[arg(long, value_name = "GROUP")]
        announcers: Option<keep::Announcers>,
    },
    /// Announce a session of high priority to `weirgate keep`, for as long as a program runs.
    ///
    /// New connections of low priority then ask for small segments, and older ones may be reset,
    /// as `[receive.announced]` of the policy says. Without a program: until SIGTERM or SIGINT.
    /// Needs to be allowed to write to the service's socket. Exit status 1 if the program fails.
    Announce {
        /// The program and its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        program: Vec<std::ffi::OsString>,
    },
    /// Show how the rate of a line is followed, or make the decisions of a record again.
    ///
    /// `weirgate keep` follows it where the policy has a table `[track]`.
    Track {
        #[command(subcommand)]
        what: track::What,
    },
    /// Remove what a policy applied, without trace.
    ///
    /// Needs CAP_NET_ADMIN.
    Remove,
}

/// What looks at what runs, and what goes beyond one policy.
#[derive(Subcommand)]
enum Running {
    #[cfg(feature = "whole")]
    /// Keep a history of what the kernel counts, and show it to browsers and monitoring systems.
    ///
    /// Changes nothing. Counters of devices, queues and classes need no privilege; those of rules
    /// and connections need CAP_NET_ADMIN. Serves a page, its data and OpenMetrics at a loopback
    /// address until SIGTERM or SIGINT.
    Watch(watch::Arguments),
    #[cfg(feature = "whole")]
    /// Show what goes on now, in the terminal.
    ///
    /// Changes nothing and needs no privilege; rules and connections need CAP_NET_ADMIN.
    Top(top::Arguments),
    /// Show what is in force since when, what each class has, and what is wrong.
    ///
    /// Needs CAP_NET_ADMIN to read the kernel's state. Exit status 1 if the kernel differs from
    /// what was applied.
    Show {
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    #[cfg(feature = "whole")]
    /// List the connections with their class, the rule behind it, host, bytes and rate.
    ///
    /// Needs CAP_NET_ADMIN to read the kernel's connections.
    Flows(flows::Arguments),
    /// List the applied policy's rules with what they counted since they were made.
    ///
    /// Needs CAP_NET_ADMIN to read the kernel's state.
    Rules {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the rule sets of the applied policy, or switch one on or off.
    ///
    /// The switch is one small transaction: all other rules, counters and queues stay as they
    /// are. The next `apply` puts every rule set as its policy says. Needs CAP_NET_ADMIN.
    Ruleset {
        /// The rule set.
        #[arg(requires = "on")]
        name: Option<String>,
        /// `on` or `off`.
        #[arg(value_parser = rules::on_or_off)]
        on: Option<bool>,
        /// Return by itself after this time, unless `weirgate confirm` comes.
        #[arg(long, value_name = "TIME", value_parser = time::duration, requires = "name")]
        confirm: Option<std::time::Duration>,
        /// Print the list as JSON.
        #[arg(long, conflicts_with = "name")]
        json: bool,
    },
    /// The process that takes a change back; started by others.
    #[command(hide = true)]
    Guard,
    #[cfg(feature = "whole")]
    /// Run experiments in the laboratory.
    ///
    /// Done by `weirgate-lab`.
    Lab(Handed),
    #[cfg(feature = "whole")]
    /// Queueing disciplines of one C source each: list, load, watch, write, test them.
    Aqm {
        #[command(subcommand)]
        command: aqm::Command,
    },
    #[cfg(feature = "whole")]
    /// A provider's circuits: check a list, bring it into force on a device, change one, show counters.
    Circuits {
        #[command(subcommand)]
        command: circuits::Command,
    },
    #[cfg(feature = "whole")]
    /// Compare settings for a link in the laboratory, and give the best one's policy.
    ///
    /// Done by `weirgate-lab`.
    Advise(Handed),
    #[cfg(feature = "whole")]
    /// Describe several routers as one DiffServ domain: check, apply and verify it.
    Domain {
        #[command(subcommand)]
        command: domain::Command,
    },
    #[cfg(feature = "whole")]
    /// Use several links together: failover, balance, rules, and a check of their health.
    Links {
        #[command(subcommand)]
        command: links::Command,
    },
    #[cfg(feature = "whole")]
    /// Give each pod of a node a rate and a queue of its own, as a folder of files says.
    ///
    /// The file veth7 is about the device veth7, and says the rate of what the pod behind it
    /// receives: `rate = "40mbit"`. Devices that come and files that change are followed until
    /// SIGTERM or SIGINT, and what is in force stays then. A queue whose file is removed goes.
    /// Needs CAP_NET_ADMIN.
    Pods(pods::Arguments),
    #[cfg(feature = "whole")]
    /// Measure a real link: rates, link layer, buffers, waiting under load.
    ///
    /// Contacts nobody but the host that is named, and needs no privilege. It fills the line for
    /// about half a minute in each direction.
    Probe(probe::Arguments),
    #[cfg(feature = "whole")]
    /// Count what passes a device: by protocol, port and size, when, and how full it makes the line.
    ///
    /// Looks only. Needs CAP_BPF and CAP_PERFMON, and a kernel with type information.
    Survey(survey::Arguments),
    #[cfg(feature = "whole")]
    /// Draw the report of saved results.
    ///
    /// Done by `weirgate-lab`.
    Report(Handed),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return exit::usage(&error),
    };
    let state = arguments.state_dir;
    let outcome = match arguments.command {
        Command::Written(command) => command.run(&state),
        Command::Applied(command) => command.run(&state),
        Command::Running(command) => command.run(&state),
        #[cfg(feature = "whole")]
        Command::About(about) => about.run(Arguments::command(), |_| Ok(Pages::new())),
    };
    exit::code(outcome)
}

impl Written {
    fn run(self, state: &Path) -> Outcome {
        match self {
            #[cfg(feature = "whole")]
            Self::Init(arguments) => init::run(state, &arguments),
            Self::Check(arguments) => check::run(&arguments),
            Self::Doctor(arguments) => doctor::run(state, &arguments),
            Self::Plan(arguments) => plan::run(state, &arguments),
            #[cfg(feature = "whole")]
            Self::Explain(arguments) => explain::run(&arguments),
            Self::Export { policy, uci: true } => policy::export_uci(&policy),
            Self::Export { policy, uci: false } => policy::export(&policy),
            Self::Schema => schema::run(),
            Self::Import { from } => import::run(&from),
            #[cfg(feature = "whole")]
            Self::Try(_) => handed::over(),
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
            } => apply::apply(state, &policy, adopt, confirm),
            Self::Confirm => change::confirm(state),
            Self::Rollback { waiting: true, .. } => change::take_back(state),
            Self::Rollback {
                number, confirm, ..
            } => change::rollback(state, number, confirm),
            Self::History { json } => change::history(state, json),
            Self::Boot => change::boot(state),
            Self::Keep { announcers } => keep::run(state, announcers),
            Self::Announce { program } => announce::run(state, &program),
            Self::Track { what } => track::run(state, &what),
            Self::Remove => apply::remove(state),
        }
    }
}

impl Running {
    fn run(self, state: &Path) -> Outcome {
        match self {
            #[cfg(feature = "whole")]
            Self::Watch(arguments) => watch::run(state, arguments),
            #[cfg(feature = "whole")]
            Self::Top(arguments) => top::run(state, &arguments),
            Self::Show { json } => show::run(state, json),
            #[cfg(feature = "whole")]
            Self::Flows(arguments) => flows::run(state, &arguments),
            Self::Rules { json } => rules::list(state, json),
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
            #[cfg(feature = "whole")]
            Self::Aqm { command } => aqm::run(&command),
            #[cfg(feature = "whole")]
            Self::Circuits { command } => circuits::run(state, &command),
            #[cfg(feature = "whole")]
            Self::Domain { command } => domain::run(&command),
            #[cfg(feature = "whole")]
            Self::Links { command } => links::run(state, &command),
            #[cfg(feature = "whole")]
            Self::Pods(arguments) => pods::run(&arguments),
            #[cfg(feature = "whole")]
            Self::Probe(arguments) => probe::run(&arguments),
            #[cfg(feature = "whole")]
            Self::Survey(arguments) => survey::run(&arguments),
            #[cfg(feature = "whole")]
            Self::Lab(_) | Self::Advise(_) | Self::Report(_) => handed::over(),
        }
    }
}
