// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate circuits`: a provider's circuits on a device.

mod confirm;
mod files;
pub(crate) mod live;
mod metrics;
mod plan;
mod serve;
mod show;

use crate::keep::Group;
use clap::Subcommand;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weirgate_circuits::Wanted;
use weirgate_console::exit::{Outcome, Status, wrong};
use weirgate_console::{output, time};
use weirgate_keep::CircuitsSocket;

/// What can be done with circuits.
#[derive(Subcommand)]
pub enum Command {
    /// Check a list of circuits; name every mistake with its line and column.
    ///
    /// Changes nothing and needs no privilege.
    Check {
        /// The files of the list: ShapedDevices.csv, network.json, plans, lqos_overrides.json.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Bring a list of circuits into force on a device: all of it, or nothing changes.
    ///
    /// The device sends to subscribers, whom the destination of a packet tells. A list that is in
    /// force already is compared, and only what differs is written. The list is kept:
    /// `weirgate boot` and `weirgate keep` bring it into force again. Needs root and a kernel with
    /// BPF qdiscs (6.16).
    Apply {
        #[command(flatten)]
        list: files::Listed,
        /// Replace a root qdisc that somebody made, which is then lost.
        #[arg(long)]
        adopt: bool,
        /// Put the former list in force by itself after this time, unless `circuits confirm` comes.
        #[arg(long, value_name = "TIME", value_parser = time::duration)]
        confirm: Option<Duration>,
    },
    /// Say what applying a list would change on a device.
    ///
    /// Changes nothing. Exit status 1 if something would change. Needs root.
    Plan {
        #[command(flatten)]
        list: files::Listed,
    },
    /// Keep the lists that `apply --confirm` brought into force.
    Confirm,
    /// Put the lists in force that were before the last `apply --confirm`.
    ///
    /// Changes of single circuits since then are lost. Needs root.
    Rollback {
        /// Only take back what waits for confirmation; do nothing where nothing waits.
        #[arg(long)]
        waiting: bool,
    },
    /// What takes lists back that nobody confirms; started by `apply`.
    #[command(hide = true)]
    Guard {
        /// When, in nanoseconds of the boot clock.
        deadline: u64,
    },
    /// Add one circuit to the list in force; one that is there and the same is left alone.
    ///
    /// It is kept, too. The other device of the box, and the files, are changed apart. Needs root.
    Add(Wanted),
    /// Change one circuit of the list in force: what is named changes, the rest stays.
    ///
    /// It is kept, too. The other device of the box, and the files, are changed apart. Needs root.
    Change(Wanted),
    /// Show what a device's sites have had, or one circuit or site.
    ///
    /// Needs root.
    Show {
        /// The device.
        device: String,
        /// A circuit's identifier or a site's name.
        name: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print counters as OpenMetrics: of every site, and of the circuits that sent most.
    ///
    /// For a collector that reads files, or a timer. Needs root.
    Metrics {
        /// The devices.
        #[arg(required = true)]
        device: Vec<String>,
        /// So many circuits of each device, at most 1000.
        #[arg(long, value_name = "COUNT", default_value_t = 20)]
        top: usize,
    },
    /// Take changes of single circuits at a Unix socket, until SIGTERM or SIGINT.
    ///
    /// A request is a line of JSON: `do` says `add`, `change`, `remove` or `show`, and `device`,
    /// `circuit` and the other fields are called as the options of these commands. It is answered
    /// with a line, in which `done` has what differed, `shown` the circuit, and `wrong` or
    /// `refused` why nothing is changed. Several devices may have circuits, and other commands may
    /// change them meanwhile. Needs root.
    Serve {
        /// Where the socket is.
        #[arg(long, value_name = "PATH", default_value = CircuitsSocket::PATH)]
        socket: PathBuf,
        /// Whose members may connect beside root: a group's name or number.
        #[arg(long)]
        group: Option<Group>,
    },
    /// Take circuits off a device, or with --all everything: then the kernel's default qdisc is back.
    ///
    /// Circuits that are not there are gone already. Needs root. What is queued is lost.
    Remove {
        /// The device.
        device: String,
        /// Identifiers of circuits.
        #[arg(value_name = "CIRCUIT")]
        circuits: Vec<String>,
        /// All circuits, the sites and the qdisc.
        #[arg(long, conflicts_with = "circuits")]
        all: bool,
    },
}

/// `weirgate circuits`.
pub fn run(state: &Path, command: &Command) -> Outcome {
    match command {
        Command::Check { files } => {
            let list = files::list(files)?;
            output::lines(&format!("{}\n", files::summary(&list)))?;
            Ok(Status::Done)
        }
        Command::Apply {
            list,
            adopt,
            confirm,
        } => match confirm {
            Some(after) => confirm::apply(state, list.read()?, *adopt, *after),
            None => live::apply(state, list.read_one()?, *adopt),
        },
        Command::Plan { list } => plan::plan(state, &list.read()?),
        Command::Confirm => confirm::confirm(state),
        Command::Rollback { waiting } => confirm::rollback(state, *waiting),
        Command::Guard { deadline } => confirm::guard(state, *deadline),
        Command::Add(wanted) => live::put(state, wanted, true),
        Command::Change(wanted) => live::put(state, wanted, false),
        Command::Show { device, name, json } => show::show(state, device, name.as_deref(), *json),
        Command::Metrics { device, top } => metrics::metrics(state, device, *top),
        Command::Serve { socket, group } => serve::serve(state, socket, *group),
        Command::Remove {
            device, all: true, ..
        } => live::remove(state, device),
        // An empty variable of a script takes nothing away.
        Command::Remove { circuits, .. } if circuits.is_empty() => Err(wrong(
            "name the circuits to take off, or say --all to take off everything",
        )),
        Command::Remove {
            device, circuits, ..
        } => live::take(state, device, circuits),
    }
}
