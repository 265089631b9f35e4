// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate aqm`: its commands and their arguments.

pub mod class;
mod ingress;
pub mod live;
mod offloads;
pub mod own;
mod record;
mod show;

use crate::workshop::bench;
use crate::workshop::capture;
use crate::workshop::replay;
use crate::workshop::verify;
use crate::workshop::work;
use clap::{Args, Subcommand};
use std::fmt::Write as _;
use std::path::PathBuf;
use weirgate_aqm::{Discipline, Link, Settings};
use weirgate_console::exit::{Failure, Outcome, Status, wrong};
use weirgate_console::output;
use weirgate_linklayer::{DeviceKind, Framing, LinkLayer};
use weirgate_units::Rate;

#[derive(Subcommand)]
pub enum Command {
    /// List the disciplines of the kit, or the parameters of one.
    List {
        /// The discipline.
        discipline: Option<String>,
    },
    /// Begin a discipline of one's own: a commented source and a scripted test.
    New {
        /// Its name: up to 10 small letters, digits and underscores.
        name: String,
        /// The folder to make; NAME here where none is given.
        folder: Option<PathBuf>,
    },
    /// Run a discipline as an ordinary program under sanitizers: its scripts, then traffic.
    Test {
        /// Its folder or file, or the name of one of the kit.
        discipline: PathBuf,
        /// Traffic of this recording, in place of some made up.
        #[arg(long, value_name = "FILE")]
        recording: Option<PathBuf>,
        /// The rate at which packets leave; 1mbit without it.
        #[arg(long)]
        rate: Option<Rate>,
    },
    /// Fuzz a discipline under sanitizers, after proof that a planted mistake is found.
    Fuzz {
        /// Its folder or file, or the name of one of the kit.
        discipline: PathBuf,
        /// Seconds.
        #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
        seconds: u32,
        /// Fail if fewer branches than this are seen.
        #[arg(long, value_name = "BRANCHES")]
        floor: Option<u32>,
    },
    /// Measure what a packet costs, in instructions, in the lab's kernel.
    ///
    /// Queues are kept from being empty, sending without a qdisc is taken off, and the kernel's
    /// own disciplines are measured the same way.
    Bench {
        /// What to measure: disciplines of the kit, pfifo, red, fq_codel, sfq, cake, htb, all
        /// where none is named.
        #[arg(value_name = "DISCIPLINE")]
        disciplines: Vec<String>,
        #[command(flatten)]
        run: bench::Run,
        /// A kernel for the lab: a bzImage, or a folder with `vmlinuz` in it.
        #[arg(long, value_name = "PATH")]
        kernel: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Measure here: what the lab's kernel is asked to run.
        #[arg(long, hide = true)]
        inside: bool,
    },
    /// Compile a discipline for the kernel and have its verifier look at it.
    ///
    /// Nothing is put on a device. On the running kernel it needs root, in the lab it does not.
    Verify {
        /// Its folder or file, the name of one of the kit, or a compiled object; without it, every
        /// program that weirgate loads, those of receiving and measuring too. Of a discipline both
        /// programs are looked at: the qdisc's and the one for arriving packets.
        discipline: Vec<PathBuf>,
        /// The lab's kernel in place of the running one.
        #[arg(long)]
        lab: bool,
        /// A kernel for the lab: a bzImage, or a folder with `vmlinuz` in it. Several may be named.
        #[arg(long = "kernel", value_name = "PATH")]
        kernels: Vec<PathBuf>,
    },
    /// Compile a discipline of one's own into one file, which `load` takes on machines without a
    /// compiler too.
    Build {
        /// Its folder or file.
        discipline: PathBuf,
    },
    /// Print a source of the kit, such as the reference of the seam, `aqm.h`; without a name,
    /// their names.
    Source {
        /// Its name or path: `red.c`, `aqm/include/fixed.h`.
        file: Option<String>,
    },
    /// Put a discipline on a device.
    ///
    /// Needs root and a kernel with CONFIG_NET_SCH_BPF. It stays until `weirgate aqm unload` or
    /// a restart.
    Load(Load),
    /// Show disciplines on devices: parameters, state and statistics.
    Show {
        /// The device; all of this network namespace where none is given.
        device: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Change parameters, link or rate of a discipline on a device, or what a class has.
    ///
    /// What is queued stays. What is not named stays as it is.
    Change {
        /// The device.
        device: String,
        /// Parameters, as `name=value`; of a class also `guarantee`, `ceiling`, `weight` and
        /// `priority`, as `load` has them.
        #[arg(value_name = "NAME=VALUE")]
        settings: Vec<String>,
        #[command(flatten)]
        line: Line,
        /// The class that is meant, such as 1:10.
        #[arg(long, value_name = "ID", conflicts_with = "ingress")]
        class: Option<String>,
        /// What was loaded with --ingress.
        #[arg(long)]
        ingress: bool,
    },
    /// Show what a discipline on a device decides, packet by packet, as it happens.
    Trace {
        /// The device.
        device: String,
        /// The class of a shaper, as `weirgate aqm show` names it: `1:10`.
        #[arg(long, value_name = "CLASS")]
        class: Option<String>,
        /// End after so many packets came; without it, with Ctrl-C.
        #[arg(long, value_name = "COUNT")]
        packets: Option<u64>,
    },
    /// Record what a discipline on a device is told and decides, or make a recording of a capture.
    Record {
        /// The device; the file to write where --capture is given.
        device: PathBuf,
        /// The file to write.
        #[arg(required_unless_present = "capture", conflicts_with = "capture")]
        file: Option<PathBuf>,
        /// The class of a shaper, as `weirgate aqm show` names it: `1:10`.
        #[arg(long, conflicts_with = "capture", value_name = "CLASS")]
        class: Option<String>,
        /// End after so many packets came; without it, with Ctrl-C.
        #[arg(long, value_name = "COUNT")]
        packets: Option<u64>,
        /// Take the packets of this capture (pcap, pcapng) instead of a device's.
        #[arg(long, value_name = "PCAP")]
        capture: Option<PathBuf>,
    },
    /// Drive a discipline, built for this machine, by a recording.
    ///
    /// With the discipline that was recorded: its verdicts are compared with those in the
    /// recording. With any other, or with --rate: packets come as recorded and leave at the rate.
    /// Exit status 1 if a verdict or the state differs.
    Replay {
        /// The discipline.
        discipline: String,
        /// The recording.
        file: PathBuf,
        /// Parameters, as `name=value`.
        #[arg(value_name = "NAME=VALUE")]
        settings: Vec<String>,
        #[command(flatten)]
        line: Line,
        /// Where the random words of a capture begin.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Take a discipline off a device, and out of the kernel if no other device uses it.
    ///
    /// What it had queued is lost.
    Unload {
        /// The device.
        device: String,
        /// What was loaded with --ingress; nothing is queued there.
        #[arg(long)]
        ingress: bool,
    },
}

#[derive(Args)]
pub struct Load {
    /// The discipline; `weirgate aqm list` names them. Or the folder or source of one's own, or
    /// what `weirgate aqm build` made of it.
    pub discipline: String,
    /// The device.
    pub device: String,
    /// Parameters, as `name=value`; `weirgate aqm list DISCIPLINE` names them.
    #[arg(value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
    #[command(flatten)]
    pub line: Line,
    /// A class behind the gate, such as
    /// `1:10,priority=0,guarantee=102kbit,ceiling=400kbit,weight=1,queue=codel,target_ns=5ms`.
    ///
    /// A packet's class is its skb->priority, as for HTB. Packets that name none go to the last
    /// class. Without `queue`, DISCIPLINE and its parameters are the class's queue. Its parameter
    /// `weight` is written `queue.weight` here.
    #[arg(long = "class", value_name = "CLASS")]
    pub classes: Vec<String>,
    /// Replace a root qdisc that is there, or with --ingress a discipline.
    #[arg(long)]
    pub replace: bool,
    /// Hold what arrives at the device to the rate, without a queue: the discipline marks and
    /// drops by what would be queued. Needs no CONFIG_NET_SCH_BPF, but Linux 6.6.
    #[arg(long)]
    pub ingress: bool,
}

/// What is said of the link.
#[derive(Args)]
pub struct Line {
    /// Hold packets back to this rate on the wire.
    #[arg(long)]
    pub rate: Option<Rate>,
    /// The link layer, by name, such as adsl:bridged-vc-fcs.
    #[arg(long = "link", value_name = "LAYER")]
    pub layer: Option<String>,
    /// What the device counts of a packet: ethernet, pppoe, ppp, ...
    #[arg(long, default_value = "ethernet", value_name = "KIND")]
    pub device_kind: String,
}

pub fn run(command: &Command) -> Outcome {
    match command {
        Command::List { discipline } => list(discipline.as_deref()),
        Command::New { name, folder } => work::new(name, folder.as_deref()),
        Command::Test {
            discipline,
            recording,
            rate,
        } => work::test(discipline, recording.as_deref(), *rate),
        Command::Fuzz {
            discipline,
            seconds,
            floor,
        } => work::fuzz(discipline, *seconds, *floor),
        Command::Bench {
            disciplines,
            run,
            kernel,
            json,
            inside,
        } => bench::bench(disciplines, run, kernel.as_deref(), *json, *inside),
        Command::Verify {
            discipline,
            lab,
            kernels,
        } => verify::verify(discipline, *lab, kernels),
        Command::Build { discipline } => own::build(discipline),
        Command::Source { file } => work::source(file.as_deref()),
        Command::Load(load) if load.ingress => ingress::load(load),
        Command::Load(load) => live::load(load),
        Command::Show { device, json } => show::run(device.as_deref(), *json),
        Command::Change {
            device,
            settings,
            line,
            ingress: true,
            ..
        } => ingress::change(device, settings, line),
        Command::Change {
            device,
            settings,
            line,
            class,
            ..
        } => live::change(device, settings, line, class.as_deref()),
        Command::Trace {
            device,
            class,
            packets,
        } => record::trace(device, class.as_deref(), *packets),
        Command::Record {
            device,
            file,
            class,
            packets,
            capture,
        } => match (file, capture) {
            (_, Some(capture)) => capture::record(capture, device),
            (Some(file), None) => {
                let device = device.to_string_lossy();
                record::record(&device, class.as_deref(), file, *packets)
            }
            (None, None) => Err(wrong("name the file to write")),
        },
        Command::Replay {
            discipline,
            file,
            settings,
            line,
            seed,
        } => replay::run(discipline, file, settings, line, *seed),
        Command::Unload {
            device,
            ingress: true,
        } => ingress::unload(device),
        Command::Unload { device, .. } => live::unload(device),
    }
}

/// The discipline of that name, of the kit or one's own.
pub fn discipline(name: &str) -> Result<Discipline, Failure> {
    if let Some(found) = Discipline::named(name) {
        return Ok(found);
    }
    own::find(name)?.ok_or_else(|| {
        let all = Discipline::all();
        let names: Vec<&str> = all.iter().map(|one| one.name()).collect();
        wrong(format!(
            "there is no discipline `{name}`; there are {}, and your own by its folder",
            names.join(", ")
        ))
    })
}

/// Sets parameters from `name=value`; every mistake is told.
pub fn set(settings: &mut Settings, words: &[String]) -> Result<(), Failure> {
    let mut mistakes = String::new();
    for word in words {
        let outcome = match word.split_once('=') {
            Some((name, value)) => settings
                .set_text(name.trim(), value)
                .map_err(|error| error.to_string()),
            None => Err(format!("`{word}`: write name=value")),
        };
        if let Err(mistake) = outcome {
            // Writing to a String cannot fail.
            let _ = writeln!(mistakes, "weirgate: {mistake}");
        }
    }
    if mistakes.is_empty() {
        Ok(())
    } else {
        Err(Failure::Input(mistakes.trim_end().to_owned()))
    }
}

/// Takes over what is said of the link; the gate's rate in bytes a second.
pub fn apply_line(said: &Line, link: &mut Link, gate: &mut u64) -> Result<(), Failure> {
    if let Some(name) = &said.layer {
        let layer = LinkLayer::named(name).map_err(wrong)?;
        let device = DeviceKind::named(&said.device_kind).ok_or_else(|| {
            let kinds: Vec<&str> = DeviceKind::ALL.iter().map(|kind| kind.name()).collect();
            wrong(format!(
                "there is no kind of device `{}`; there are {}",
                said.device_kind,
                kinds.join(", ")
            ))
        })?;
        link.overhead_bytes = layer.overhead_on(device);
        link.mpu_bytes = layer.mpu();
        link.framing = match layer.framing() {
            Framing::None => 0,
            Framing::Atm => 1,
            Framing::Ptm => 2,
        };
    }
    if let Some(rate) = said.rate {
        let bytes = rate.as_bytes_per_second();
        if bytes == 0 {
            return Err(wrong("a rate must be at least 8 bit/s"));
        }
        *gate = bytes;
        link.rate_bytes_s = bytes;
    }
    Ok(())
}

/// `weirgate aqm list`.
fn list(name: Option<&str>) -> Outcome {
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
