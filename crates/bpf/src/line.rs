// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The laboratory's line in the kernel (`bpf/lab/line.bpf.c`), between two devices
//! of a network namespace.

use crate::error::BpfError;
use crate::layout::{
    LINE_ARRIVED, LINE_ATM, LINE_DROPPED, LINE_LOST, LINE_PLAIN, LINE_PTM, LINE_SENT, line_arrival,
    line_constants, line_control, line_head, line_rate, line_sent, line_setup,
};
use crate::maps::{Map, failed};
use crate::programs::Attached;
use crate::programs::packet::PacketPrograms;
use crate::programs::tcx::End;
use crate::qdisc::load::OPS;
use libbpf_rs::{Link, RingBuffer, RingBufferBuilder};
use std::fmt;
use std::os::fd::AsFd;
use zerocopy::{FromBytes, IntoBytes};

/// The program's file, and what errors call it.
const NAME: &str = "line";
const RECORDS: &str = "records";
/// The kernel's smallest packet of IP that matters: an acknowledgement of TCP.
const SMALLEST_IP: u64 = 40;
/// Packets on the line at least, whatever its buffer and delay.
const LEAST_ROOM: u64 = 64;
/// And at most, some 50 MB of the kernel's memory.
const MOST_ROOM: u64 = 1 << 19;

/// How a direction turns packets of IP into line bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineFraming {
    /// As they are.
    Plain,
    /// In cells of ATM.
    Atm,
    /// In codewords of PTM.
    Ptm,
}

/// What a direction has for transmissions that begin after a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineRate {
    /// Nanoseconds since the start.
    pub after_ns: u64,
    /// Line rate; at 0 no transmission begins.
    pub bits_per_second: u64,
    /// Nanoseconds that a packet takes beside the direction's delay.
    pub more_ns: u64,
}

/// One direction of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineSide {
    /// What it has over time; the first from 0 on. Neither the first nor the last is 0.
    pub rates: Vec<LineRate>,
    /// Nanoseconds between a packet's last bit and its end of the line.
    pub delay_ns: u64,
    /// What may wait: packets, or bytes of IP.
    pub limit: u32,
    /// Whether the limit is in bytes.
    pub in_bytes: bool,
    /// Whether the oldest packet that waits is dropped, rather than the new one.
    pub drop_front: bool,
    /// The framing.
    pub framing: LineFraming,
    /// Bytes that the line adds to a packet of IP.
    pub overhead: i32,
    /// The least bytes of a packet with them.
    pub mpu: u32,
    /// What happens after transmission.
    pub impairments: LineImpairments,
}

/// What happens to the packets of a direction after transmission. Times are nanoseconds, of
/// less than 2^32. By default nothing happens to them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LineImpairments {
    /// What lots are drawn by.
    pub lots: u64,
    /// How many of a million are lost.
    pub loss: u32,
    /// Up to how much longer one takes, evenly distributed; order is kept.
    pub jitter_ns: u64,
    /// How many of a million arrive late, so that those behind them pass them.
    pub reordered: u32,
    /// How much later.
    pub late_ns: u64,
    /// What was transmitted in each such time, counted from the start, arrives together at
    /// its end; 0 for as it is transmitted.
    pub bursts_ns: u64,
}

/// What happened on the line. Packets are numbered from 0 in each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineRecord<'a> {
    /// A packet came to the queue.
    Arrived {
        /// `CLOCK_MONOTONIC`, as all times here.
        at_ns: u64,
        /// Bytes of IP, and with framing.
        ip_bytes: u32,
        /// Line bytes.
        wire_bytes: u32,
        /// Packets that wait or are in transmission.
        ahead_packets: u32,
        /// Their bytes of IP.
        ahead_bytes: u32,
        /// The first bytes of the frame.
        frame: &'a [u8],
    },
    /// It was dropped, because the queue was full.
    Dropped,
    /// It was transmitted, and has reached the other end or was lost before.
    Sent {
        /// First bit.
        start_ns: u64,
        /// Last bit, rounded up.
        end_ns: u64,
        /// When the kernel handed it over; none for one that was lost on the way.
        left_ns: Option<u64>,
    },
}

/// A line between two devices; it is gone when this is dropped.
pub struct LineEmulator {
    programs: PacketPrograms,
    control: Map<u32, line_control>,
    rates: Map<u32, line_rate>,
    sides: [LineSide; 2],
    records: RingBuffer<'static>,
    devices: [u32; 2],
    _kind: Link,
    attached: Vec<Attached>,
}

