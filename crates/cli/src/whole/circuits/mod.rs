// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate circuits`: a provider's circuits on a device.

mod files;
pub(crate) mod live;
mod metrics;
mod show;

use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};
use weirgate_bpf::MOST_QUEUES;
use weirgate_circuits::kept::Kept;
use weirgate_circuits::rows::Direction;
use weirgate_circuits::{Asked, KeyKind};
use weirgate_console::exit::{Outcome, Status, wrong};
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
    /// force already is compared, and only what differs is written. The list is kept:
    /// `weirgate boot` and `weirgate keep` bring it into force again. Needs root and a kernel with
    /// BPF qdiscs (6.16).
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
        /// At most so many sending queues of the device share the rate, each with sites of its
        /// own; without it, one for each 2 Gbit/s.
        #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_QUEUES)))]
        queues: Option<u32>,
        /// Replace a root qdisc that somebody made, which is then lost.
        #[arg(long)]
        adopt: bool,
    },
    /// Add one circuit to the list in force; one that is there and the same is left alone.
    ///
    /// It is kept, too. The other device of the box, and the files, are changed apart. Needs root.
    Add(One),
    /// Change one circuit of the list in force: what is named changes, the rest stays.
    ///
    /// It is kept, too. The other device of the box, and the files, are changed apart. Needs root.
    Change(One),
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

/// One circuit of a device.
#[derive(Args)]
pub struct One {
    /// The device.
    device: String,
    /// The circuit's identifier.
    circuit: String,
    /// The site above it, by name; an empty one for the link itself.
    #[arg(long, value_name = "SITE")]
    parent: Option<String>,
    /// Its plan, whose rates it has; an empty one for none.
    #[arg(long)]
    plan: Option<String>,
    /// All its addresses and prefixes, with commas between them; an empty text for none.
    #[arg(long, value_name = "ADDRESSES")]
    addresses: Option<String>,
    /// All its PPPoE sessions: a number such as 77, or with the subscriber's MAC, such as
    /// 77:02:00:5e:10:00:01.
    #[arg(long, value_name = "SESSIONS")]
    session: Option<String>,
    /// All its VLANs: the outer tag's such as 100, or with the inner tag's, such as 100.20.
    #[arg(long, value_name = "VLANS")]
    vlan: Option<String>,
    /// All MACs of its devices.
    #[arg(long, value_name = "MACS")]
    mac: Option<String>,
    /// What it is guaranteed towards the subscriber, such as 5mbit.
    #[arg(long, value_name = "RATE")]
    down_min: Option<Rate>,
    /// What it is guaranteed from the subscriber.
    #[arg(long, value_name = "RATE")]
    up_min: Option<Rate>,
    /// What it never exceeds towards the subscriber, such as 100mbit.
    #[arg(long, value_name = "RATE")]
    down_max: Option<Rate>,
    /// What it never exceeds from the subscriber.
    #[arg(long, value_name = "RATE")]
    up_max: Option<Rate>,
    /// Whether it is suspended: it then has 64 kbit/s in either direction.
    #[arg(long, value_name = "YES", value_parser = yes_or_no)]
    suspended: Option<bool>,
}

/// `yes` or `no`.
fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("say `yes` or `no`".to_owned()),
    }
}

impl One {
    fn put(&self, state: &Path, comes: bool) -> Outcome {
        let mut keys = [const { None }; KeyKind::ALL.len()];
        let texts = [&self.addresses, &self.session, &self.vlan, &self.mac];
        for ((to, kind), text) in keys.iter_mut().zip(KeyKind::ALL).zip(texts) {
            let read = text.as_deref().map(|text| kind.read_all(text));
            *to = read.transpose().map_err(wrong)?;
        }
        let asked = Asked {
            site: self.parent.clone(),
            plan: self.plan.clone(),
            rates: [self.down_min, self.up_min, self.down_max, self.up_max],
            keys,
            suspended: self.suspended,
        };
        live::put(state, &self.device, &self.circuit, &asked, comes)
    }
}

/// `weirgate circuits`.
pub fn run(state: &Path, command: &Command) -> Outcome {
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
            queues,
            adopt,
        } => {
            let kept = Kept {
                direction: if *up { Direction::Up } else { Direction::Down },
                link: *rate,
                queues: *queues,
                list: files::read(files)?,
            };
            live::apply(state, device, kept, *adopt)
        }
        Command::Add(one) => one.put(state, true),
        Command::Change(one) => one.put(state, false),
        Command::Show { device, name, json } => show::show(state, device, name.as_deref(), *json),
        Command::Metrics { device, top } => metrics::metrics(state, device, *top),
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
