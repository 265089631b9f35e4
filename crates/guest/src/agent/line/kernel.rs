// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The line in the kernel: a namespace between gateway and provider, whose two devices are
//! joined by a BPF program.
//!
//! The program decides when packets leave and which are dropped; this module reads its records.
//! A run uses it if the kernel supports BPF qdiscs and precise timers, and otherwise
//! [`tap`](super::tap).

use super::log::{Arrival, Log, Logged};
use super::model::lots;
use super::packet::Facts;
use crate::agent::clock::Clock;
use crate::agent::nodes::Nodes;
use anyhow::{Context, Result};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use weirgate_bpf::{LineEmulator, LineFraming, LineImpairments, LineRate, LineRecord, LineSide};
use weirgate_experiment::{Buffer, Direction, DropEnd, Framing, Impairments, Line, LineStretch};
use weirgate_units::Rate;

/// Interval between readings of the kernel's records in nanoseconds. The ring buffer holds the
/// packets of a gigabit per second for this time.
const READ_EVERY_NS: u64 = 10_000_000;
/// The longest time in nanoseconds after which a packet that is due has been delivered.
const LATE_NS: u64 = 5_000_000;

/// A line in the kernel.
#[derive(Debug)]
pub struct Emulation {
    program: LineEmulator,
    seen: Rc<RefCell<Seen>>,
    clock: Clock,
    longest_ns: u64,
}

/// The state that follows from the kernel's records so far.
#[derive(Debug)]
struct Seen {
    log: Log,
    clock: Clock,
    /// Packets of each direction that are on the line, by number.
    under_way: [BTreeMap<u32, Logged>; 2],
    /// Events after this time do not belong to the run.
    until_ns: u64,
    /// Whether a packet has arrived after that time, in each direction. Drops since then are
    /// caused by such packets.
    over: [bool; 2],
    failure: Option<io::Error>,
}

impl Emulation {
    /// Loads the line between two devices of the modem, for a run with this seed: the device to
    /// the gateway and the one to the provider.
    pub fn load(
        nodes: &Nodes,
        devices: [u32; 2],
        line: &Line,
        run_seed: u64,
        log: Log,
        clock: Clock,
    ) -> Result<Self> {
        let seen = Rc::new(RefCell::new(Seen {
            log,
            clock: clock.clone(),
            under_way: Default::default(),
            until_ns: u64::MAX,
            over: [false; 2],
            failure: None,
        }));
        let take = {
            let seen = Rc::clone(&seen);
            move |side: usize, number: u32, record: LineRecord<'_>| {
                seen.borrow_mut().take(side, number, record);
            }
        };
        let sides = [
            side(line, Direction::Up, run_seed)?,
            side(line, Direction::Down, run_seed)?,
        ];
        let longest_ns = sides.iter().map(LineSide::travels_ns).max();
        let mut program = LineEmulator::load(devices, sides, line.half_duplex, take)?;
        nodes.enter_modem(|| program.attach().map_err(io::Error::other))?;
        Ok(Self {
            program,
            seen,
            clock,
            longest_ns: longest_ns.unwrap_or_default(),
        })
    }

    /// Starts the line: packets cross it from now on, the zero of the run's clock. Packets after
    /// `until_ns` do not belong to the run.
    pub fn start(&self, until_ns: u64) -> Result<()> {
        self.seen.borrow_mut().until_ns = until_ns;
        Ok(self.program.start(self.clock.zero_ns())?)
    }

    /// Reads the kernel's records until an error occurs or the task is dropped.
    pub async fn read(shared: Rc<Self>) -> Result<()> {
        loop {
            shared.clock.pause(READ_EVERY_NS).await?;
            shared.drain()?;
        }
    }

    /// Ends the run. Waits until packets transmitted by its end have been delivered, and records
    /// them. Other packets stay `Left`.
    pub async fn finish(&self) -> Result<()> {
        self.program.stop()?;
        self.clock.pause(self.longest_ns + LATE_NS).await?;
        self.drain()
    }

    fn drain(&self) -> Result<()> {
        self.program.drain()?;
        match self.seen.borrow_mut().failure.take() {
            Some(failure) => Err(failure).context("record a packet on the line"),
            None => Ok(()),
        }
    }
}