impl LineEmulator {
    /// The kind of its qdisc for netlink.
    pub const KIND: &'static str = "weir_lab_line";

    /// Loads a line: what arrives at the first device has the first side and
    /// leaves by the second device, and the other way round. Where the line is half duplex,
    /// one of them transmits at a time, and the machine has one processor. `take` gets each
    /// record with its side, 0 or 1, and its packet's number, while
    /// [`LineEmulator::drain`] runs. Needs root, and a kernel with BPF qdiscs.
    ///
    /// # Errors
    ///
    /// If the kernel refuses the program, or lacks what it needs.
    pub fn load(
        devices: [u32; 2],
        sides: [LineSide; 2],
        half_duplex: bool,
        mut take: impl FnMut(usize, u32, LineRecord<'_>) + 'static,
    ) -> Result<Self, BpfError> {
        let constants = line_constants {
            room: sides.iter().map(LineSide::room).max().unwrap_or_default(),
            rates: sides.iter().map(|side| side.rates.len()).max().unwrap_or(1) as u32,
            half_duplex: half_duplex.into(),
            pad: 0,
        };
        let room = [
            ("packets", 2 * constants.room),
            ("rates", 2 * constants.rates),
        ];
        let mut programs =
            PacketPrograms::load_sized(NAME, NAME, Some(constants.as_bytes()), &room)?;
        let setups: Map<u32, line_setup> = programs.map("setups")?;
        for (key, side) in (0_u32..).zip(&sides) {
            let [first, second] = devices;
            let (from, to) = if key == 0 {
                (first, second)
            } else {
                (second, first)
            };
            setups.put(&key, &side.setup(from, to))?;
        }
        let mut ring = RingBufferBuilder::new();
        let records = programs
            .handle(RECORDS)
            .ok_or(BpfError::NoProgram(RECORDS))?;
        let read = move |bytes: &[u8]| {
            if let Some((side, number, record)) = read(bytes) {
                take(side, number, record);
            }
            0
        };
        let unreadable = failed(NAME, RECORDS, "read");
        ring.add(&records, read).map_err(&unreadable)?;
        Ok(Self {
            control: programs.map("control")?,
            rates: programs.map("rates")?,
            sides,
            records: ring.build().map_err(&unreadable)?,
            devices,
            _kind: programs.register(OPS)?,
            attached: Vec::new(),
            programs,
        })
    }

    /// Puts the program at both devices, in whose namespace this thread is. The
    /// qdiscs are the caller's to put at their roots.
    ///
    /// # Errors
    ///
    /// If the kernel has no tcx, or no such device.
    pub fn attach(&mut self) -> Result<(), BpfError> {
        let program = self.programs.program("line_cross")?;
        for device in self.devices {
            let attached = Attached::to(program.as_fd(), device, End::Ingress);
            self.attached
                .push(attached.map_err(|source| BpfError::Program {
                    name: NAME,
                    doing: "attached",
                    source,
                })?);
        }
        Ok(())
    }

    /// From now on packets cross the line. Times of rates are counted from
    /// `zero_ns`.
    ///
    /// # Errors
    ///
    /// If the kernel refuses it.
    pub fn start(&self, zero_ns: u64) -> Result<(), BpfError> {
        let each = self
            .sides
            .iter()
            .map(|side| side.rates.len())
            .max()
            .unwrap_or(1) as u32;
        for (first, side) in (0..).step_by(each as usize).zip(&self.sides) {
            for (key, rate) in (first..).zip(&side.rates) {
                let after_ns = match rate.after_ns {
                    0 => 0,
                    since_ns => zero_ns + since_ns,
                };
                let rate = line_rate {
                    after_ns,
                    bits_per_second: rate.bits_per_second,
                    more_ns: rate.more_ns,
                };
                self.rates.put(&key, &rate)?;
            }
        }
        let control = self.control.first()?;
        self.control
            .set_first(&line_control { zero_ns, ..control })?;
        self.run(true)
    }

    /// From now on arriving packets are dropped and not recorded; packets on the line continue.
    ///
    /// # Errors
    ///
    /// If the kernel refuses it.
    pub fn stop(&self) -> Result<(), BpfError> {
        self.run(false)
    }

    fn run(&self, running: bool) -> Result<(), BpfError> {
        let control = self.control.first()?;
        self.control.set_first(&line_control {
            running: running.into(),
            ..control
        })
    }

    /// Gives the records that have come since the last time.
    ///
    /// # Errors
    ///
    /// If they cannot be read, or some are lost: then the line's record has gaps.
    pub fn drain(&self) -> Result<(), BpfError> {
        let unreadable = failed(NAME, RECORDS, "read");
        self.records.consume().map_err(&unreadable)?;
        if self.control.first()?.lost > 0 {
            return Err(unreadable(libbpf_rs::Error::from_raw_os_error(
                libc::ENOBUFS,
            )));
        }
        Ok(())
    }
}

impl fmt::Debug for LineEmulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineEmulator")
            .field("devices", &self.devices)
            .field("sides", &self.sides)
            .finish_non_exhaustive()
    }
}

