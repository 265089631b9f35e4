// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of `weirgate-lab aqm circuits` that runs in the lab's kernel.
//!
//! Packets come from inside the kernel and leave by an IFB, as in `inside.rs`. Without a limit,
//! they arrive in bursts of two sizes, for any of the circuits. With a limit, each circuit has a
//! backlog. Each time the ceilings have released [`BATCH`] packets, that many more arrive, one for
//! each circuit in turn. Idle time is filled with spins of known length.

use super::circuits::{Found, Limiting, Scheduler, Subject};
use super::devices::{DEVICE, SINK, apply, packet_of, refused, state, through};
use super::inside::spin;
use super::rivals::{self, Leaf};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};
use weirgate_aqm::{EngineSize, Link, NodeRow, NodeRule};
use weirgate_bpf::{Circuits, Copies, Engine, EngineSetup, Sender};
use weirgate_console::discipline::failed;
use weirgate_console::exit::{Failure, wrong};
use weirgate_kernel::{DeviceIndex, Kernel};
use weirgate_state::{DeviceName, State};
use weirgate_units::{Handle, Rate};

/// Bytes of a packet.
pub(super) const PACKET: usize = 200;

/// Packets per second with a limit.
const PACED: u64 = 100_000;

/// Sites below the root.
const SITES: u32 = 50;

/// Packets of the smaller and the larger bursts, and the packets that the device takes before it
/// stops.
const BURSTS: [u32; 2] = [32, 96];
const ROOM: u32 = 16;

/// Packets that arrive at once with a limit.
const BATCH: u32 = 16;

/// The packets of all smaller bursts; the larger ones have three times as many.
const PACKETS: u64 = 25_600;

/// A rate that is never reached, in bytes a second.
const UNREACHED: u64 = 12_500_000_000;

/// The number of circuits whose rates are measured.
const SAMPLED: u32 = 1_000;

/// The first rows of the engine's nodes: the root, sites, circuits.
const ROOT: u32 = 1;
const FIRST_SITE: u32 = 2;
const FIRST: u32 = FIRST_SITE + SITES;

/// The engine's packet slots without a limit.
const FREE: (u32, u32) = (65_536, 262_144);

struct Tree {
    kernel: Kernel,
    sender: Sender,
    name: DeviceName,
    device: DeviceIndex,
    sink: DeviceIndex,
    bare: State,
    subject: Subject,
    spin: f64,
}

/// Measures a subject.
pub(super) async fn measure(subject: Subject) -> Result<Found, Failure> {
    let mut tree = Tree::set_up(subject).await?;
    room(2 * BURSTS[1])?;
    let free = subject.limiting == Limiting::Free;
    let noqueue = match subject.limiting {
        Limiting::Free => Some(tree.bursts()?),
        Limiting::Circuits | Limiting::Sites => Some(tree.paced(2 * PACKETS)?),
        Limiting::Rates => None,
    };
    room(ROOM)?;
    let mut found = Found {
        subject,
        instructions: None,
        noqueue,
        left_of_100: None,
        load_ms: None,
        rows_ms: None,
        again_ms: None,
        some_ms: None,
        put_ms: 0.0,
        off_ms: 0.0,
        memory_mib: 0.0,
        queued: 0,
        most_wrong: None,
        mean_wrong: None,
        sampled: 0,
    };
    let before = available()?;
    let engine = tree.engine(&mut found)?;
    let began = Instant::now();
    let desired = tree.put(engine.is_some()).await?;
    found.put_ms = millis(began);
    found.memory_mib = before - available()?;
    let came = through()?;
    let mut sent = 0;
    if free {
        found.instructions = noqueue
            .map(|bare| tree.bursts().map(|cost| cost - bare))
            .transpose()?;
        sent = 4 * PACKETS;
    } else {
        sent += tree.fill()?;
        sent += PACKETS;
        tree.paced(PACKETS)?;
        let (from, start) = (through()?, Instant::now());
        let counts = engine.as_ref().map(|it| tree.counts(it));
        if let Some(bare) = noqueue {
            found.instructions = Some(tree.paced(2 * PACKETS)? - bare);
            found.left_of_100 = Some((through()? - from) as f64 / (2 * PACKETS) as f64 * 100.0);
            sent += 2 * PACKETS;
        }
        // Continue until a second has passed.
        let left = Duration::from_secs(1).saturating_sub(start.elapsed());
        let more = left.as_nanos() as u64 * PACED / 1_000_000_000;
        tree.paced(more)?;
        sent += more;
        if let Some((engine, counts)) = engine.as_ref().zip(counts) {
            tree.judge(engine, &counts, &mut found);
        }
    }
    found.queued = match &engine {
        Some(engine) => (0..subject.circuits)
            .filter_map(|number| engine.counts(FIRST + number))
            .map(|counts| u64::from(counts.packets))
            .sum(),
        None => sent.saturating_sub(through()? - came),
    };
    let began = Instant::now();
    if let Some(desired) = desired {
        apply(&tree.kernel, &desired, &tree.bare).await?;
    } else {
        let dropped = tree.kernel.drop_root(&tree.name, tree.device);
        dropped.await.map_err(|error| refused(&error))?;
    }
    found.off_ms = millis(began);
    Ok(found)
}

