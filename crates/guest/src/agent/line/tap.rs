// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The line between two TAP devices.
//!
//! `wan` in the gateway is the modem's Ethernet port, `line` in the provider
//! the exchange's. A packet arrives when it is read, which the event loop does
//! as soon as the kernel has put it into the TAP; the TAP's own queue is never
//! the bottleneck.

use super::entry::Entry;
use super::framing::Wire;
use super::model::{Departure, Side};
use super::packet::Facts;
use crate::agent::clock::{Alarm, Clock};
use crate::agent::recorder::Recorder;
use crate::agent::topology::Taps;
use crate::agent::watch::watch;
use anyhow::{Context as _, Result};
use nlink::tuntap::{Mode, TunTap};
use rustix::io::Errno;
use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use weirgate_experiment::{Direction, Fate, Line, LinePacket, LineStep};
use weirgate_units::Rate;

/// Room for a frame of the line's devices: MTU 1500, Ethernet header, VLAN tag.
const FRAME: usize = 1_518;
/// Frames read before what is due is delivered, so that a flood delays nothing.
const BATCH: usize = 32;

/// Creates a TAP device in the namespace that this thread is in. It lives as
/// long as the descriptor.
pub fn open_tap(name: &str) -> io::Result<OwnedFd> {
    let device = TunTap::builder()
        .name(name)
        .mode(Mode::Tap)
        .no_pi(true)
        .create();
    let fd = OwnedFd::from(device.map_err(io::Error::other)?.into_file());
    rustix::io::ioctl_fionbio(&fd, true)?;
    Ok(fd)
}

/// The two ends of the line and what is between them.
#[derive(Debug)]
pub struct Emulation {
    /// Up and down, in this order.
    directions: [DirectedLine; 2],
    wire: Wire,
    /// Where waits of TCP segments are asked for.
    entry: Option<Entry>,
    clock: Clock,
    recorder: Recorder,
    /// Buffers of frames that have left.
    spare: Vec<Vec<u8>>,
}

/// One direction: the device it is read from, and the line behind it. It is
/// written to the device that the other direction is read from.
#[derive(Debug)]
struct DirectedLine {
    direction: Direction,
    from: AsyncFd<OwnedFd>,
    side: Side<Frame>,
}

/// A packet on the line.
#[derive(Debug)]
struct Frame {
    bytes: Vec<u8>,
    /// Its number in the recorder.
    number: usize,
    /// Flow and number, for a stamped packet.
    stamp: Option<(u16, u32)>,
}

impl Emulation {
    /// A line between two TAP devices.
    pub fn new(line: &Line, taps: Taps, clock: Clock, recorder: Recorder) -> Result<Self> {
        let directed = |direction, side, from, text| {
            let side =
                Side::new(side).with_context(|| format!("the {text} rate of the line is 0"))?;
            let from = watch(from, Interest::READABLE).context("watch a TAP device")?;
            anyhow::Ok(DirectedLine {
                direction,
                from,
                side,
            })
        };
        Ok(Self {
            directions: [
                directed(Direction::Up, &line.up, taps.wan, "upstream")?,
                directed(Direction::Down, &line.down, taps.line, "downstream")?,
            ],
            wire: Wire::of(line),
            entry: None,
            clock,
            recorder,
            spare: Vec::new(),
        })
    }

    /// Has the waits of TCP segments recorded too.
    pub fn note_segments(&mut self, entry: Entry) {
        self.entry = Some(entry);
    }

    /// The line has other rates from now on, as far as they are said.
    fn set_rates(&mut self, rates: [Option<Rate>; 2]) {
        let now_ns = self.clock.now_ns();
        for (directed, rate) in self.directions.iter_mut().zip(rates) {
            if let Some(rate) = rate {
                directed.side.set_rate(now_ns, rate.as_bits_per_second());
            }
        }
    }