impl LineSide {
    /// The longest time, in nanoseconds, between a packet's last bit and its end of the line.
    #[must_use]
    pub fn travels_ns(&self) -> u64 {
        let own = &self.impairments;
        let more_ns = self.rates.iter().map(|rate| rate.more_ns).max();
        self.delay_ns + more_ns.unwrap_or(0) + own.jitter_ns + own.late_ns + own.bursts_ns
    }

    /// The most packets that wait or travel: those that travel at the highest
    /// rate, and those that the limit allows.
    fn room(&self) -> u32 {
        let rates = self.rates.iter().map(|rate| rate.bits_per_second);
        let bits = u128::from(rates.max().unwrap_or_default()) * u128::from(self.travels_ns());
        let smallest = SMALLEST_IP
            .saturating_add_signed(self.overhead.into())
            .max(self.mpu.into())
            .max(1);
        let travelling = bits / 8_000_000_000 / u128::from(smallest);
        let waiting = if self.in_bytes {
            u64::from(self.limit) / SMALLEST_IP
        } else {
            self.limit.into()
        };
        let travelling = u64::try_from(travelling).unwrap_or(MOST_ROOM);
        (LEAST_ROOM + travelling.saturating_add(waiting)).min(MOST_ROOM) as u32
    }

    fn setup(&self, from: u32, to: u32) -> line_setup {
        line_setup {
            delay_ns: self.delay_ns,
            from,
            to,
            limit: self.limit,
            in_bytes: self.in_bytes.into(),
            drop_front: self.drop_front.into(),
            framing: match self.framing {
                LineFraming::Plain => LINE_PLAIN,
                LineFraming::Atm => LINE_ATM,
                LineFraming::Ptm => LINE_PTM,
            },
            overhead: self.overhead,
            mpu: self.mpu,
            steps: self.rates.len() as u32,
            loss: self.impairments.loss,
            reordered: self.impairments.reordered,
            pad: 0,
            lots: self.impairments.lots,
            jitter_ns: self.impairments.jitter_ns,
            late_ns: self.impairments.late_ns,
            bursts_ns: self.impairments.bursts_ns,
        }
    }
}

/// The direction and number of a record's packet, and what the record says.
fn read(bytes: &[u8]) -> Option<(usize, u32, LineRecord<'_>)> {
    let (head, _) = line_head::read_from_prefix(bytes).ok()?;
    let record = match head.event {
        LINE_ARRIVED => {
            let (arrival, _) = line_arrival::read_from_prefix(bytes).ok()?;
            let frame = bytes.get(std::mem::offset_of!(line_arrival, frame)..)?;
            let length = arrival
                .frame
                .len()
                .min(ETHERNET + arrival.ip_bytes as usize);
            LineRecord::Arrived {
                at_ns: arrival.at_ns,
                ip_bytes: arrival.ip_bytes,
                wire_bytes: arrival.wire_bytes,
                ahead_packets: arrival.ahead_packets,
                ahead_bytes: arrival.ahead_bytes,
                frame: frame.get(..length)?,
            }
        }
        LINE_DROPPED => LineRecord::Dropped,
        LINE_SENT | LINE_LOST => {
            let (sent, _) = line_sent::read_from_prefix(bytes).ok()?;
            LineRecord::Sent {
                start_ns: sent.start_ns,
                end_ns: sent.end_ns,
                left_ns: (head.event == LINE_SENT).then_some(sent.left_ns),
            }
        }
        _ => return None,
    };
    Some((head.direction as usize, head.number, record))
}

/// Bytes of Ethernet's header.
const ETHERNET: usize = 14;
