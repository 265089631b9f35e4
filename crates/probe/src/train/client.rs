// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The client: a conversation with one server.

use crate::bound::{OutOfRange, within};
use crate::datagrams::Datagrams;
use crate::train::message::{COOKIE, Message, Seen, Train};
use crate::train::pace::since;
use crate::train::{Arrival, Arrivals};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use weirgate_units::Direction;

/// How often a question is asked, and how long to wait for each answer, which a modem's full
/// buffer may delay for seconds.
const TRIES: u32 = 4;
const PATIENCE: Duration = Duration::from_secs(5);

/// The time without packets after which a train has ended.
const SILENCE: Duration = Duration::from_secs(3);
/// The longest time for a train to arrive. It is sent for up to twelve seconds, passes the line
/// in twice that time, and may find data queued before it.
const LONGEST: Duration = Duration::from_secs(30);

/// The reason why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The server does not answer.
    #[error(
        "{0} does not answer; does `weirgate probe --serve` run there, and does a firewall let \
         UDP through?"
    )]
    Silent(SocketAddr),
    /// The server declines a train: too many clients at the same time.
    #[error("the serving end is busy; try again later")]
    Busy,
    /// The server reports an impossible number.
    #[error("{peer} sends a number that is out of range: {what}")]
    OutOfRange {
        /// The server.
        peer: SocketAddr,
        /// The number and its bounds.
        what: OutOfRange,
    },
    /// The socket failed.
    #[error("the socket failed: {0}")]
    Socket(#[from] io::Error),
}

/// A conversation with a server.
#[derive(Debug)]
pub struct Client {
    socket: Box<dyn Datagrams>,
    server: SocketAddr,
    cookie: [u8; COOKIE],
    clock: Instant,
    trains: u32,
}