fn millis(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}

/// Returns the available memory (proc(5)), in MiB.
fn available() -> Result<f64, Failure> {
    let path = "/proc/meminfo";
    let text = fs::read_to_string(path).map_err(|error| wrong(format!("{path}: {error}")))?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let words = line.and_then(|line| line.split_whitespace().next());
    let kib: f64 = words
        .and_then(|word| word.parse().ok())
        .ok_or_else(|| wrong(format!("{path} does not say what is available")))?;
    Ok(kib / 1024.0)
}

/// Sets how many packets the device takes before it stops. Without a qdisc, a stopped device drops
/// packets, so it must not stop.
fn room(packets: u32) -> Result<(), Failure> {
    let path = format!("/sys/class/net/{DEVICE}/tx_queue_len");
    fs::write(&path, packets.to_string()).map_err(|error| wrong(format!("{path}: {error}")))
}

impl Tree {
    async fn set_up(subject: Subject) -> Result<Self, Failure> {
        let kernel = Kernel::open().map_err(|error| refused(&error))?;
        let bare = state(None)?;
        apply(&kernel, &State::default(), &bare).await?;
        let name = |text| DeviceName::new(text).ok_or_else(|| wrong(text));
        let (device, sink) = (name(DEVICE)?, name(SINK)?);
        let mut indices = Vec::new();
        for one in [&device, &sink] {
            let index = kernel.device(one).await.map_err(|error| refused(&error))?;
            let put = kernel.put_root(one, index, "noqueue");
            put.await.map_err(|error| refused(&error))?;
            indices.push(index);
        }
        Ok(Self {
            sender: Sender::load().map_err(failed)?,
            name: device,
            device: indices[0],
            sink: indices[1],
            bare,
            subject,
            spin: spin(),
            kernel,
        })
    }

    /// Returns the ceilings of a site and of a circuit, in bytes per second.
    fn rates(&self, number: u32) -> (u64, u64) {
        let all = PACED * PACKET as u64;
        match self.subject.limiting {
            Limiting::Circuits => (UNREACHED, all / u64::from(self.subject.circuits)),
            Limiting::Sites => (all / u64::from(SITES), UNREACHED),
            // From 10 to 100 packets per second, but not whole numbers.
            Limiting::Rates if number < SAMPLED => {
                (UNREACHED, 10 * PACKET as u64 + 18 * u64::from(number) + 1)
            }
            Limiting::Free | Limiting::Rates => (UNREACHED, UNREACHED),
        }
    }

    /// Returns the row of a circuit.
    fn circuit(&self, number: u32) -> NodeRow {
        NodeRow {
            parent: FIRST_SITE + number % SITES,
            fork: 0,
            rule: NodeRule {
                ceiling_bytes_s: self.rates(number).1,
                quantum: 1_514,
                // Queued packets must not be dropped.
                target_ns: 1_000_000_000,
                limit_bytes: if self.subject.limiting == Limiting::Rates {
                    40 * PACKET as u32
                } else {
                    0
                },
                ..NodeRule::default()
            },
        }
    }

