// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands that a small router does without. They are in the feature `whole`, which adds only
//! this module to the program.

mod aqm;
mod circuits;
mod domain;
mod explain;
mod flows;
mod handed;
mod init;
pub mod links;
mod pods;
mod probe;
mod services;
mod survey;
mod top;
mod watch;

use crate::Arguments;
use clap::{CommandFactory as _, Subcommand};
use handed::Handed;
use std::path::Path;
use weirgate_console::exit::Outcome;
use weirgate_console::reference::{About, Pages};

/// Commands that show data, that go beyond one policy, or that the laboratory runs.
#[derive(Subcommand)]
pub enum Command {
    /// Show what weirgate does: an emulated line, before and after.
    ///
    /// Done by `weirgate-lab`.
    #[command(display_order = 0)]
    Try(Handed),
    /// Make a first policy: find the link, ask at most three questions, write the policy,
    /// offer to apply it.
    ///
    /// Options answer the questions, so that scripts can run it. Contacts only the host
    /// of --measure. Nothing changes until the policy is written; an interruption before
    /// the end undoes everything. Applying needs CAP_NET_ADMIN.
    #[command(display_order = 1)]
    Init(init::Arguments),
    /// Record the kernel's counters, and serve them to browsers and monitoring systems.
    ///
    /// Changes nothing. Counters of devices, queues and classes need no privilege; those of rules
    /// and connections need CAP_NET_ADMIN. Serves a page, its data and OpenMetrics at a loopback
    /// address until SIGTERM or SIGINT.
    Watch(watch::Arguments),
    /// Show live traffic in the terminal.
    ///
    /// Changes nothing and needs no privilege; rules and connections need CAP_NET_ADMIN.
    Top(top::Arguments),
    /// List connections with class, deciding rule, host, bytes and rate.
    ///
    /// Needs CAP_NET_ADMIN to read the kernel's connections.
    Flows(flows::Arguments),
    /// Show which class a policy gives to packets, and which rule decides.
    ///
    /// Changes nothing and does not use the kernel: it runs the policy's rules on the
    /// packets itself.
    Explain(explain::Arguments),
    /// List the services that rules may name, such as `voice` and `games`.
    Services {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Shape a provider's circuits: check and apply lists, change single circuits, show
    /// counters.
    Circuits {
        #[command(subcommand)]
        command: circuits::Command,
    },
    /// Use several links together: failover, load balancing, rules and health checks.
    Links {
        #[command(subcommand)]
        command: links::Command,
    },
    /// Give each pod of a node a rate and a queue of its own, from a folder of files.
    ///
    /// The file veth7 states the rate at which the pod behind the device veth7 receives: `rate =
    /// "40mbit"`. Follows new devices and changed files until SIGTERM or SIGINT; the queues then
    /// stay. The queue of a removed file is removed. Needs CAP_NET_ADMIN.
    Pods(pods::Arguments),
    /// Check, apply and verify several routers as one DiffServ domain.
    Domain {
        #[command(subcommand)]
        command: domain::Command,
    },
    /// List, load, watch, write and test queueing disciplines, each of one C source.
    Aqm {
        #[command(subcommand)]
        command: aqm::Command,
    },
    /// Measure a real link: rates, link layer, buffers, delay under load.
    ///
    /// Contacts only the named host, and needs no privilege. Fills the line for about half a minute
    /// in each direction.
    Probe(probe::Arguments),
    /// Count a device's packets by protocol, port, size and time, and show how full the line is.
    ///
    /// Changes nothing. Needs CAP_BPF and CAP_PERFMON, and a kernel with type information.
    Survey(survey::Arguments),
    /// Run experiments in the laboratory.
    ///
    /// Done by `weirgate-lab`.
    Lab(Handed),
    /// Compare settings for a link in the laboratory, and print the policy of the best.
    ///
    /// Done by `weirgate-lab`.
    Advise(Handed),
    /// Make the report of saved results.
    ///
    /// Done by `weirgate-lab`.
    Report(Handed),
    #[command(flatten)]
    About(About),
}

impl Command {
    pub fn run(self, state: &Path) -> Outcome {
        match self {
            Self::Aqm { command } => aqm::run(&command),
            Self::Circuits { command } => circuits::run(state, &command),
            Self::Domain { command } => domain::run(&command),
            Self::Explain(arguments) => explain::run(&arguments),
            Self::Flows(arguments) => flows::run(state, &arguments),
            Self::Init(arguments) => init::run(state, &arguments),
            Self::Try(_) | Self::Lab(_) | Self::Advise(_) | Self::Report(_) => handed::over(),
            Self::Links { command } => links::run(state, &command),
            Self::Pods(arguments) => pods::run(state, &arguments),
            Self::Probe(arguments) => probe::run(&arguments),
            Self::Services { json } => services::run(json),
            Self::Survey(arguments) => survey::run(&arguments),
            Self::Top(arguments) => top::run(state, &arguments),
            Self::Watch(arguments) => watch::run(state, arguments),
            Self::About(about) => about.run(Arguments::command(), |_| Ok(Pages::new())),
        }
    }
}
