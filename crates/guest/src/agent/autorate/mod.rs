// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes the rates of an arm's shapers as cake-autorate does, on the gateway.
//!
//! Echo requests go from the gateway to one node, and the counters of the gateway's devices are
//! read. The arm's command sets a rate. It runs in a thread that yields to packet processing, as
//! a policy change does, and only one command at a time: the newest rate first.

mod controller;

use super::change::yielding;
use super::command::execute;
use super::line::framing::Wire;
use super::nodes::{LAN, WAN, address, name};
use super::recorder::Recorder;
use super::session::Session;
use super::traffic::endpoint::{self, Endpoint};
use super::traffic::options::{self, Transport};
use anyhow::{Context, Result, bail};
use controller::{Change, Controller, LOAD_NS, Limits, PING_NS, PINGERS, Why};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use weirgate_experiment::{Autorate, AutorateSide, Node};
use weirgate_kernel::{DeviceIndex, Kernel};
use weirgate_state::DeviceName;
use weirgate_units::Dscp;

/// What remains when the loop ends with the run.
pub struct Written {
    /// The record, which is added to the transcript.
    text: Rc<RefCell<String>>,
    thread: Commands,
}

/// The thread of commands, until its result is taken.
type Commands = Rc<RefCell<Option<JoinHandle<Result<()>>>>>;

/// The columns of the record.
const HEAD: &str = "seconds way kbit why load late-ms quiet-ms\n";
const DIRECTIONS: [&str; 2] = ["up", "down"];

/// The ICMP identifier of these echo requests, distinct from those of probes.
const ID: u16 = 0x56ff;
/// An echo request, without identifier and sequence number (RFC 792).
const REQUEST: [u8; 8] = [8, 0, 0, 0, 0, 0, 0, 0];
/// The position of the sequence number.
const SEQ: std::ops::Range<usize> = 6..8;
/// Bytes of data in an echo: fping's default (fping(8), `-b`).
const DATA: usize = 56;
/// The largest packet, in IP bytes.
const LARGEST: u32 = 1_500;
/// Echo requests and counter readings are offset from round times, at which probes are sent. The
/// offset is 5 parts of this many of the interval.
const ASIDE: u64 = 13;

/// Starts the loop of the session's arm, if it has one.
pub fn start(session: &Session) -> Result<Option<Written>> {
    let Some(autorate) = session.arm.autorate.clone() else {
        return Ok(None);
    };
    let changer = Changer::new(session, &autorate)?;
    let written = Written {
        text: Rc::new(RefCell::new(HEAD.to_owned())),
        thread: Rc::clone(&changer.thread),
    };
    let pinger = Pinger::open(session, autorate.ask)?;
    let line = &session.experiment.topology.line;
    let packet_bits = f64::from(Wire::of(line).bytes(LARGEST)) * 8.0;
    let limits = [&autorate.up, &autorate.down].map(|side| side.as_ref().map(limits));
    let running = Running {
        session: session.clone(),
        kernel: Kernel::open_in(session.nodes.space(Node::Gateway)?)?,
        controller: Controller::new(limits, packet_bits),
        changer,
        wanted: [None; 2],
        in_force: [None; 2],
        written: Rc::clone(&written.text),
    };
    session.spawn("change rates as cake-autorate".to_owned(), async move {
        running.run(pinger, autorate).await
    });
    Ok(Some(written))
}

/// Adds the record to the run's transcript, after the loop has ended. Waits for a command that
/// still runs, and fails if it does.
pub fn note(recorder: &Recorder, written: &Written) -> Result<()> {
    let text = written.text.borrow_mut().split_off(0);
    recorder.transcript("gateway: the record of autorate".to_owned(), text, 0);
    ended(&written.thread)
}

/// Waits until the thread of commands has ended, and returns its result, once.
fn ended(thread: &Commands) -> Result<()> {
    match thread.borrow_mut().take().map(JoinHandle::join) {
        Some(Ok(result)) => result,
        Some(Err(_)) => bail!("the thread of commands panicked"),
        None => Ok(()),
    }
}

fn limits(side: &AutorateSide) -> Limits {
    let kbit = |rate: weirgate_units::Rate| rate.as_bits_per_second() as f64 / 1e3;
    Limits {
        least: kbit(side.least),
        base: kbit(side.base),
        most: kbit(side.most),
    }
}

