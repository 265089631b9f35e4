// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate domain end`: one end of a measurement, on a customer's machine, controlled by lines of
//! JSON.
//!
//! It only answers and counts datagrams with the random number of their flow. So nobody but the
//! sender of a flow can make it send or count.

use crate::transport::{FlowSocket, Listening, ServicePorts, payload};
use anyhow::{Context as _, bail};
use rustix::net::sockopt;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, BufRead as _};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::output;
use weirgate_units::Inserted as _;

/// An order to an end.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Listens at the address for datagrams of these flows.
    Listen {
        /// Its own address.
        address: IpAddr,
        /// The number that every datagram of a flow contains.
        numbers: BTreeMap<u32, u64>,
        /// Additional places to listen, besides one port for all.
        places: Vec<ServicePorts>,
    },
    /// Prepares these flows; round trips are measured at once.
    Prepare(Vec<Sending>),
    /// Sends now.
    Send,
    /// Reports what arrived.
    Tell,
}

/// An answer of an end.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It listens at the first port, and at these ports of the places; `None` if all ports of a
    /// place are taken.
    Listening(u16, Vec<Option<u16>>),
    /// The round trips by flow; `None` if no echo arrived.
    Prepared(BTreeMap<u32, Option<Trip>>),
    /// By flow: the packets that were sent, and for how long, in nanoseconds.
    Sent(BTreeMap<u32, (u64, u64)>),
    /// By flow: what arrived.
    Arrived(BTreeMap<u32, Arrived>),
    /// It cannot go on.
    Failed(String),
}

/// The shortest of several round trips.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Trip {
    /// The round-trip time.
    pub round_ns: u64,
    /// The peer's clock at arrival minus its own at sending.
    pub there_ns: i64,
}

/// A flow to send.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sending {
    /// Its number. The lowest six bits are its code point, which answers to echoes use too.
    pub flow: u32,
    /// The random number in its packets, by which the receiver recognises them.
    pub number: u64,
    /// The destination.
    pub to: SocketAddr,
    /// Whether a TCP connection is used.
    pub tcp: bool,
    /// The source ports that it may use, from..=to; empty means any.
    pub from: Vec<(u16, u16)>,
    /// The code point.
    pub dscp: u8,
    /// The bytes of each IP packet.
    pub packet: u16,
    /// The rate in bits of IP packets per second.
    pub rate: u64,
    /// The bytes of IP packets that are sent at once at the beginning.
    pub burst: u64,
    /// The duration.
    pub milliseconds: u64,
}

/// What arrived of a flow.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Arrived {
    /// Packets.
    pub packets: u64,
    /// The minimum of its own clock at arrival minus the sender's at sending.
    pub least_ns: i64,
    /// The maximum of the same difference.
    pub most_ns: i64,
}

/// The length of a datagram's head: number, kind, flow, place, sending time.
pub const HEAD: usize = 8 + 1 + 4 + 8 + 8;
/// The kinds of packets: one that is counted, one that is answered, and the answer.
const COUNTED: u8 = 0;
const ECHO: u8 = 1;
const ANSWER: u8 = 2;
/// The number of round trips before anything is sent, and the timeout of each.
const ECHOES: u64 = 10;
const PATIENCE: Duration = Duration::from_secs(1);

/// Runs until standard input ends.
pub fn run() -> Outcome {
    let mut end = End::default();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let order: Order = serde_json::from_slice(line.as_bytes()).map_err(|error| {
            Failure::Input(format!(
                "weirgate: `domain end` is controlled by `domain verify`: {error}"
            ))
        })?;
        let answer = end
            .carry_out(order)
            .unwrap_or_else(|error| Answer::Failed(format!("{error:#}")));
        output::data(&serde_json::to_string(&answer)?)?;
    }
    Ok(Status::Done)
}

#[derive(Default)]
struct End {
    arrivals: Arrivals,
    own: Option<SocketAddr>,
    listening: Listening,
    ready: Vec<(Sending, FlowSocket)>,
}

