// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The laboratory's emulated line in the kernel (`bpf/lab/line.bpf.c`), between two devices of a
//! network namespace.

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

/// The object file, and the name of its program in errors.
const NAME: &str = "line";
const RECORDS: &str = "records";
const PACKETS: &str = "packets";
/// The smallest IP packet to expect: a TCP acknowledgement.
const SMALLEST_IP: u64 = 40;
/// The smallest number of packets on the line, whatever its buffer and delay.
const LEAST_ROOM: u64 = 64;
/// The smallest number where the oldest packet is dropped: dropped packets keep their slots until
/// all packets before them have arrived.
const LEAST_FRONT_ROOM: u64 = 1 << 17;
/// The largest number of packets on the line, some 50 MB of kernel memory.
const MOST_ROOM: u64 = 1 << 19;

/// How a direction converts IP packets to bytes on the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineFraming {
    /// Without framing.
    Plain,
    /// In ATM cells.
    Atm,
    /// In PTM codewords.
    Ptm,
}

/// The rate for transmissions that start after a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineRate {
    /// Nanoseconds since the start.
    pub after_ns: u64,
    /// The line rate; at 0, no transmission starts.
    pub bits_per_second: u64,
    /// Nanoseconds to add to the delay of the direction.
    pub more_ns: u64,
}

/// One direction of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineSide {
    /// The rates over time. The first starts at 0, and neither the first nor the last rate is 0.
    pub rates: Vec<LineRate>,
    /// Nanoseconds from a packet's last bit to its arrival at the other end.
    pub delay_ns: u64,
    /// The size of the buffer, in packets or in bytes of IP.
    pub limit: u32,
    /// Whether the limit is in bytes.
    pub in_bytes: bool,
    /// Whether a full buffer drops its oldest packet; otherwise it drops the new one.
    pub drop_front: bool,
    /// The framing.
    pub framing: LineFraming,
    /// Bytes that the line adds to an IP packet.
    pub overhead: i32,
    /// The smallest size of a packet in bytes, including these.
    pub mpu: u32,
    /// The impairments after transmission.
    pub impairments: LineImpairments,
}

/// Impairments of the packets of a direction after transmission. Times are in nanoseconds, below
/// 2^32. The default is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LineImpairments {
    /// The seed of random decisions.
    pub lots: u64,
    /// Lost packets per million.
    pub loss: u32,
    /// The largest additional delay, uniformly distributed; it does not reorder packets.
    pub jitter_ns: u64,
    /// Packets per million that arrive late, so that later ones overtake them.
    pub reordered: u32,
    /// How much later they arrive.
    pub late_ns: u64,
    /// The interval, counted from the start, at whose end all packets transmitted in it arrive
    /// together; 0 for no bursts.
    pub bursts_ns: u64,
}

/// An event on the line. Packets are numbered from 0 in each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineRecord<'a> {
    /// A packet arrived at the buffer.
    Arrived {
        /// The time on `CLOCK_MONOTONIC`, as are all times here.
        at_ns: u64,
        /// Bytes of the IP packet.
        ip_bytes: u32,
        /// Bytes on the line, with framing.
        wire_bytes: u32,
        /// Packets that wait before it, including one in transmission.
        ahead_packets: u32,
        /// Their IP bytes.
        ahead_bytes: u32,
        /// The first bytes of the frame.
        frame: &'a [u8],
    },
    /// The packet was dropped, because the buffer was full.
    Dropped,
    /// The packet was transmitted, and then reached the other end or was lost.
    Sent {
        /// The start of the first bit.
        start_ns: u64,
        /// The end of the last bit, rounded up.
        end_ns: u64,
        /// When it was passed to the other device; `None` if it was lost.
        left_ns: Option<u64>,
    },
}

/// A line between two devices, which is removed when this is dropped.
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
    /// The name of its qdisc kind for netlink.
    pub const KIND: &'static str = "weir_lab_line";

    /// Loads a line. Packets that arrive at the first device use the first side and leave by the
    /// second device, and vice versa. On a half-duplex line only one side transmits at a time;
    /// this needs a machine with one processor. [`LineEmulator::drain`] passes each record to
    /// `take` with its side, 0 or 1, and the number of its packet. Needs root and a kernel with
    /// BPF qdiscs.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel rejects the program or lacks a feature.
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
            (PACKETS, 2 * constants.room),
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

    /// Attaches the program to both devices, in whose namespace this thread must be. The caller
    /// must set the qdiscs at their roots.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel has no tcx, or if a device does not exist.
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

    /// Starts forwarding packets over the line. The times of rates are counted from `zero_ns`.
    ///
    /// # Errors
    ///
    /// Returns an error if the map cannot be written.
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

    /// Drops arriving packets without records from now on; packets on the line continue.
    ///
    /// # Errors
    ///
    /// Returns an error if the map cannot be written.
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

    /// Processes the records since the last call.
    ///
    /// # Errors
    ///
    /// Returns an error if they cannot be read, or if some were lost, so that the recording has
    /// gaps. Likewise if the line had no slot for a packet that fits into the buffer.
    pub fn drain(&self) -> Result<(), BpfError> {
        let unreadable = failed(NAME, RECORDS, "read");
        self.records.consume().map_err(&unreadable)?;
        let error = libbpf_rs::Error::from_raw_os_error;
        let control = self.control.first()?;
        if control.lost > 0 {
            return Err(unreadable(error(libc::ENOBUFS)));
        }
        if control.unplaced > 0 {
            return Err(failed(NAME, PACKETS, "written")(error(libc::ENOSPC)));
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
    /// Returns the longest time in nanoseconds from a packet's last bit to its arrival at the
    /// other end.
    #[must_use]
    pub fn travels_ns(&self) -> u64 {
        let own = &self.impairments;
        let more_ns = self.rates.iter().map(|rate| rate.more_ns).max();
        self.delay_ns + more_ns.unwrap_or(0) + own.jitter_ns + own.late_ns + own.bursts_ns
    }

    /// Returns the largest number of packets on the line: those in flight at the highest rate,
    /// and those in the buffer.
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
        let least = if self.drop_front {
            LEAST_FRONT_ROOM
        } else {
            LEAST_ROOM
        };
        (least + travelling.saturating_add(waiting)).min(MOST_ROOM) as u32
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

/// Parses a record: the direction, the number of its packet, and the event.
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

/// Bytes of the Ethernet header.
const ETHERNET: usize = 14;
