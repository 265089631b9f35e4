// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The line in user space, between two TAP devices: the check of the one in the
//! [`kernel`](super::kernel), and what a run has where that cannot be.
//!
//! `wan` in the gateway is the modem's Ethernet port, `line` in the provider
//! the exchange's. A packet arrives when it is read, which the event loop does
//! as soon as the kernel has put it into the TAP; the TAP's own queue is never
//! the bottleneck.

use super::framing::Wire;
use super::log::{Arrival, Log, Logged};
use super::model::Medium;
use super::packet::{ETHERNET, Facts};
use crate::agent::clock::{Alarm, Clock};
use crate::agent::topology::Taps;
use crate::agent::watch::watch;
use anyhow::{Context as _, Result, anyhow};
use nlink::tuntap::{Mode, TunTap};
use rustix::io::Errno;
use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use weirgate_experiment::{Direction, Line};

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
    medium: Medium<Frame>,
    wire: Wire,
    clock: Clock,
    log: Log,
    /// Buffers of frames that have left.
    spare: Vec<Vec<u8>>,
}

/// One direction: the device it is read from. It is written to the device that the
/// other direction is read from.
#[derive(Debug)]
struct DirectedLine {
    direction: Direction,
    from: AsyncFd<OwnedFd>,
}

/// A packet on the line.
#[derive(Debug)]
struct Frame {
    bytes: Vec<u8>,
    logged: Logged,
}

impl Emulation {
    /// A line between two TAP devices, in a run of this seed.
    pub fn new(line: &Line, taps: Taps, seed: u64, clock: Clock, log: Log) -> Result<Self> {
        let directed = |direction, from| {
            let from = watch(from, Interest::READABLE).context("watch a TAP device")?;
            anyhow::Ok(DirectedLine { direction, from })
        };
        let medium = Medium::new(line, seed).map_err(|direction| {
            let name = match direction {
                Direction::Up => "upstream",
                Direction::Down => "downstream",
            };
            anyhow!("the {name} rate of the line is 0")
        })?;
        Ok(Self {
            directions: [
                directed(Direction::Up, taps.wan)?,
                directed(Direction::Down, taps.line)?,
            ],
            medium,
            wire: Wire::of(line),
            clock,
            log,
            spare: Vec::new(),
        })
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

    /// Records what was sent by the end of the run; the rest stays `Left`.
    pub fn finish(&mut self, now_ns: u64) {
        for (_, departure) in self.medium.finish(now_ns) {
            self.log.sent(
                departure.packet.logged,
                departure.start_ns,
                departure.end_ns,
            );
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
            alarm.set(self.medium.next_ns())?;
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
        let facts = Facts::read(&bytes, bytes.len().saturating_sub(ETHERNET) as u32);
        let wire_bytes = self.wire.bytes(facts.ip_bytes.into());
        let arrival = Arrival {
            direction: self.directions[index].direction,
            at_ns: now_ns,
            facts,
            frame: &bytes,
            wire_bytes,
            ahead: self.medium.ahead(index, now_ns),
        };
        let logged = self.log.arrived(&arrival);
        let logged = logged.context("read what came to the gateway")?;
        let frame = Frame { bytes, logged };
        let bytes = (facts.ip_bytes.into(), wire_bytes);
        self.medium.arrive(index, now_ns, frame, bytes, |frame| {
            self.log.dropped(frame.logged);
            self.spare.push(frame.bytes);
        });
        Ok(())
    }

    /// Hands over what has reached the other end.
    fn deliver(&mut self) -> Result<()> {
        for index in 0..self.directions.len() {
            let now_ns = self.clock.now_ns();
            while let Some(departure) = self.medium.pop_due(index, now_ns) {
                let frame = departure.packet;
                self.log
                    .sent(frame.logged, departure.start_ns, departure.end_ns);
                if departure.lost {
                    self.spare.push(frame.bytes);
                    continue;
                }
                if self.directions[index].direction == Direction::Down {
                    self.log.left(frame.logged, self.clock.now_ns());
                }
                let to = self.directions[1 - index].from.get_ref();
                rustix::io::write(to, &frame.bytes).context("write to a device of the line")?;
                self.spare.push(frame.bytes);
            }
        }
        Ok(())
    }
}

/// One frame; `None` where there is none now.
fn read(from: &AsyncFd<OwnedFd>, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match rustix::io::read(from.get_ref(), buffer) {
        Ok(length) => Ok(Some(length)),
        Err(Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
