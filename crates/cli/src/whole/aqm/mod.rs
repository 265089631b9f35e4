// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate aqm`: disciplines on devices. `weirgate-lab` runs the commands that work on their
//! sources.

mod arguments;
mod ingress;
mod live;
mod loaded;
mod measure;
pub(crate) mod offloads;
mod own;
mod record;
mod show;
pub(crate) mod target;

use crate::whole::handed::{self, Handed};
use arguments::Load;
use clap::Subcommand;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;
use weirgate_aqm::Discipline;
use weirgate_console::discipline::{LinkArguments, discipline};
use weirgate_console::exit::{Outcome, Status, wrong};
use weirgate_console::json::documented;
use weirgate_console::output;

/// What can be done with disciplines.
#[derive(Subcommand)]
pub enum Command {
    /// List the disciplines of the kit, or the parameters of one.
    List {
        /// The discipline.
        discipline: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Start a discipline of your own: a commented source and a scripted test.
    ///
    /// Done by `weirgate-lab`.
    New(Handed),
    /// Run a discipline as an ordinary program under sanitizers: its scripts, then traffic.
    ///
    /// Done by `weirgate-lab`.
    Test(Handed),
    /// Fuzz a discipline under sanitizers, after a check that a planted mistake is found.
    ///
    /// Done by `weirgate-lab`.
    Fuzz(Handed),
    /// Measure the instructions that a packet takes in the lab's kernel.
    ///
    /// Done by `weirgate-lab`.
    Bench(Handed),
    /// Compile a discipline for the kernel and run the kernel's verifier on it.
    ///
    /// Done by `weirgate-lab`.
    Verify(Handed),
    /// Run a discipline as the queue of a bottleneck in the lab, under real TCP, beside others.
    ///
    /// Done by `weirgate-lab`.
    Try(Handed),
    /// Compile a discipline of your own into one file, which `load` accepts even on machines
    /// without a compiler.
    ///
    /// Done by `weirgate-lab`.
    Build(Handed),
    /// Print a source of the kit, such as `aqm.h`, the reference of its interface; without a name,
    /// list the names.
    ///
    /// Done by `weirgate-lab`.
    Source(Handed),
    /// Put a discipline on a device.
    ///
    /// Needs root and a kernel with CONFIG_NET_SCH_BPF. The discipline stays until
    /// `weirgate aqm unload` or a restart.
    Load(Load),
    /// Show disciplines on devices: parameters, state and statistics.
    Show {
        /// The device; without it, all devices of this network namespace.
        device: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Change parameters, link or rate of a discipline on a device, or of a class.
    ///
    /// Queued packets stay. What is not named stays unchanged.
    Change {
        /// The device.
        device: String,
        /// Parameters, as `name=value`; of a class also `guarantee`, `ceiling`, `weight` and
        /// `priority`, as `load` has them.
        #[arg(value_name = "NAME=VALUE")]
        settings: Vec<String>,
        #[command(flatten)]
        link: LinkArguments,
        /// The class to change, such as 1:10.
        #[arg(long, value_name = "ID", conflicts_with = "ingress")]
        class: Option<String>,
        /// Change what was loaded with --ingress.
        #[arg(long)]
        ingress: bool,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Tell a discipline at ingress how long packets wait at the far end of the line.
    ///
    /// Sends ICMP echo requests to the first host behind the line. What a round trip takes
    /// longer than on the idle line is the queue there, and the discipline decides on it
    /// until the next answer. Begin while the line is idle.
    Measure(measure::Arguments),
    /// Show what a discipline on a device decides, packet by packet, as it happens.
    Trace {
        /// The device.
        device: String,
        /// The class of a shaper, as `weirgate aqm show` names it: `1:10`.
        #[arg(long, value_name = "CLASS")]
        class: Option<String>,
        /// End after this many packets; without it, Ctrl-C ends it.
        #[arg(long, value_name = "COUNT")]
        packets: Option<u64>,
    },
    /// Record the packets and decisions of a discipline on a device, or make a recording
    /// from a capture.
    Record {
        /// The device; the file to write where --capture is given.
        device: PathBuf,
        /// The file to write.
        #[arg(required_unless_present = "capture", conflicts_with = "capture")]
        file: Option<PathBuf>,
        /// The class of a shaper, as `weirgate aqm show` names it: `1:10`.
        #[arg(long, conflicts_with = "capture", value_name = "CLASS")]
        class: Option<String>,
        /// End after this many packets; without it, Ctrl-C ends it.
        #[arg(long, value_name = "COUNT")]
        packets: Option<u64>,
        /// Read the packets from this capture (pcap, pcapng) instead of a device;
        /// `weirgate-lab` does this.
        #[arg(long, value_name = "PCAP")]
        capture: Option<PathBuf>,
    },
    /// Run a discipline, built for this machine, on a recording.
    ///
    /// Done by `weirgate-lab`.
    Replay(Handed),
    /// Remove a discipline from a device, and from the kernel if no other device uses it.
    ///
    /// Its queued packets are lost.
    Unload {
        /// The device.
        device: String,
        /// Unload what was loaded with --ingress, where nothing is queued.
        #[arg(long)]
        ingress: bool,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
}

/// Runs the subcommand.
pub fn run(command: &Command) -> Outcome {
    match command {
        Command::List { discipline, json } => list(discipline.as_deref(), *json),
        Command::New(_)
        | Command::Test(_)
        | Command::Fuzz(_)
        | Command::Bench(_)
        | Command::Verify(_)
        | Command::Try(_)
        | Command::Build(_)
        | Command::Source(_)
        | Command::Replay(_)
        | Command::Record {
            capture: Some(_), ..
        } => handed::over(),
        Command::Load(load) => documented(load.json, |document| {
            if load.ingress {
                ingress::load(load, document)
            } else {
                live::load(load, document)
            }
        }),
        Command::Show { device, json } => show::run(device.as_deref(), *json),
        Command::Change {
            device,
            settings,
            link,
            class,
            ingress,
            json,
        } => documented(*json, |document| {
            if *ingress {
                ingress::change(device, settings, link, document)
            } else {
                live::change(device, settings, link, class.as_deref(), document)
            }
        }),
        Command::Measure(arguments) => measure::run(arguments),
        Command::Trace {
            device,
            class,
            packets,
        } => record::trace(device, class.as_deref(), *packets),
        Command::Record {
            device,
            file: Some(file),
            class,
            packets,
            capture: None,
        } => record::record(&device.to_string_lossy(), class.as_deref(), file, *packets),
        Command::Record { .. } => Err(wrong("name the file to write")),
        Command::Unload {
            device,
            ingress,
            json,
        } => documented(*json, |document| {
            if *ingress {
                ingress::unload(device, document)
            } else {
                live::unload(device, document)
            }
        }),
    }
}

/// `weirgate aqm list`.
fn list(name: Option<&str>, json: bool) -> Outcome {
    if json {
        let found = match name {
            None => Discipline::all().into_iter().map(summary).collect(),
            Some(name) => parameters(discipline(name)?),
        };
        output::data(&format!("{found:#}"))?;
        return Ok(Status::Done);
    }
    let mut text = String::new();
    match name {
        None => {
            for one in Discipline::all() {
                let _ = writeln!(text, "{:<10}{}", one.name(), one.summary());
            }
        }
        Some(name) => {
            let one = discipline(name)?;
            let _ = writeln!(text, "{}", one.summary());
            for row in one.params() {
                let default = row.format(row.default);
                let _ = writeln!(
                    text,
                    "  {:<20}{default:<16}{} ({})",
                    row.name,
                    row.help,
                    row.expected()
                );
            }
            for preset in one.presets() {
                let word = format!("preset={}", preset.name);
                let _ = writeln!(text, "  {word:<36}{}", preset.help);
            }
        }
    }
    output::data(&text)?;
    Ok(Status::Done)
}

fn summary(one: Discipline) -> Value {
    json!({ "name": one.name(), "summary": one.summary() })
}

fn parameters(one: Discipline) -> Value {
    let mut found = summary(one);
    let parameters = one.params().into_iter().map(|row| {
        json!({
            "name": row.name,
            "unit": row.unit,
            "default": row.default,
            "text": row.format(row.default),
            "expected": row.expected(),
            "help": row.help,
        })
    });
    found["parameters"] = parameters.collect();
    let presets = one.presets();
    found["presets"] = presets
        .map(|preset| json!({ "name": preset.name, "help": preset.help }))
        .collect();
    found
}
