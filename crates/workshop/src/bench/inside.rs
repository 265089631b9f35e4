// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of `weirgate aqm bench` that runs in the lab's kernel, where one
//! instruction is one nanosecond of the clock.
//!
//! Packets come from inside the kernel ([`Sender`]) and leave by an IFB, which a softirq empties.
//! There are two methods that keep queues from running empty:
//!
//! - **Bursts.** One run of the sender puts packets on the device while softirqs are disabled. The
//!   device takes [`BATCH`] packets and stops its queue, so that the rest is queued. Then softirqs
//!   empty the queue, [`BATCH`] packets each. The same number of bursts of two sizes is sent. The
//!   additional packets of the larger bursts were all queued; the first [`BATCH`] of each burst may
//!   have bypassed the queue.
//! - **Paced**, for subjects with a rate. [`STANDING`] packets are queued. Then packets arrive at
//!   the line's rate, each at a different time between two departures, and a timer releases each.
//!   Idle time is filled with spins of known length. The time that the spins do not account for is
//!   the cost. This is done for two numbers of packets, and the difference counts.
//!
//! In both methods, the cost of preparation cancels out. Both are also run without a qdisc, and
//! that cost is subtracted.

use super::devices::{
    BYTES, CLASSES, DEVICE, FLOWS, MAJOR, MINOR, SINK, apply, packet, refused, state, through,
};
use super::rivals::rival;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use weirgate_aqm::{Discipline, Link, Settings, ShaperRule};
use weirgate_bpf::{
    AttachPoint, Attached, Class, Classes, Copies, Least, Qdisc, Sender, Setup, Shaper, Spent,
    Timed,
};
use weirgate_console::discipline::failed;
use weirgate_console::exit::{Failure, Outcome, Status, wrong};
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;
use weirgate_kernel::{DeviceIndex, Kernel};
use weirgate_state::{CakeAckFilter, DeviceName, State};
use weirgate_units::{Handle, Rate, Size};

/// Packets of the smaller and the larger bursts, and the packets that the device takes before it
/// stops.
const BURSTS: [u32; 2] = [32, 96];
const BATCH: u32 = 16;

/// The packets in the queue of a paced subject.
const STANDING: u32 = 32;

/// The number of spins with which the length of a spin is measured.
const SPINS: u64 = 2_000_000;

/// Paced packets take longer, so their number is divided by this.
const FEWER: u64 = 4;

/// How packets arrive at a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pacing {
    Bursts,
    Paced,
}

/// The result of one subject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub name: String,
    pub pacing: Pacing,
    /// Instructions for a packet, including sending it.
    pub whole: f64,
    /// The same, less those without a qdisc.
    pub cost: f64,
    /// Packets that never left the device; if there are any, the figure is invalid.
    pub lost: u64,
    /// The instructions of its programs by name, if requested.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub programs: BTreeMap<String, Program>,
}

/// A program of a qdisc.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// How often it runs for a packet.
    pub runs: f64,
    /// Instructions of a run, including calls and the measurement itself, which takes about 100.
    pub instructions: f64,
}

/// Names of the measurement without a qdisc.
const BARE: &str = "noqueue";
const BARE_PACED: &str = "noqueue-paced";

/// The names of the kernel's own disciplines.
const RIVALS: [(&str, Pacing); 10] = [
    (BARE, Pacing::Bursts),
    ("kernel-pfifo", Pacing::Bursts),
    ("least-bpf", Pacing::Bursts),
    ("kernel-fq_codel", Pacing::Bursts),
    ("kernel-red", Pacing::Bursts),
    ("kernel-sfq", Pacing::Bursts),
    (BARE_PACED, Pacing::Paced),
    ("kernel-cake", Pacing::Paced),
    ("kernel-cake+tins", Pacing::Paced),
    ("kernel-htb+fq_codel", Pacing::Paced),
];

/// Suffixes of the kit's disciplines with a shaper, and with a shaper and classes.
const GATED: &str = "+rate";
const CLASSED: &str = "+classes";

/// Returns everything that can be measured, in the order of the table.
pub fn all() -> Vec<(String, Pacing)> {
    let rival = |pacing| {
        let found = RIVALS.into_iter().filter(move |(_, its)| *its == pacing);
        found.map(|(name, pacing)| (name.to_owned(), pacing))
    };
    let kit = |suffix: &'static str, pacing| {
        let all = Discipline::all().into_iter();
        all.map(move |it| (format!("{}{suffix}", it.name()), pacing))
    };
    let mut all: Vec<_> = rival(Pacing::Bursts)
        .chain(kit("", Pacing::Bursts))
        .collect();
    all.extend(rival(Pacing::Paced));
    all.extend(kit(GATED, Pacing::Paced).filter(|(name, _)| name.starts_with("droptail")));
    all.extend(kit(CLASSED, Pacing::Paced));
    all
}