    /// Loads the engine and writes its rows, if it is the subject.
    fn engine(&self, found: &mut Found) -> Result<Option<Engine>, Failure> {
        let host_parts = match self.subject.scheduler {
            Scheduler::Engine => 0,
            // The destination's address.
            Scheduler::EngineHosts => 2,
            Scheduler::HtbCake | Scheduler::HtbFqCodel => return Ok(None),
        };
        let circuits = self.subject.circuits;
        let (queues, slots) = match self.subject.limiting {
            Limiting::Free | Limiting::Rates => FREE,
            Limiting::Circuits | Limiting::Sites => (circuits + 1_024, 3 * circuits + 65_536),
        };
        let began = Instant::now();
        let engine = Engine::load(EngineSize {
            nodes: FIRST + circuits,
            inner: SITES + 1,
            queues,
            slots,
            limit_bytes: 1 << 40,
            hosts: 0,
        });
        let engine = engine.map_err(failed)?;
        found.load_ms = Some(millis(began));
        let link = Link {
            mtu_bytes: PACKET as u32,
            ..Link::default()
        };
        let setup = EngineSetup {
            link,
            root: ROOT,
            other: FIRST,
            host_parts,
        };
        engine.set(&setup).map_err(failed)?;
        let began = Instant::now();
        let above = |parent, fork, ceiling_bytes_s| NodeRow {
            parent,
            fork,
            rule: NodeRule {
                ceiling_bytes_s,
                quantum: 1_514,
                ..NodeRule::default()
            },
        };
        engine.put(ROOT, &above(0, 1, UNREACHED));
        for site in 0..SITES {
            let row = above(ROOT, 2 + site, self.rates(0).0);
            engine.put(FIRST_SITE + site, &row);
        }
        let say = |count: u32| {
            (0..count).for_each(|number| {
                engine.put(FIRST + number, &self.circuit(number));
            });
        };
        say(circuits);
        found.rows_ms = Some(millis(began));
        let began = Instant::now();
        say(circuits);
        found.again_ms = Some(millis(began));
        let began = Instant::now();
        say(circuits.min(10_000));
        found.some_ms = (circuits >= 10_000).then(|| millis(began));
        Ok(Some(engine))
    }

    /// Puts the scheduler on the device. For HTB, returns the state to undo.
    async fn put(&self, engine: bool) -> Result<Option<State>, Failure> {
        if engine {
            let put = self.kernel.put_root(&self.name, self.device, Engine::KIND);
            put.await.map_err(|error| refused(&error))?;
            return Ok(None);
        }
        let (site, circuit) = self.rates(0);
        let own = match self.subject.limiting {
            // The circuits of a site together have half of its rate guaranteed.
            Limiting::Sites => site * u64::from(SITES) / u64::from(self.subject.circuits) / 2,
            _ => circuit,
        };
        let rate = |bytes: u64| Rate::bits_per_second(bytes * 8);
        let first = FIRST as u16;
        let kind = rivals::circuits(&rivals::Circuits {
            sites: FIRST_SITE as u16..first,
            leaves: first..first + self.subject.circuits as u16,
            site: rate(site),
            circuit: rate(circuit),
            own: rate(own),
            leaf: if self.subject.scheduler == Scheduler::HtbCake {
                Leaf::Cake
            } else {
                Leaf::FqCodel
            },
        });
        // The qdisc that was put there directly is not part of a state.
        let dropped = self.kernel.drop_root(&self.name, self.device);
        dropped.await.map_err(|error| refused(&error))?;
        let desired = state(Some(kind))?;
        apply(&self.kernel, &self.bare, &desired).await?;
        Ok(Some(desired))
    }

    fn send(&mut self, count: u32, turns: bool) -> Result<(), Failure> {
        let packet = packet_of(1, PACKET);
        let copies = Copies {
            packet: &packet,
            priority: 0,
            from: self.sink.number(),
            to: self.device.number(),
            count,
        };
        let first = match self.subject.scheduler {
            Scheduler::Engine | Scheduler::EngineHosts => FIRST,
            Scheduler::HtbCake | Scheduler::HtbFqCodel => {
                Handle::new(super::devices::MAJOR, FIRST as u16).as_u32()
            }
        };
        let of = Circuits {
            first,
            count: self.backlogged(),
            turns,
        };
        self.sender.send_of(&copies, of).map_err(failed)
    }