/// What arrived by flow, of datagrams and messages with the right number.
#[derive(Clone, Default)]
pub struct Arrivals {
    numbers: Arc<BTreeMap<u32, u64>>,
    flows: Arc<Mutex<BTreeMap<u32, Arrived>>>,
}

impl Arrivals {
    /// Starts to count flows with these numbers.
    pub fn of(numbers: BTreeMap<u32, u64>) -> Self {
        Self {
            numbers: Arc::new(numbers),
            ..Self::default()
        }
    }

    /// Returns whether a packet belongs to one of these flows.
    pub fn awaits(&self, packet: &[u8]) -> bool {
        Label::of(packet).is_some_and(|label| self.numbers.get(&label.flow) == Some(&label.number))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Arrived>> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl End {
    fn carry_out(&mut self, order: Order) -> anyhow::Result<Answer> {
        match order {
            Order::Listen {
                address,
                numbers,
                places,
            } => self.listen(address, numbers, &places),
            Order::Prepare(flows) => self.prepare(flows),
            Order::Send => Ok(self.send()),
            Order::Tell => Ok(Answer::Arrived(self.arrivals.lock().clone())),
        }
    }

    fn listen(
        &mut self,
        address: IpAddr,
        numbers: BTreeMap<u32, u64>,
        places: &[ServicePorts],
    ) -> anyhow::Result<Answer> {
        self.arrivals = Arrivals::of(numbers);
        let any = ServicePorts {
            tcp: false,
            ports: Vec::new(),
        };
        let mut at = |place: &ServicePorts| self.listening.at(address, place, &self.arrivals);
        let port = at(&any)
            .with_context(|| format!("listen at {address}, the `address` of the customer"))?;
        self.own = Some(SocketAddr::new(address, port));
        Ok(Answer::Listening(port, places.iter().map(at).collect()))
    }

    /// Opens each flow's socket and measures its path while it is empty.
    fn prepare(&mut self, flows: Vec<Sending>) -> anyhow::Result<Answer> {
        let Some(own) = self.own else {
            bail!("`prepare` comes after `listen`");
        };
        let mut trips = BTreeMap::new();
        for flow in flows {
            // A flow without a socket sends nothing, which shows that opening it failed.
            let Ok(mut socket) = FlowSocket::open(own.ip(), &flow, PATIENCE) else {
                continue;
            };
            trips.insert(flow.flow, trip(&flow, &mut socket));
            self.ready.push((flow, socket));
        }
        // Wait until the token buckets have recovered from the echoes.
        let refilled = self.ready.iter().map(|(flow, _)| gap(flow, flow.burst));
        thread::sleep(refilled.max().unwrap_or_default().min(PATIENCE));
        Ok(Answer::Prepared(trips))
    }

    fn send(&mut self) -> Answer {
        let started: Vec<_> = self
            .ready
            .drain(..)
            .filter_map(|(flow, mut socket)| {
                let id = flow.flow;
                let work = move || stream(&flow, &mut socket);
                // A flow without a thread is not reported, which shows that nothing was sent.
                Some((id, thread::Builder::new().spawn(work).ok()?))
            })
            .collect();
        let ended = started
            .into_iter()
            .map(|(flow, thread)| (flow, thread.join().unwrap_or_default()));
        Answer::Sent(ended.inserted())
    }
}

/// Measures several round trips with a flow's own packets. Returns the shortest.
fn trip(flow: &Sending, socket: &mut FlowSocket) -> Option<Trip> {
    let mut best: Option<Trip> = None;
    let mut packet = vec![0; payload(flow)];
    for place in 0..ECHOES {
        // Stay within the profile, as a router measures it.
        thread::sleep(gap(flow, u64::from(flow.packet)).min(PATIENCE));
        let sent = now();
        head(&mut packet, flow, ECHO, place, sent);
        if socket.send(&packet).is_err() {
            continue;
        }
        let mut answer = vec![0; packet.len()];
        let mut read = |socket: &mut FlowSocket| -> io::Result<Option<Trip>> {
            let length = socket.hear(&mut answer)?;
            let label = Label::of(&answer[..length]).filter(|label| {
                label.kind == ANSWER
                    && label.place == place
                    && (label.flow, label.number) == (flow.flow, flow.number)
            });
            Ok(label.map(|label| Trip {
                round_ns: now().saturating_sub(sent),
                there_ns: difference(label.time, sent),
            }))
        };
        // A late answer to an earlier echo does not count; a lost one is one fewer.
        if let Ok(Some(trip)) = read(socket) {
            let shorter = best.is_none_or(|best| trip.round_ns < best.round_ns);
            best = if shorter { Some(trip) } else { best };
        } else if place >= 2 && best.is_none() {
            break;
        }
    }
    best
}

/// Sends a flow: its burst at once, then at its rate. A late sender catches up by at most its
/// burst, so that it stays within the profile. So the timer has to be as exact as the kernel
/// permits.
///
/// What a connection did not accept in time counts as sent, and so as lost.
fn stream(flow: &Sending, socket: &mut FlowSocket) -> (u64, u64) {
    // Without this, timers are up to 50 us late (prctl(2), PR_SET_TIMERSLACK).
    let exact = NonZeroU64::new(1);
    let _ = rustix::thread::set_current_timer_slack(exact);
    let size = u64::from(flow.packet).max(1);
    let gap = gap(flow, size);
    // One packet of the burst is reserved, because the network changes the distances of packets
    // before the router that measures them.
    let ahead = u32::try_from((flow.burst / size).saturating_sub(2)).unwrap_or(u32::MAX);
    let length = Duration::from_millis(flow.milliseconds);
    let begin = Instant::now();
    let mut packet = vec![0; payload(flow)];
    let mut sent = 0;
    // The theoretical arrival time at which the bucket is full again.
    let mut full = Duration::ZERO;
    loop {
        let due = full.saturating_sub(gap * ahead);
        if due >= length {
            break;
        }
        let passed = begin.elapsed();
        if due > passed {
            thread::sleep(due.checked_sub(passed).unwrap_or_default());
        }
        head(&mut packet, flow, COUNTED, sent, now());
        // A packet that cannot be sent counts as lost.
        let waited = socket.send(&packet).unwrap_or_default();
        let missed = waited.as_nanos() / gap.as_nanos().max(1);
        sent += 1 + u64::try_from(missed).unwrap_or(u64::MAX);
        full = full.max(begin.elapsed()) + gap;
    }
    (sent, nanoseconds(begin.elapsed()))
}

/// Answers echoes and counts the rest, until the socket fails.
pub fn receive(socket: &UdpSocket, arrivals: &Arrivals) {
    let mut packet = [0; 2048];
    let mut tos = None;
    loop {
        let (length, from) = match socket.recv_from(&mut packet) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // A port unreachable error for an earlier answer.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(_) => return,
        };
        let packet = &mut packet[..length];
        if let Some(point) = answered(packet, arrivals) {
            if tos != Some(point) {
                let set = if from.is_ipv6() {
                    sockopt::set_ipv6_tclass(socket, u32::from(point) << 2)
                } else {
                    sockopt::set_ip_tos(socket, point << 2)
                };
                tos = set.is_ok().then_some(point);
            }
            // An answer that cannot be sent counts as lost.
            let _ = socket.send_to(packet, from);
        }
    }
}

/// Counts a packet, or turns an echo into its answer, to be sent back with the returned code point.
pub fn answered(packet: &mut [u8], arrivals: &Arrivals) -> Option<u8> {
    let came = now();
    let label = Label::of(packet).filter(|_| arrivals.awaits(packet))?;
    if label.kind == COUNTED {
        let took = difference(came, label.time);
        let mut arrived = arrivals.lock();
        let flow = arrived.entry(label.flow).or_insert(Arrived {
            packets: 0,
            least_ns: took,
            most_ns: took,
        });
        flow.packets += 1;
        flow.least_ns = flow.least_ns.min(took);
        flow.most_ns = flow.most_ns.max(took);
        return None;
    }
    (label.kind == ECHO).then(|| {
        let point = (label.flow & 63) as u8;
        Label {
            kind: ANSWER,
            time: came,
            ..label
        }
        .write(packet);
        point
    })
}

/// Returns a packet that is answered.
#[cfg(test)]
pub fn echo(packet: &mut [u8], flow: &Sending) {
    head(packet, flow, ECHO, 0, now());
}

/// The head of a datagram.
struct Label {
    number: u64,
    kind: u8,
    flow: u32,
    place: u64,
    time: u64,
}

impl Label {
    fn of(packet: &[u8]) -> Option<Self> {
        let (number, rest) = packet.split_first_chunk()?;
        let ([kind], rest) = rest.split_first_chunk()?;
        let (flow, rest) = rest.split_first_chunk()?;
        let (place, rest) = rest.split_first_chunk()?;
        let (time, _) = rest.split_first_chunk()?;
        Some(Self {
            number: u64::from_be_bytes(*number),
            kind: *kind,
            flow: u32::from_be_bytes(*flow),
            place: u64::from_be_bytes(*place),
            time: u64::from_be_bytes(*time),
        })
    }