/// Returns whether an argument names a subject: by its own name, or by its discipline's name.
pub fn is_named(name: &str, word: &str) -> bool {
    let own = name.split('+').next().unwrap_or(name);
    name == word || own == word || own.strip_prefix("kernel-") == Some(word)
}

/// The folder in which the lab puts packed programs.
const PACKED: &str = "/usr/sbin";

/// Returns the subjects for a user's own discipline, named by the path of its file in the lab:
/// without a rate and with one.
pub fn own(file: &Path) -> [String; 2] {
    let base = file.file_name().unwrap_or_default().to_string_lossy();
    let path = format!("{PACKED}/{base}");
    [path.clone(), path + GATED]
}

/// Renames a figure from the file's path to the discipline's name.
pub fn shown(figure: Figure) -> Figure {
    let name = figure.name.trim_start_matches(PACKED);
    Figure {
        name: name.trim_start_matches('/').replace(".so", ""),
        ..figure
    }
}

/// Runs `weirgate aqm bench --inside`, which prints JSON for the outer part.
pub fn run(words: &[String], packets: u64, rate: Rate, programs: bool) -> Outcome {
    in_runtime(async {
        let mut bench = Bench::set_up(rate).await?;
        let mut figures = Vec::new();
        let files = words.iter().filter(|word| word.starts_with(PACKED));
        let of_files = files.map(|word| {
            let gated = word.ends_with(GATED);
            (
                word.clone(),
                if gated { Pacing::Paced } else { Pacing::Bursts },
            )
        });
        let chosen = all().into_iter().filter(|(name, _)| words.contains(name));
        let chosen = chosen.chain(of_files);
        for (name, pacing) in chosen {
            let bare = match pacing {
                Pacing::Bursts => BARE,
                Pacing::Paced => BARE_PACED,
            };
            let (sending, _) = bench.measure(bare, pacing, packets).await?;
            let (whole, lost) = bench.measure(&name, pacing, packets).await?;
            let programs = if programs {
                bench.programs(&name, pacing, packets).await?
            } else {
                BTreeMap::new()
            };
            figures.push(Figure {
                cost: whole - sending,
                name,
                pacing,
                whole,
                lost,
                programs,
            });
        }
        let text = serde_json::to_string(&figures).map_err(anyhow::Error::from)?;
        output::data(&format!("{text}\n"))?;
        Ok(Status::Done)
    })
}

struct Bench {
    kernel: Kernel,
    sender: Sender,
    name: DeviceName,
    device: DeviceIndex,
    sink: DeviceIndex,
    applied: State,
    /// The rate, and the time of one packet at that rate.
    rate: Rate,
    gap: Duration,
    /// The length of an idle spin, in nanoseconds.
    spin: f64,
    /// The meter of programs' run times, and its last reading.
    timed: Option<Timed>,
    ran: BTreeMap<String, Spent>,
}

/// Keeps a kind of qdisc loaded while it is measured.
#[expect(dead_code, reason = "the kind is there as long as this is")]
enum Held {
    Nothing,
    Least(Least),
    /// With its marking program, if it has one.
    One(Qdisc, Option<Attached>),
    Shaper(Shaper, Option<Attached>),
}

/// Returns the length of a spin that only reads the clock, in nanoseconds.
pub(super) fn spin() -> f64 {
    let start = Instant::now();
    let mut spins = 0_u64;
    while spins < SPINS {
        spins += u64::from(start.elapsed() < Duration::from_hours(1));
    }
    start.elapsed().as_nanos() as f64 / SPINS as f64
}