struct Running {
    session: Session,
    kernel: Kernel,
    controller: Controller,
    changer: Changer,
    /// Rates that are not set yet, in kbit/s.
    wanted: [Option<u64>; 2],
    in_force: [Option<u64>; 2],
    written: Rc<RefCell<String>>,
}

impl Running {
    async fn run(mut self, mut pinger: Pinger, autorate: Autorate) -> Result<()> {
        let clock = self.session.clock.clone();
        let mut counters = Counters::open(&self.kernel).await?;
        let (mut ask_ns, mut look_ns) = (PING_NS / ASIDE * 5, LOAD_NS / ASIDE * 5);
        let mut looked_ns = clock.now_ns();
        let mut busy = false;
        for (direction, side) in [&autorate.up, &autorate.down].into_iter().enumerate() {
            self.wanted[direction] = side
                .as_ref()
                .map(|side| side.base.as_bits_per_second() / 1_000);
        }
        loop {
            if !busy {
                busy = self.put(&autorate)?;
            }
            let changes = tokio::select! {
                answer = pinger.answer(&self.session) => {
                    let (number, at_ns, round_trip_ns) = answer?;
                    self.controller.answer(at_ns, number, round_trip_ns)
                }
                over = clock.until(ask_ns) => {
                    over?;
                    if self.controller.asks() {
                        pinger.ask(clock.now_ns())?;
                    }
                    ask_ns += PING_NS;
                    Vec::new()
                }
                over = clock.until(look_ns) => {
                    over?;
                    let bytes = counters.passed(&self.kernel).await?;
                    let now_ns = clock.now_ns();
                    let took_ns = now_ns.saturating_sub(looked_ns).max(1);
                    looked_ns = now_ns;
                    look_ns += LOAD_NS;
                    // One byte per nanosecond is 8 million kbit/s.
                    let kbit = bytes.map(|bytes| bytes as f64 * 8e6 / took_ns as f64);
                    self.controller.load(now_ns, kbit)
                }
                done = self.changer.done.recv(), if busy => {
                    if done.is_none() {
                        ended(&self.changer.thread)?;
                    }
                    done.context("the thread of commands is gone")?;
                    busy = false;
                    Vec::new()
                }
            };
            let now_ns = clock.now_ns();
            for change in changes {
                self.take(now_ns, change);
            }
        }
    }

    fn take(&mut self, now_ns: u64, change: Change) {
        let kbit = change.kbit.round().max(1.0) as u64;
        self.wanted[change.direction] = Some(kbit);
        let why = match change.why {
            Why::Bloat => "bloat",
            Why::High => "high",
            Why::Low => "low",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.written.borrow_mut(),
            "{:.3} {} {kbit} {why} {:.2} {:.1} {:.1}",
            now_ns as f64 / 1e9,
            DIRECTIONS[change.direction],
            change.load,
            change.late_ms,
            change.quiet_ms
        );
    }

    /// Orders the wanted rates. Returns whether any of them changes.
    fn put(&mut self, autorate: &Autorate) -> Result<bool> {
        let mut orders = Vec::new();
        for (direction, side) in [&autorate.up, &autorate.down].into_iter().enumerate() {
            let wanted = self.wanted[direction].take();
            if let (Some(side), Some(kbit)) = (side, wanted)
                && self.in_force[direction] != wanted
            {
                self.in_force[direction] = wanted;
                orders.push((direction, side.resolve(kbit)));
            }
        }
        let any = !orders.is_empty();
        if any {
            let sent = self.changer.orders.send(orders);
            sent.context("the thread of commands is gone")?;
        }
        Ok(any)
    }
}

/// Sends echo requests to one node, as six pingers in turn.
struct Pinger {
    endpoint: Endpoint,
    packet: Vec<u8>,
    next: u16,
    /// When each unanswered request was sent.
    asked: BTreeMap<u16, u64>,
    buffer: Vec<u8>,
}

