// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate circuits`: a provider's circuits on a device.

mod files;
mod live;
mod show;

use clap::Subcommand;
use std::path::PathBuf;
use weirgate_console::exit::{Outcome, Status};
use weirgate_console::output;
use weirgate_units::Rate;

/// What can be done with circuits.
#[derive(Subcommand)]
pub enum Command {
    /// Check a list of circuits; name every mistake with its line and column.
    ///
    /// Changes nothing and needs no privilege.
    Check {
        /// The files of the list: ShapedDevices.csv, network.json, plans.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Bring a list of circuits into force on a device: all of it, or nothing changes.
    ///
    /// The device sends to subscribers, whom the destination of a packet tells. A list that is in
    /// force already is compared, and only what differs is written. Needs root and a kernel with
    /// BPF qdiscs (6.16). Nothing of it survives a reboot.
    Apply {
        /// The device.
        device: String,
        /// The files of the list.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// The device sends what comes from subscribers, whom the source tells.
        #[arg(long)]
        up: bool,
        /// What all circuits have together, such as 9gbit; without it, what the device takes.
        #[arg(long, value_name = "RATE")]
        rate: Option<Rate>,
        /// Replace a root qdisc that somebody made, which is then lost.
        #[arg(long)]
        adopt: bool,
    },
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
    /// Take the circuits off a device; the kernel's default qdisc is back.
    ///
    /// Needs root. What is queued is lost.
    Remove {
        /// The device.
        device: String,
    },
}

/// `weirgate circuits`.
pub fn run(command: &Command) -> Outcome {
    match command {
        Command::Check { files } => {
            let list = files::read(files)?;
            output::lines(&format!("{}\n", files::summary(&list)))?;
            Ok(Status::Done)
        }
        Command::Apply {
            device,
            files,
            up,
            rate,
            adopt,
        } => {
            let list = files::read(files)?;
            live::apply(
                device,
                &list,
                &live::How {
                    up: *up,
                    rate: *rate,
                    adopt: *adopt,
                },
            )
        }
        Command::Show { device, name, json } => show::show(device, name.as_deref(), *json),
        Command::Remove { device } => live::remove(device),
    }
}