impl Bench {
    async fn set_up(rate: Rate) -> Result<Self, Failure> {
        let gap = rate
            .time_for(Size::bytes(BYTES as u64))
            .ok_or_else(|| wrong("no packet leaves at this rate"))?;
        let kernel = Kernel::open().map_err(|error| refused(&error))?;
        let sender = Sender::load().map_err(failed)?;
        let empty = State::default();
        let desired = state(None)?;
        apply(&kernel, &empty, &desired).await?;
        let find = |text: &'static str| {
            DeviceName::new(text).ok_or_else(|| wrong(format!("{text} is no name")))
        };
        let (name, sink) = (find(DEVICE)?, find(SINK)?);
        let device = kernel
            .device(&name)
            .await
            .map_err(|error| refused(&error))?;
        let far = kernel
            .device(&sink)
            .await
            .map_err(|error| refused(&error))?;
        kernel
            .put_root(&sink, far, "noqueue")
            .await
            .map_err(|error| refused(&error))?;
        Ok(Self {
            kernel,
            sender,
            name,
            device,
            sink: far,
            applied: desired,
            rate,
            gap: Duration::from_nanos(gap.as_nanos()),
            spin: spin(),
            timed: None,
            ran: BTreeMap::new(),
        })
    }

    /// Returns the instructions for a packet, and the number of lost packets.
    async fn measure(
        &mut self,
        name: &str,
        pacing: Pacing,
        packets: u64,
    ) -> Result<(f64, u64), Failure> {
        self.ran.clear();
        // A stopped device without a qdisc drops packets, so it must not stop.
        let bare = name.starts_with("noqueue");
        let room = if bare { 2 * BURSTS[1] } else { BATCH };
        let path = format!("/sys/class/net/{DEVICE}/tx_queue_len");
        fs::write(&path, room.to_string()).map_err(|error| wrong(format!("{path}: {error}")))?;
        let held = self.put(name).await?;
        let packets = match pacing {
            Pacing::Bursts => packets,
            Pacing::Paced => packets / FEWER,
        };
        let before = through()?;
        let mut spent = [0.0; 2];
        let standing = if bare { 0 } else { STANDING };
        let bursts = packets / u64::from(BURSTS[0]);
        let packets = bursts * u64::from(BURSTS[0]);
        for (number, of) in [packets, 3 * packets].into_iter().enumerate() {
            spent[number] = match pacing {
                Pacing::Bursts => self.bursts(bursts, BURSTS[number])?,
                Pacing::Paced => self.paced(of, standing)?,
            };
        }
        // The queued packets leave within this time.
        thread::sleep(2 * STANDING * self.gap);
        if let Some(timed) = &self.timed {
            self.ran = timed.spent();
        }
        let due = 4 * packets
            + if pacing == Pacing::Paced {
                u64::from(standing)
            } else {
                0
            };
        let lost = due.saturating_sub(through()? - before);
        self.clear(name, &held).await?;
        Ok(((spent[1] - spent[0]) / (2 * packets) as f64, lost))
    }

    /// Measures the programs of a qdisc in a separate run.
    async fn programs(
        &mut self,
        name: &str,
        pacing: Pacing,
        packets: u64,
    ) -> Result<BTreeMap<String, Program>, Failure> {
        self.timed = Some(Timed::begin().map_err(failed)?);
        let measured = self.measure(name, pacing, packets).await;
        self.timed = None;
        measured?;
        let all = match pacing {
            Pacing::Bursts => 4 * packets,
            Pacing::Paced => 4 * (packets / FEWER),
        };
        let ran = std::mem::take(&mut self.ran).into_iter();
        let ran = ran.filter(|(_, spent)| spent.runs > 1);
        Ok(ran
            .map(|(name, spent)| {
                let program = Program {
                    runs: spent.runs as f64 / all as f64,
                    instructions: spent.nanos as f64 / spent.runs as f64,
                };
                (name, program)
            })
            .collect())
    }

    /// Returns the time of bursts of a size, in nanoseconds.
    fn bursts(&mut self, bursts: u64, size: u32) -> Result<f64, Failure> {
        let flows: Vec<Vec<u8>> = (0..FLOWS).map(packet).collect();
        let start = Instant::now();
        for number in 0..bursts {
            let flow = &flows[number as usize % flows.len()];
            self.send(flow, number, size)?;
        }
        Ok(start.elapsed().as_nanos() as f64)
    }

    /// Returns the time of work for packets that arrive one at a time, in nanoseconds.
    fn paced(&mut self, packets: u64, standing: u32) -> Result<f64, Failure> {
        let flows: Vec<Vec<u8>> = (0..FLOWS).map(packet).collect();
        for number in 0..u64::from(standing) {
            self.send(&flows[number as usize % flows.len()], number, 1)?;
        }
        let start = Instant::now();
        let (mut sent, mut spins, mut due) = (0, 0_u64, Duration::ZERO);
        while sent < packets {
            if start.elapsed() < due {
                spins += 1;
            } else {
                self.send(&flows[sent as usize % flows.len()], sent, 1)?;
                sent += 1;
                due = self.gap * u32::try_from(sent).unwrap_or(u32::MAX) + offset(sent, self.gap);
            }
        }
        Ok(start.elapsed().as_nanos() as f64 - spins as f64 * self.spin)
    }

    fn send(&mut self, packet: &[u8], number: u64, count: u32) -> Result<(), Failure> {
        let class = MINOR + (number % u64::from(CLASSES)) as u16;
        self.sender
            .send(&Copies {
                packet,
                priority: Handle::new(MAJOR, class).as_u32(),
                from: self.sink.number(),
                to: self.device.number(),
                count,
            })
            .map_err(failed)
    }

    /// Puts the subject on the device.
    async fn put(&mut self, name: &str) -> Result<Held, Failure> {
        if let Some(kind) = rival(name, self.rate) {
            let desired = state(Some(kind))?;
            apply(&self.kernel, &self.applied, &desired).await?;
            self.applied = desired;
            return Ok(Held::Nothing);
        }
        let (held, kind) = self.kit(name)?;
        let put = self.kernel.put_root(&self.name, self.device, &kind);
        put.await.map_err(|error| refused(&error))?;
        Ok(held)
    }

    fn kit(&self, name: &str) -> Result<(Held, String), Failure> {
        let point = AttachPoint::root(self.device.number()).map_err(failed)?;
        let rate = self.rate.as_bits_per_second() / 8;
        let link = Link {
            rate_bytes_s: rate,
            queue_packets: 1_000,
            ..Link::default()
        };
        if name.starts_with("noqueue") {
            return Ok((Held::Nothing, "noqueue".to_owned()));
        }
        if name == "least-bpf" {
            let least = Least::load().map_err(failed)?;
            return Ok((Held::Least(least), Least::KIND.to_owned()));
        }
        let own = name.split('+').next().unwrap_or(name);
        let settings = Settings::new(weirgate_console::discipline::discipline(own)?);
        let marks = settings.marks();
        if name.ends_with(CLASSED) {
            let shaper = Shaper::load().map_err(failed)?;
            let class = |number: u16| Class {
                rule: ShaperRule {
                    guarantee_bytes_s: rate / u64::from(CLASSES) / 2,
                    weight: 1,
                    priority: u32::from(number),
                    classid: Handle::new(MAJOR, MINOR + number).as_u32(),
                    ..ShaperRule::default()
                },
                settings: settings.clone(),
            };
            let classes = Classes {
                link,
                gate_bytes_s: rate,
                acks: CakeAckFilter::No,
                classes: (0..CLASSES).map(class).collect(),
                other: 0,
            };
            shaper.set(point, &classes).map_err(failed)?;
            let marker = marks.then(|| shaper.mark(point)).transpose();
            let held = Held::Shaper(shaper, marker.map_err(failed)?);
            return Ok((held, Shaper::KIND.to_owned()));
        }
        let qdisc = Qdisc::load(settings.discipline()).map_err(failed)?;
        let setup = Setup {
            settings,
            link,
            gate_bytes_s: if name.ends_with(GATED) { rate } else { 0 },
        };
        qdisc.set(point, &setup).map_err(failed)?;
        let kind = qdisc.kind().to_owned();
        let marker = marks.then(|| qdisc.mark(point)).transpose();
        Ok((Held::One(qdisc, marker.map_err(failed)?), kind))
    }

    /// Removes the subject from the device.
    async fn clear(&mut self, name: &str, held: &Held) -> Result<(), Failure> {
        if rival(name, self.rate).is_some() {
            let desired = state(None)?;
            apply(&self.kernel, &self.applied, &desired).await?;
            self.applied = desired;
        }
        if matches!(held, Held::Nothing) {
            return Ok(());
        }
        let dropped = self.kernel.drop_root(&self.name, self.device);
        dropped.await.map_err(|error| refused(&error))
    }
}

/// Returns the time within a gap at which a packet arrives, uniformly distributed. If packets
/// always arrived at the same time before a departure, the result would depend on that time.
fn offset(number: u64, gap: Duration) -> Duration {
    // The multiples of 2^64 over the golden ratio.
    let spin = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let nanos = (u128::from(spin) * gap.as_nanos()) >> 64;
    Duration::from_nanos(nanos as u64)
}
