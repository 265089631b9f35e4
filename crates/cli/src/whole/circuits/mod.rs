// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate circuits`: a provider's circuits on a device.

mod confirm;
mod files;
pub(crate) mod live;
mod metrics;
mod plan;
mod serve;
mod show;
mod status;

use crate::keep::Group;
use clap::Subcommand;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weirgate_circuits::Wanted;
use weirgate_console::exit::{Outcome, wrong};
use weirgate_console::json::{Document, documented};
use weirgate_console::time;
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
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Apply a list of circuits to a device, all of it or nothing.
    ///
    /// The device sends to subscribers; a packet's destination identifies the circuit.
    /// Only differences from the list in force are written. The list is stored: `weirgate
    /// boot` and `weirgate keep` apply it again. Needs root and a kernel with BPF qdiscs
    /// (6.16).
    Apply {
        #[command(flatten)]
        list: files::Listed,
        /// Replace a root qdisc of another program, which is then lost.
        #[arg(long)]
        adopt: bool,
        /// Restore the former list after this time, unless `circuits confirm` comes
        /// first.
        #[arg(long, value_name = "TIME", value_parser = time::duration)]
        confirm: Option<Duration>,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Show what applying a list would change on a device.
    ///
    /// Changes nothing. Exit status 1 if something would change. Needs root.
    Plan {
        #[command(flatten)]
        list: files::Listed,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Keep the lists that `apply --confirm` applied.
    Confirm {
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Restore the lists that were in force before the last `apply --confirm`.
    ///
    /// Later changes of single circuits are lost. Needs root.
    Rollback {
        /// Only undo a change that waits for confirmation; do nothing if none waits.
        #[arg(long)]
        waiting: bool,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Take back lists that nobody confirms; started by `apply`.
    #[command(hide = true)]
    Guard {
        /// The deadline, in nanoseconds of the boot clock.
        deadline: u64,
    },
    /// Add one circuit to the list in force; an identical circuit is left alone.
    ///
    /// The change is stored. The other device of the router and the files are changed
    /// separately. Needs root.
    Add {
        #[command(flatten)]
        wanted: Wanted,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Change one circuit of the list in force; fields that are not named stay.
    ///
    /// The change is stored. The other device of the router and the files are changed
    /// separately. Needs root.
    Change {
        #[command(flatten)]
        wanted: Wanted,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Say which lists are in force, since when, whether the kernel has them, and what waits.
    ///
    /// Every row and key in the kernel is compared with the stored list. The command also
    /// tells which plans' hours and quotas apply now, and whether `weirgate keep` runs. It
    /// changes nothing. Exit status 1 if a list is not completely in force. Needs root where
    /// there are circuits.
    Status {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the counters of a device's sites, or of one circuit or site.
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
    /// Print OpenMetrics counters of every site, and of the circuits that sent most.
    ///
    /// It suits a collector that reads files, or a timer. Needs root.
    Metrics {
        /// The devices.
        #[arg(required = true)]
        device: Vec<String>,
        /// The number of circuits of each device, at most 1000.
        #[arg(long, value_name = "COUNT", default_value_t = 20)]
        top: usize,
    },
    /// Accept changes of single circuits on a Unix socket, until SIGTERM or SIGINT.
    ///
    /// A request is one line of JSON: `do` is `add`, `change`, `remove` or `show`;
    /// `device`, `circuit` and the other fields have the names of these commands'
    /// options. The answer is one line: `done` has what changed, `shown` the circuit, and
    /// `wrong` or `refused` the reason why nothing changed. Several devices may have
    /// circuits, and other commands may change them at the same time. Needs root.
    Serve {
        /// The path of the socket.
        #[arg(long, value_name = "PATH", default_value = CircuitsSocket::PATH)]
        socket: PathBuf,
        /// The group whose members may connect besides root, by name or number.
        #[arg(long)]
        group: Option<Group>,
    },
    /// Remove circuits from a device; with --all, also the sites and the qdisc.
    ///
    /// Circuits that do not exist are no error. With --all, the kernel's default qdisc
    /// returns. Queued packets are lost. Needs root. With --confirm, the list returns unless
    /// you confirm.
    Remove {
        /// The device.
        device: String,
        /// Identifiers of circuits.
        #[arg(value_name = "CIRCUIT")]
        circuits: Vec<String>,
        /// Remove all circuits, the sites and the qdisc.
        #[arg(long, conflicts_with = "circuits")]
        all: bool,
        /// Restore the list after this time, unless `circuits confirm` comes first.
        #[arg(long, value_name = "TIME", value_parser = time::duration, requires = "all")]
        confirm: Option<Duration>,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
}

/// `weirgate circuits`.
pub fn run(state: &Path, command: &Command) -> Outcome {
    let json = match command {
        Command::Check { json, .. }
        | Command::Apply { json, .. }
        | Command::Plan { json, .. }
        | Command::Confirm { json }
        | Command::Rollback { json, .. }
        | Command::Add { json, .. }
        | Command::Change { json, .. }
        | Command::Remove { json, .. } => *json,
        // `status` and `show` print their own.
        _ => false,
    };
    documented(json, |document| answer(state, command, document))
}

fn answer(state: &Path, command: &Command, document: &Document) -> Outcome {
    match command {
        Command::Check { files, .. } => files::check(files, document),
        Command::Apply {
            list,
            adopt,
            confirm,
            ..
        } => match confirm {
            Some(after) => confirm::apply(state, (list.read()?, None), *adopt, *after, document),
            None => live::apply(state, list.read_one()?, *adopt, document),
        },
        Command::Plan { list, .. } => plan::plan(state, &list.read()?, document),
        Command::Confirm { .. } => confirm::confirm(state, document),
        Command::Rollback { waiting, .. } => confirm::rollback(state, *waiting, document),
        Command::Guard { deadline } => confirm::guard(state, *deadline),
        Command::Add { wanted, .. } => live::put(state, wanted, true, document),
        Command::Change { wanted, .. } => live::put(state, wanted, false, document),
        Command::Status { json } => status::status(state, *json),
        Command::Show { device, name, json } => show::show(state, device, name.as_deref(), *json),
        Command::Metrics { device, top } => metrics::metrics(state, device, *top),
        Command::Serve { socket, group } => serve::serve(state, socket, *group),
        Command::Remove {
            device,
            all: true,
            confirm,
            ..
        } => match confirm {
            Some(after) => {
                let gone = Some(live::device(device)?);
                confirm::apply(state, ((Vec::new(), false), gone), false, *after, document)
            }
            None => live::remove(state, device, document),
        },
        // Without names nothing is removed: a variable in a script may be empty by mistake.
        Command::Remove { circuits, .. } if circuits.is_empty() => Err(wrong(
            "name the circuits to remove, or remove everything with --all",
        )),
        Command::Remove {
            device, circuits, ..
        } => live::take(state, device, circuits, document),
    }
}
