// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands that a small router goes without. The feature `whole` has them, and this
//! module is all that it adds to the program.

mod aqm;
mod circuits;
mod domain;
mod explain;
mod flows;
mod handed;
mod init;
mod links;
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

/// What shows, what looks further than one policy, and what the laboratory does.
#[derive(Subcommand)]
pub enum Command {
    /// Show what weirgate does: an emulated line, before and after.
    ///
    /// Done by `weirgate-lab`.
    #[command(display_order = 0)]
    Try(Handed),
    /// Make a first policy: find the link, ask at most three questions, write it, offer to apply it.
    ///
    /// Options answer the questions, so that scripts can run it. Contacts nobody but the host of
    /// --measure. Until the policy is written nothing is changed, and whatever interrupts it
    /// before the end takes everything back. Applying needs CAP_NET_ADMIN.
    #[command(display_order = 1)]
    Init(init::Arguments),
    /// Keep a history of what the kernel counts, and show it to browsers and monitoring systems.
    ///
    /// Changes nothing. Counters of devices, queues and classes need no privilege; those of rules
    /// and connections need CAP_NET_ADMIN. Serves a page, its data and OpenMetrics at a loopback
    /// address until SIGTERM or SIGINT.
    Watch(watch::Arguments),
    /// Show what goes on now, in the terminal.
    ///
    /// Changes nothing and needs no privilege; rules and connections need CAP_NET_ADMIN.
    Top(top::Arguments),
    /// List the connections with their class, the rule behind it, host, bytes and rate.
    ///
    /// Needs CAP_NET_ADMIN to read the kernel's connections.
    Flows(flows::Arguments),
    /// Say which class packets get under a policy, and which rule decides.
    ///
    /// Changes nothing and asks no kernel: the policy's rules are run on the packets here.
    Explain(explain::Arguments),
    /// List the services that rules may name, such as `voice` and `games`.
    Services {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// A provider's circuits: check a list, bring it into force on a device, change one, show counters.
    Circuits {
        #[command(subcommand)]
        command: circuits::Command,
    },
    /// Use several links together: failover, balance, rules, and a check of their health.
    Links {
        #[command(subcommand)]
        command: links::Command,
    },
    /// Give each pod of a node a rate and a queue of its own, as a folder of files says.
    ///
    /// The file veth7 is about the device veth7, and says the rate of what the pod behind it
    /// receives: `rate = "40mbit"`. Devices that come and files that change are followed until
    /// SIGTERM or SIGINT, and what is in force stays then. A queue whose file is removed goes.
    /// Needs CAP_NET_ADMIN.
    Pods(pods::Arguments),
    /// Describe several routers as one DiffServ domain: check, apply and verify it.
    Domain {
        #[command(subcommand)]
        command: domain::Command,
    },
    /// Queueing disciplines of one C source each: list, load, watch, write, test them.
    Aqm {
        #[command(subcommand)]
        command: aqm::Command,
    },
    /// Measure a real link: rates, link layer, buffers, waiting under load.
    ///
    /// Contacts nobody but the host that is named, and needs no privilege. It fills the line for
    /// about half a minute in each direction.
    Probe(probe::Arguments),
    /// Count what passes a device: by protocol, port and size, when, and how full it makes the line.
    ///
    /// Looks only. Needs CAP_BPF and CAP_PERFMON, and a kernel with type information.
    Survey(survey::Arguments),
    /// Run experiments in the laboratory.
    ///
    /// Done by `weirgate-lab`.
    Lab(Handed),
    /// Compare settings for a link in the laboratory, and give the best one's policy.
    ///
    /// Done by `weirgate-lab`.
    Advise(Handed),
    /// Draw the report of saved results.
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