    fn write(&self, packet: &mut [u8]) {
        let mut head = Vec::with_capacity(HEAD);
        head.extend(self.number.to_be_bytes());
        head.push(self.kind);
        head.extend(self.flow.to_be_bytes());
        head.extend(self.place.to_be_bytes());
        head.extend(self.time.to_be_bytes());
        if let Some(place) = packet.get_mut(..HEAD) {
            place.copy_from_slice(&head);
        }
    }
}

/// Writes the head of a flow's packet.
fn head(packet: &mut [u8], flow: &Sending, kind: u8, place: u64, time: u64) {
    Label {
        number: flow.number,
        kind,
        flow: flow.flow,
        place,
        time,
    }
    .write(packet);
}

/// Returns how long this many bytes take at a flow's rate.
fn gap(flow: &Sending, bytes: u64) -> Duration {
    let bits = u128::from(bytes) * 8 * 1_000_000_000;
    let time = bits / u128::from(flow.rate.max(1));
    Duration::from_nanos(u64::try_from(time).unwrap_or(u64::MAX))
}

/// Returns the time by a clock that nobody sets. Only its differences from the clock of the other
/// end matter, so the two may begin at any time.
fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    nanoseconds(Duration::try_from(now).unwrap_or_default())
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn difference(later: u64, earlier: u64) -> i64 {
    later.wrapping_sub(earlier).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_counted_by_its_own_number_alone() {
        let arrivals = Arrivals::of(BTreeMap::from([(10, 7), (74, 8)]));
        let counted = |number, flow| {
            let mut packet = vec![0; HEAD];
            let label = Label {
                number,
                kind: COUNTED,
                flow,
                place: 0,
                time: 0,
            };
            label.write(&mut packet);
            answered(&mut packet, &arrivals);
        };
        // The sender of flow 74 knows its number, but not that of the other flow.
        for (number, flow) in [(8, 74), (8, 10), (8, 11), (0, 10), (7, 10)] {
            counted(number, flow);
        }
        let arrived = arrivals.lock();
        let packets = arrived.iter().map(|(flow, one)| (*flow, one.packets));
        assert_eq!(packets.collect::<Vec<_>>(), [(10, 1), (74, 1)]);
        drop(arrived);
    }
    /// A clock that somebody sets between an echo and a later packet would change what is between
    /// the two.
    #[test]
    fn an_end_tells_the_time_of_a_clock_that_nobody_sets() {
        let arrivals = Arrivals::of(BTreeMap::from([(10, 7)]));
        let mut packet = vec![0; HEAD];
        let echo = Label {
            number: 7,
            kind: ECHO,
            flow: 10,
            place: 0,
            time: 0,
        };
        echo.write(&mut packet);
        let clock = || Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap();
        let before = nanoseconds(clock());
        assert_eq!(answered(&mut packet, &arrivals), Some(10));
        let told = Label::of(&packet).unwrap().time;
        assert!((before..=nanoseconds(clock())).contains(&told), "{told}");
    }
}