impl Client {
    /// Greets a server.
    pub fn greet(server: SocketAddr) -> Result<Self, ProbeError> {
        let any: SocketAddr = match server {
            SocketAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(server)?;
        Self::over(Box::new(socket), server)
    }

    /// Greets a server over an existing path.
    pub fn over(socket: Box<dyn Datagrams>, server: SocketAddr) -> Result<Self, ProbeError> {
        let mut client = Self {
            socket,
            server,
            cookie: [0; COOKIE],
            clock: Instant::now(),
            trains: 0,
        };
        client.round_trip()?;
        Ok(client)
    }

    /// Returns the bytes of headers around a payload.
    #[must_use]
    pub fn headers(&self) -> u32 {
        // IPv4 or IPv6, and UDP.
        if self.server.is_ipv4() { 28 } else { 48 }
    }

    /// Measures the time of a greeting and its answer.
    pub fn round_trip(&mut self) -> Result<Duration, ProbeError> {
        for number in 0..TRIES {
            let nonce = since(self.clock) << 8 | u64::from(number);
            let begin = Instant::now();
            self.tell(&Message::Hello { nonce })?;
            let answer = self.hear(PATIENCE, |message| match message {
                Message::Welcome { nonce: own, cookie } if own == nonce => Some(cookie),
                _ => None,
            })?;
            if let Some(cookie) = answer {
                self.cookie = cookie;
                return Ok(begin.elapsed());
            }
        }
        Err(ProbeError::Silent(self.server))
    }

    /// Sends a train with this payload, or lets the server send it. Returns the observations of
    /// its receiver.
    pub fn train(
        &mut self,
        direction: Direction,
        payload: u16,
        count: u32,
        gap: Duration,
    ) -> Result<Seen, ProbeError> {
        self.trains += 1;
        let train = Train {
            id: self.trains,
            payload,
            count,
            gap_ns: u64::try_from(gap.as_nanos()).unwrap_or(u64::MAX),
        };
        let train = self.bounded(train.check())?;
        let seen = match direction {
            Direction::Up => self.up(&train)?,
            Direction::Down => self.down(&train)?,
        };
        self.bounded(within("received", seen.received, 0..=count))?;
        self.bounded(seen.check())
    }

    /// Returns a checked number, or an error that names the server.
    pub(crate) fn bounded<T>(&self, checked: Result<T, OutOfRange>) -> Result<T, ProbeError> {
        let peer = self.server;
        checked.map_err(|what| ProbeError::OutOfRange { peer, what })
    }

    fn up(&mut self, train: &Train) -> Result<Seen, ProbeError> {
        let (cookie, id) = (self.cookie, train.id);
        let expect = Message::Expect {
            cookie,
            train: *train,
        };
        self.asked(&expect, |message| {
            matches!(message, Message::Ready { id: own } if own == id).then_some(())
        })?;
        self.socket.send_train(train, self.clock)?;
        // The question queues behind the train, so it arrives after all packets.
        self.asked(&Message::Ask { cookie, id }, |message| match message {
            Message::Report { id: own, seen } if own == id => Some(seen),
            _ => None,
        })
    }

    fn down(&mut self, train: &Train) -> Result<Seen, ProbeError> {
        let cookie = self.cookie;
        let mut arrivals = Arrivals::of(*train);
        for _ in 0..TRIES {
            self.tell(&Message::Send {
                cookie,
                train: *train,
            })?;
            self.gather(train, &mut arrivals)?;
            if !arrivals.is_empty() {
                return Ok(arrivals.seen());
            }
        }
        Err(ProbeError::Silent(self.server))
    }

    /// Receives a train until its last packet, or until no more packets arrive.
    fn gather(&mut self, train: &Train, arrivals: &mut Arrivals) -> Result<(), ProbeError> {
        let begin = Instant::now();
        loop {
            let patience = if arrivals.is_empty() {
                PATIENCE
            } else {
                SILENCE.max(Duration::from_nanos(train.gap_ns) * 4)
            };
            let clock = self.clock;
            let left = LONGEST.saturating_sub(begin.elapsed());
            let came = self.hear(patience.min(left), |message| match message {
                Message::Data { id, index, sent_ns } if id == train.id => Some(Ok(Arrival {
                    index,
                    sent_ns,
                    came_ns: since(clock),
                })),
                Message::Refused { id } if id == train.id => Some(Err(ProbeError::Busy)),
                _ => None,
            })?;
            let Some(arrival) = came.transpose()? else {
                return Ok(());
            };
            if self.bounded(arrivals.take(arrival))? {
                return Ok(());
            }
        }
    }

    /// Repeats a question until an answer arrives.
    fn asked<T>(
        &mut self,
        question: &Message,
        mut answer: impl FnMut(Message) -> Option<T>,
    ) -> Result<T, ProbeError> {
        for _ in 0..TRIES {
            self.tell(question)?;
            let heard = self.hear(PATIENCE, |message| match message {
                Message::Refused { .. } => Some(Err(ProbeError::Busy)),
                other => answer(other).map(Ok),
            })?;
            if let Some(heard) = heard {
                return heard;
            }
        }
        Err(ProbeError::Silent(self.server))
    }

    fn tell(&self, message: &Message) -> Result<(), ProbeError> {
        match self.socket.send(&message.bytes()) {
            Ok(()) => Ok(()),
            // An earlier packet reached a closed port; the missing answer will show it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the first wanted message within a time; ignores others.
    fn hear<T>(
        &self,
        patience: Duration,
        mut wanted: impl FnMut(Message) -> Option<T>,
    ) -> Result<Option<T>, ProbeError> {
        let end = Instant::now() + patience;
        let mut payload = [0; 2048];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            match self.socket.hear(&mut payload, left) {
                Ok(length) => {
                    let message = self.bounded(Message::read(&payload[..length]))?;
                    if let Some(found) = message.and_then(&mut wanted) {
                        return Ok(Some(found));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    return Err(ProbeError::Silent(self.server));
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock
                            | io::ErrorKind::TimedOut
                            | io::ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
