// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The line in user space, between two TAP devices. It serves to check the line in the
//! [`kernel`](super::kernel), and replaces it on kernels that do not support that.
//!
//! `wan` in the gateway is the modem's Ethernet port, `line` in the provider the exchange's. A
//! packet arrives when the kernel passes it to the TAP, as measured by [`Handed`]. The TAP's own
//! queue is never the bottleneck.

use super::framing::Wire;
use super::handed::Handed;
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

/// Buffer size in bytes: MTU 1500, Ethernet header, VLAN tag.
const FRAME: usize = 1_518;
/// The number of frames read before due packets are delivered, so that a flood does not delay
/// them.
const BATCH: usize = 32;

/// Creates a TAP device in this thread's namespace. It exists as long as the descriptor.
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

/// A TAP device of the line. It exists as long as the descriptor.
#[derive(Debug)]
pub struct Tap {
    frames: OwnedFd,
    handed: Handed,
}

impl Tap {
    /// Creates a device in this thread's namespace.
    pub fn open(name: &str) -> io::Result<Self> {
        Ok(Self {
            frames: open_tap(name)?,
            handed: Handed::open(name)?,
        })
    }
}

/// The two ends of the line and everything between them.
#[derive(Debug)]
pub struct Emulation {
    /// Upstream, then downstream.
    directions: [DirectedLine; 2],
    medium: Medium<Frame>,
    wire: Wire,
    clock: Clock,
    log: Log,
    /// Frames that have been read and have not arrived at the line yet.
    read: Vec<Read>,
    /// The time up to which the medium has been advanced.
    followed_ns: u64,
    /// Buffers of delivered frames, for reuse.
    spare: Vec<Vec<u8>>,
}

/// One direction, with the device from which it is read. Its frames are written to the other
/// direction's device.
#[derive(Debug)]
struct DirectedLine {
    direction: Direction,
    from: AsyncFd<OwnedFd>,
    handed: Handed,
}

/// A frame that was read from a direction's device, and when it arrived there.
#[derive(Debug)]
struct Read {
    index: usize,
    at_ns: u64,
    bytes: Vec<u8>,
}

/// A packet on the line.
#[derive(Debug)]
struct Frame {
    bytes: Vec<u8>,
    logged: Logged,
}

impl Emulation {
    /// Returns a line between two TAP devices, for a run with this seed.
    pub fn new(line: &Line, taps: Taps, seed: u64, clock: Clock, log: Log) -> Result<Self> {
        let directed = |direction, Tap { frames, handed }| {
            let from = watch(frames, Interest::READABLE).context("watch a TAP device")?;
            anyhow::Ok(DirectedLine {
                direction,
                from,
                handed,
            })
        };
        let medium = Medium::new(line, seed).map_err(|direction| {
            let name = direction.stream();
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
            read: Vec::new(),
            followed_ns: 0,
            spare: Vec::new(),
        })
    }

    /// Discards packets that reached the devices before the start of traffic.
    pub fn discard(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; FRAME];
        for directed in &mut self.directions {
            while read(&directed.from, &mut buffer)?.is_some() {}
            directed.handed.discard()?;
        }
        Ok(())
    }

    /// Runs the line until an error occurs or the task is dropped.
    pub async fn run(shared: Rc<RefCell<Self>>) -> Result<()> {
        let alarm = shared.borrow().clock.alarm()?;
        std::future::poll_fn(|cx| shared.borrow_mut().poll(cx, &alarm)).await
    }

    /// Records what was sent by the end of the run; other packets stay `Left`.
    pub fn finish(&mut self, now_ns: u64) {
        for (_, departure) in self.medium.finish(now_ns) {
            self.log.sent(
                departure.packet.logged,
                departure.start_ns,
                departure.end_ns,
            );
        }
    }

    /// Does everything that is possible now. It is ready only with an error.
    fn poll(&mut self, cx: &mut Context<'_>, alarm: &Alarm) -> Poll<Result<()>> {
        loop {
            let mut more = false;
            for index in 0..self.directions.len() {
                more |= self.take(cx, index)?;
            }
            self.arrive()?;
            self.deliver()?;
            if more {
                continue;
            }
            alarm.set(self.medium.next_ns())?;
            ready!(alarm.poll_ring(cx))?;
        }
    }

    /// Reads up to a batch of frames. Returns true if there may be more.
    fn take(&mut self, cx: &mut Context<'_>, index: usize) -> Result<bool> {
        for _ in 0..BATCH {
            let directed = &mut self.directions[index];
            let Poll::Ready(guard) = directed.from.poll_read_ready(cx) else {
                return Ok(false);
            };
            let mut bytes = self.spare.pop().unwrap_or_default();
            bytes.resize(FRAME, 0);
            let read =
                read(&directed.from, &mut bytes).context("read from a device of the line")?;
            if let Some(length) = read {
                bytes.truncate(length);
                let at_ns = directed.handed.at_ns(&bytes, &self.clock);
                let at_ns = at_ns.context("read when a device of the line was given a frame")?;
                self.read.push(Read {
                    index,
                    at_ns,
                    bytes,
                });
            } else {
                guard?.clear_ready();
                self.spare.push(bytes);
            }
        }
        Ok(true)
    }

    /// Passes read frames to the medium in order of time. A frame from before the medium's
    /// current time arrives at the current time.
    fn arrive(&mut self) -> Result<()> {
        self.read.sort_by_key(|read| read.at_ns);
        for Read {
            index,
            at_ns,
            bytes,
        } in self.read.drain(..)
        {
            self.followed_ns = self.followed_ns.max(at_ns);
            let at_ns = self.followed_ns;
            let facts = Facts::read(&bytes, bytes.len().saturating_sub(ETHERNET) as u32);
            let wire_bytes = self.wire.bytes(facts.ip_bytes.into());
            let arrival = Arrival {
                direction: self.directions[index].direction,
                at_ns,
                facts,
                frame: &bytes,
                wire_bytes,
                ahead: self.medium.ahead(index, at_ns),
            };
            let logged = self.log.arrived(&arrival);
            let logged = logged.context("read what came to the gateway")?;
            let frame = Frame { bytes, logged };
            let bytes = (facts.ip_bytes.into(), wire_bytes);
            self.medium.arrive(index, at_ns, frame, bytes, |frame| {
                self.log.dropped(frame.logged);
                self.spare.push(frame.bytes);
            });
        }
        Ok(())
    }

    /// Delivers packets that have reached the other end.
    fn deliver(&mut self) -> Result<()> {
        for index in 0..self.directions.len() {
            let now_ns = self.clock.now_ns();
            self.followed_ns = self.followed_ns.max(now_ns);
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

/// Reads one frame; returns `None` if none is available.
fn read(from: &AsyncFd<OwnedFd>, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match rustix::io::read(from.get_ref(), buffer) {
        Ok(length) => Ok(Some(length)),
        Err(Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