    /// Throws away what came to the devices before the start of traffic.
    pub fn discard(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; FRAME];
        for directed in &self.directions {
            while read(&directed.from, &mut buffer)?.is_some() {}
        }
        Ok(())
    }

    /// Runs the line until an error occurs or the task is dropped.
    pub async fn run(shared: Rc<RefCell<Self>>) -> Result<()> {
        let alarm = shared.borrow().clock.alarm()?;
        std::future::poll_fn(|cx| shared.borrow_mut().poll(cx, &alarm)).await
    }

    /// Changes the line's rates, each time at its time.
    pub async fn follow(shared: Rc<RefCell<Self>>, steps: Vec<LineStep>) -> Result<()> {
        let clock = shared.borrow().clock.clone();
        for step in steps {
            clock.until(step.at.as_nanos()).await?;
            shared.borrow_mut().set_rates([step.up, step.down]);
        }
        Ok(())
    }

    /// Records what was sent by the end of the run; the rest stays `Left`.
    pub fn finish(&mut self, now_ns: u64) {
        for directed in &mut self.directions {
            for departure in directed.side.finish(now_ns) {
                record_sent(&self.recorder, &departure);
            }
        }
    }

    /// Does all that can be done now; never ready except with an error.
    fn poll(&mut self, cx: &mut Context<'_>, alarm: &Alarm) -> Poll<Result<()>> {
        loop {
            let mut more = false;
            for index in 0..self.directions.len() {
                more |= self.take(cx, index)?;
            }
            self.deliver()?;
            if more {
                continue;
            }
            let next = self
                .directions
                .iter()
                .filter_map(|directed| directed.side.next_due_ns());
            alarm.set(next.min())?;
            ready!(alarm.poll_ring(cx))?;
        }
    }

    /// Reads up to a batch of frames; true if there may be more.
    fn take(&mut self, cx: &mut Context<'_>, index: usize) -> Result<bool> {
        for _ in 0..BATCH {
            let from = &self.directions[index].from;
            let Poll::Ready(guard) = from.poll_read_ready(cx) else {
                return Ok(false);
            };
            let mut bytes = self.spare.pop().unwrap_or_default();
            bytes.resize(FRAME, 0);
            let read = read(from, &mut bytes).context("read from a device of the line")?;
            if let Some(length) = read {
                bytes.truncate(length);
                self.arrive(index, bytes)?;
            } else {
                guard?.clear_ready();
                self.spare.push(bytes);
            }
        }
        Ok(true)
    }

    fn arrive(&mut self, index: usize, bytes: Vec<u8>) -> Result<()> {
        let now_ns = self.clock.now_ns();
        let facts = Facts::read(&bytes);
        let directed = &mut self.directions[index];
        let direction = directed.direction;
        if let (Direction::Up, Some(stamp)) = (direction, facts.stamp)
            && !stamp.reply
        {
            let waited_ns = stamp.age_ns(now_ns);
            self.recorder.waited_up(stamp.flow, now_ns, waited_ns);
        }
        let flow = flow_of(&self.recorder, direction, &facts);
        if let (Direction::Up, Some(entry), Some(tcp)) = (direction, self.entry.as_mut(), facts.tcp)
            && let Some(waited_ns) = entry
                .waited(&facts, &bytes, now_ns, &self.clock)
                .context("read what came to the gateway")?
        {
            let ack = tcp.is_pure_ack();
            self.recorder.segment_waited(flow, ack, now_ns, waited_ns);
        }
        let wire_bytes = self.wire.bytes(facts.ip_bytes.into());
        let (ahead_packets, ahead_bytes) = directed.side.ahead(now_ns);
        let packet = LinePacket {
            direction,
            flow,
            arrived_ns: now_ns,
            fate: Fate::Left,
            ip_bytes: facts.ip_bytes,
            wire_bytes,
            ahead_packets,
            ahead_bytes,
            tcp: facts.tcp,
        };
        let number = self.recorder.line(packet, &bytes);
        let frame = Frame {
            bytes,
            number,
            stamp: facts.stamp.map(|stamp| (stamp.flow, stamp.seq)),
        };
        let ip_bytes = facts.ip_bytes.into();
        directed
            .side
            .arrive(now_ns, frame, ip_bytes, wire_bytes, |frame| {
                self.recorder.line_fate(frame.number, Fate::Dropped);
                self.spare.push(frame.bytes);
            });
        Ok(())
    }

    /// Hands over what has reached the other end.
    fn deliver(&mut self) -> Result<()> {
        for index in 0..self.directions.len() {
            let now_ns = self.clock.now_ns();
            while let Some(departure) = self.directions[index].side.pop_due(now_ns) {
                record_sent(&self.recorder, &departure);
                let frame = departure.packet;
                if let (Direction::Down, Some((flow, seq))) =
                    (self.directions[index].direction, frame.stamp)
                {
                    self.recorder.left_line(flow, seq, self.clock.now_ns());
                }
                let to = self.directions[1 - index].from.get_ref();
                rustix::io::write(to, &frame.bytes).context("write to a device of the line")?;
                self.spare.push(frame.bytes);
            }
        }
        Ok(())
    }
}

fn flow_of(recorder: &Recorder, direction: Direction, facts: &Facts) -> Option<u16> {
    if let Some(stamp) = facts.stamp {
        return Some(stamp.flow);
    }
    let (protocol, source, destination) = facts.ports?;
    match direction {
        Direction::Up => recorder.label_of(protocol, destination, source),
        Direction::Down => recorder.label_of(protocol, source, destination),
    }
}

fn record_sent(recorder: &Recorder, departure: &Departure<Frame>) {
    let sent = Fate::Sent {
        start_ns: departure.start_ns,
        end_ns: departure.end_ns,
    };
    recorder.line_fate(departure.packet.number, sent);
}

/// One frame; `None` where there is none now.
fn read(from: &AsyncFd<OwnedFd>, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match rustix::io::read(from.get_ref(), buffer) {
        Ok(length) => Ok(Some(length)),
        Err(Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