    /// Returns the number of circuits that receive packets.
    fn backlogged(&self) -> u32 {
        match self.subject.limiting {
            Limiting::Rates => self.subject.circuits.min(SAMPLED),
            _ => self.subject.circuits,
        }
    }

    /// Returns the total instructions for a packet in bursts.
    fn bursts(&mut self) -> Result<f64, Failure> {
        let mut spent = [0.0; 2];
        for (of, size) in spent.iter_mut().zip(BURSTS) {
            let start = Instant::now();
            for _ in 0..PACKETS / u64::from(BURSTS[0]) {
                self.send(size, false)?;
            }
            *of = start.elapsed().as_nanos() as f64;
        }
        // The queued packets leave within this time.
        thread::sleep(Duration::from_millis(50));
        Ok((spent[1] - spent[0]) / (2 * PACKETS) as f64)
    }

    /// Returns the instructions for a packet, for this many packets at the highest rate that the
    /// ceilings permit.
    fn paced(&mut self, packets: u64) -> Result<f64, Failure> {
        let gap = Duration::from_nanos(1_000_000_000 * u64::from(BATCH) / PACED);
        let start = Instant::now();
        let (mut sent, mut spins, mut due) = (0, 0_u64, Duration::ZERO);
        while sent < packets {
            if start.elapsed() < due {
                spins += 1;
            } else {
                self.send(BATCH, true)?;
                sent += u64::from(BATCH);
                due += gap;
            }
        }
        let work = start.elapsed().as_nanos() as f64 - spins as f64 * self.spin;
        Ok(work / sent.max(1) as f64)
    }

    /// Fills the queues. A first packet of each circuit is sent at once. A second one at the pace
    /// of later packets is sent too, and starts its circuit's clock. Two more wait. Returns the
    /// number of packets.
    fn fill(&mut self) -> Result<u64, Failure> {
        let all = self.backlogged();
        let mut sent = 0;
        let passes = if self.subject.limiting == Limiting::Rates {
            40
        } else {
            4
        };
        for pass in 0..passes {
            if pass == 1 && self.subject.limiting == Limiting::Circuits {
                self.paced(u64::from(all))?;
                sent += u64::from(all).next_multiple_of(BATCH.into());
                continue;
            }
            let mut left = all;
            while left > 0 {
                let now = left.min(64);
                self.send(now, true)?;
                left -= now;
                sent += u64::from(now);
            }
        }
        Ok(sent)
    }

    /// Returns the bytes that sampled circuits have sent, and the time of each reading.
    fn counts(&self, engine: &Engine) -> Vec<(u32, u64, Instant)> {
        let sampled = self.backlogged().min(SAMPLED);
        let apart = self.backlogged() / sampled.max(1);
        let of = |number: u32| {
            let number = number * apart;
            let counts = engine.counts(FIRST + number);
            let sent = counts.map_or(0, |counts| counts.sent_packets);
            (number, sent, Instant::now())
        };
        (0..sampled).map(of).collect()
    }

    /// Computes how far the circuits' sent bytes are from their rates.
    fn judge(&self, engine: &Engine, before: &[(u32, u64, Instant)], found: &mut Found) {
        if self.subject.limiting == Limiting::Sites {
            return;
        }
        let after = self.counts(engine);
        let wrong = before.iter().zip(after).map(|(from, to)| {
            let span = to.2.duration_since(from.2).as_secs_f64();
            let due = self.rates(from.0).1 as f64 * span / PACKET as f64;
            ((to.1 - from.1) as f64 - due).abs()
        });
        let wrong: Vec<f64> = wrong.collect();
        found.sampled = wrong.len() as u32;
        found.most_wrong = wrong.iter().copied().reduce(f64::max);
        found.mean_wrong = Some(wrong.iter().sum::<f64>() / wrong.len() as f64);
    }
}