impl Pinger {
    fn open(session: &Session, ask: Node) -> Result<Self> {
        let (echo, dscp) = (Transport::Echo, Dscp::default());
        let socket = endpoint::bound(&session.nodes, Node::Gateway, echo, false, dscp, ID)
            .context("open an echo socket at the gateway")?;
        let target = SocketAddr::new(address(ask, false), 0);
        rustix::net::connect(&socket, &target)
            .with_context(|| format!("find a route to {}", name(ask)))?;
        options::note_arrivals(&socket)?;
        let mut packet = REQUEST.to_vec();
        packet.resize(REQUEST.len() + DATA, 0);
        Ok(Self {
            endpoint: Endpoint::readable(socket)?,
            packet,
            next: 0,
            asked: BTreeMap::new(),
            buffer: vec![0; 256],
        })
    }

    fn ask(&mut self, now_ns: u64) -> Result<()> {
        self.packet[SEQ].copy_from_slice(&self.next.to_be_bytes());
        self.asked.insert(self.next, now_ns);
        self.next = self.next.wrapping_add(1);
        // If the socket buffer is full, the request is lost, as in a full queue.
        self.endpoint.send_now(&self.packet)?;
        Ok(())
    }

    /// Waits for the next reply. Returns its pinger, its arrival time and its round-trip time.
    /// It is cancel-safe.
    async fn answer(&mut self, session: &Session) -> Result<(usize, u64, u64)> {
        loop {
            let receiving = self
                .endpoint
                .receive_stamped(&mut self.buffer, &session.clock);
            let (length, at_ns) = receiving.await?;
            let Some(&[high, low]) = self.buffer[..length].get(SEQ) else {
                continue;
            };
            let number = u16::from_be_bytes([high, low]);
            if let Some(asked_ns) = self.asked.remove(&number) {
                let round_trip_ns = at_ns.saturating_sub(asked_ns);
                return Ok((usize::from(number) % PINGERS, at_ns, round_trip_ns));
            }
        }
    }
}

/// Byte counters of the devices behind the shapers: upstream the line's device, downstream the
/// hosts'.
struct Counters {
    devices: [DeviceIndex; 2],
    sent: [u64; 2],
}

impl Counters {
    async fn open(kernel: &Kernel) -> Result<Self> {
        let device = async |text| {
            let device = DeviceName::new(text).context("a device has a name")?;
            anyhow::Ok(kernel.device(&device).await?)
        };
        let mut counters = Self {
            devices: [device(WAN).await?, device(LAN).await?],
            sent: [0; 2],
        };
        counters.passed(kernel).await?;
        Ok(counters)
    }

    /// Returns the bytes since the last call, with link layer headers.
    async fn passed(&mut self, kernel: &Kernel) -> Result<[u64; 2]> {
        let mut passed = [0; 2];
        for (direction, device) in self.devices.into_iter().enumerate() {
            let (_, sent) = kernel.traffic(device).await?;
            passed[direction] = sent.bytes.saturating_sub(self.sent[direction]);
            self.sent[direction] = sent.bytes;
        }
        Ok(passed)
    }
}

/// Argument lists, each with its direction.
type Orders = Vec<(usize, Vec<String>)>;

/// The thread that runs the commands.
struct Changer {
    orders: mpsc::Sender<Orders>,
    done: UnboundedReceiver<()>,
    thread: Commands,
}

impl Changer {
    fn new(session: &Session, autorate: &Autorate) -> Result<Self> {
        let (orders, given) = mpsc::channel();
        let (tell, done) = unbounded_channel();
        let mut spaces = [None, None];
        for (space, side) in spaces.iter_mut().zip([&autorate.up, &autorate.down]) {
            if let Some(side) = side {
                let there = session.nodes.space(side.command.node)?;
                *space = Some(there.try_clone_to_owned()?);
            }
        }
        let work = move || {
            yielding()?;
            obey(&spaces, &given, &tell)
        };
        let thread = thread::Builder::new().name("autorate".to_owned());
        let thread = Rc::new(RefCell::new(Some(thread.spawn(work)?)));
        Ok(Self {
            orders,
            done,
            thread,
        })
    }
}

fn obey(
    spaces: &[Option<OwnedFd>; 2],
    given: &mpsc::Receiver<Orders>,
    tell: &UnboundedSender<()>,
) -> Result<()> {
    while let Ok(orders) = given.recv() {
        for (direction, argv) in orders {
            let space = spaces[direction]
                .as_ref()
                .context("a direction has a command")?;
            move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))?;
            execute(&argv)?;
        }
        // Nobody receives it if the run has ended.
        let _ = tell.send(());
    }
    Ok(())
}