impl Seen {
    fn take(&mut self, side: usize, number: u32, record: LineRecord<'_>) {
        let Some(under_way) = self.under_way.get_mut(side) else {
            return;
        };
        let zero_ns = self.clock.zero_ns();
        let since = |at_ns: u64| at_ns.saturating_sub(zero_ns);
        match record {
            LineRecord::Arrived {
                at_ns,
                ip_bytes,
                wire_bytes,
                ahead_packets,
                ahead_bytes,
                frame,
            } => {
                let at_ns = since(at_ns);
                if at_ns > self.until_ns {
                    self.over[side] = true;
                    return;
                }
                let arrival = Arrival {
                    direction: [Direction::Up, Direction::Down][side],
                    at_ns,
                    facts: Facts::read(frame, ip_bytes),
                    frame,
                    wire_bytes,
                    ahead: (ahead_packets, ahead_bytes),
                };
                match self.log.arrived(&arrival) {
                    Ok(logged) => {
                        under_way.insert(number, logged);
                    }
                    Err(error) => self.failure = Some(error),
                }
            }
            LineRecord::Dropped => {
                if let Some(logged) = under_way.remove(&number)
                    && !self.over[side]
                {
                    self.log.dropped(logged);
                }
            }
            LineRecord::Sent {
                start_ns,
                end_ns,
                left_ns,
            } => {
                if let Some(logged) = under_way.remove(&number)
                    && since(end_ns) <= self.until_ns
                {
                    self.log.sent(logged, since(start_ns), since(end_ns));
                    if let Some(left_ns) = left_ns.filter(|_| side == 1) {
                        self.log.left(logged, since(left_ns));
                    }
                }
            }
        }
    }
}

/// Returns the configuration of one direction for the program.
fn side(line: &Line, direction: Direction, seed: u64) -> Result<LineSide> {
    let (side, name) = match direction {
        Direction::Up => (&line.up, "upstream"),
        Direction::Down => (&line.down, "downstream"),
    };
    let stretches = line.stretches(direction);
    let is_dead = |stretch: Option<&LineStretch>| stretch.is_none_or(|one| one.rate == Rate::ZERO);
    anyhow::ensure!(
        !is_dead(stretches.first()) && !is_dead(stretches.last()),
        "the {name} rate of the line is 0"
    );
    let rates = stretches.iter().map(|stretch| LineRate {
        after_ns: stretch.after.as_nanos(),
        bits_per_second: stretch.rate.as_bits_per_second(),
        more_ns: stretch.later.as_nanos(),
    });
    let (limit, in_bytes) = match side.buffer {
        Buffer::Packets(packets) => (packets, false),
        Buffer::Bytes(most) => (u32::try_from(most.as_bytes()).unwrap_or(u32::MAX), true),
    };
    let Impairments {
        loss,
        jitter,
        reordering,
        bursts,
    } = side.impairments;
    Ok(LineSide {
        rates: rates.collect(),
        delay_ns: side.delay.as_nanos(),
        limit,
        in_bytes,
        drop_front: side.drop == DropEnd::Front,
        framing: match line.framing {
            Framing::None => LineFraming::Plain,
            Framing::Atm => LineFraming::Atm,
            Framing::Ptm => LineFraming::Ptm,
        },
        overhead: line.overhead,
        mpu: line.mpu,
        impairments: LineImpairments {
            lots: lots(seed, direction),
            loss,
            jitter_ns: jitter.as_nanos(),
            reordered: reordering.part,
            late_ns: reordering.by.as_nanos(),
            bursts_ns: bursts.as_nanos(),
        },
    })
}
