// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server: answers clients, and sends and receives trains.

use crate::source_limit::{Quota, SourceLimit};
use crate::train::message::{COOKIE, Message, Seen, Train};
use crate::train::pace::{self, since};
use crate::train::{Arrival, Arrivals};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::Instant;
use weirgate_units::network;

/// The limits on trains that are sent and received at the same time.
const SENDING: Quota = Quota {
    all: 4,
    of_network: 2,
};
const RECEIVING: Quota = Quota {
    all: 16,
    of_network: 4,
};

/// A server for trains.
#[derive(Debug)]
pub struct Server {
    socket: Arc<UdpSocket>,
    secret: [u8; 32],
    clock: Instant,
    sending: Arc<SourceLimit>,
    receiving: BTreeMap<SocketAddr, Receiving>,
}

/// A train that is being received.
#[derive(Debug)]
struct Receiving {
    train: Train,
    arrivals: Arrivals,
    last: Instant,
    /// The observations, once the client has asked for them. Evaluating a train takes longer than
    /// sending the question, so it is done once.
    seen: Option<Seen>,
}

impl Receiving {
    /// Returns the observations of the packets that arrived before the first question.
    fn seen(&mut self) -> Seen {
        let seen = self.seen.unwrap_or_else(|| self.arrivals.seen());
        if !self.arrivals.is_empty() {
            self.seen = Some(seen);
        }
        seen
    }
}

impl Server {
    /// Listens at an address. Needs no privilege.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let mut secret = [0; 32];
        File::open("/dev/urandom")?.read_exact(&mut secret)?;
        Ok(Self {
            socket: Arc::new(UdpSocket::bind(address)?),
            secret,
            clock: Instant::now(),
            sending: SourceLimit::new(SENDING),
            receiving: BTreeMap::new(),
        })
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves until the socket fails.
    pub fn run(mut self) -> io::Result<()> {
        let mut payload = [0; 2048];
        loop {
            let (length, from) = match self.socket.recv_from(&mut payload) {
                Ok(received) => received,
                // An earlier answer reached a closed port, or a signal arrived.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::ConnectionRefused | io::ErrorKind::Interrupted
                    ) =>
                {
                    continue;
                }
                Err(error) => return Err(error),
            };
            let came_ns = since(self.clock);
            if let Ok(Some(message)) = Message::read(&payload[..length])
                && let Some(answer) = self.answer(&message, from, came_ns)
            {
                // An answer that cannot be sent counts as lost.
                let _ = self.socket.send_to(&answer.bytes(), from);
            }
        }
    }

    /// Returns the answer to a message that arrived at this time; trains are sent separately.
    pub fn answer(&mut self, message: &Message, from: SocketAddr, came_ns: u64) -> Option<Message> {
        match *message {
            Message::Hello { nonce } => Some(Message::Welcome {
                nonce,
                cookie: self.cookie(from),
            }),
            Message::Data { id, index, sent_ns } => {
                let receiving = self.receiving.get_mut(&from)?;
                let arrival = Arrival {
                    index,
                    sent_ns,
                    came_ns,
                };
                // Ignore packets that do not belong to the train, and those that come after the
                // client's question.
                if receiving.train.id == id
                    && receiving.seen.is_none()
                    && receiving.arrivals.take(arrival).is_ok()
                {
                    receiving.last = Instant::now();
                }
                None
            }
            Message::Send { cookie, train } if cookie == self.cookie(from) => {
                self.send(from, train)
            }
            Message::Expect { cookie, train } if cookie == self.cookie(from) => {
                Some(self.expect(from, train))
            }
            Message::Ask { cookie, id } if cookie == self.cookie(from) => {
                let receiving = self.receiving.get_mut(&from)?;
                let seen = (receiving.train.id == id).then(|| receiving.seen());
                seen.map(|seen| Message::Report { id, seen })
            }
            _ => None,
        }
    }

    fn cookie(&self, from: SocketAddr) -> [u8; COOKIE] {
        let mut hash = Sha256::new();
        hash.update(self.secret);
        hash.update(from.to_string());
        let digest = hash.finalize();
        let mut cookie = [0; COOKIE];
        cookie.copy_from_slice(&digest[..COOKIE]);
        cookie
    }

    /// Sends a train from a separate thread.
    fn send(&self, to: SocketAddr, train: Train) -> Option<Message> {
        let refused = Some(Message::Refused { id: train.id });
        if train.check().is_err() {
            return refused;
        }
        let Some(place) = self.sending.take(to.ip()) else {
            return refused;
        };
        let (socket, clock) = (Arc::clone(&self.socket), self.clock);
        let started = thread::Builder::new().spawn(move || {
            // The receiver will see that packets are missing.
            let _ = pace::send(&socket, to, &train, clock);
            drop(place);
        });
        // Too many threads exist.
        started.err().and(refused)
    }

    fn expect(&mut self, from: SocketAddr, train: Train) -> Message {
        if train.check().is_err() {
            return Message::Refused { id: train.id };
        }
        let known = self.receiving.get(&from);
        // After its question, a client that announces an equal train is another one.
        if known.is_some_and(|receiving| receiving.train == train && receiving.seen.is_none()) {
            return Message::Ready { id: train.id };
        }
        if known.is_none() {
            self.make_room(from.ip());
        }
        let receiving = Receiving {
            train,
            arrivals: Arrivals::of(train),
            last: Instant::now(),
            seen: None,
        };
        self.receiving.insert(from, receiving);
        Message::Ready { id: train.id }
    }

    /// Drops a train if there are too many. It is the oldest one of the client's network if that
    /// has its maximum, or else the oldest of the largest network.
    fn make_room(&mut self, from: IpAddr) {
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for address in self.receiving.keys() {
            *counts.entry(network(address.ip())).or_default() += 1;
        }
        let own = network(from);
        let crowded = if counts
            .get(&own)
            .is_some_and(|own| *own >= RECEIVING.of_network)
        {
            Some(own)
        } else if self.receiving.len() >= RECEIVING.all {
            let most = counts.into_iter().max_by_key(|(_, count)| *count);
            most.map(|(network, _)| network)
        } else {
            None
        };
        let crowd = self.receiving.iter();
        let oldest = crowd
            .filter(|(address, _)| Some(network(address.ip())) == crowded)
            .min_by_key(|(_, one)| one.last);
        if let Some(address) = oldest.map(|(address, _)| *address) {
            self.receiving.remove(&address);
        }
    }
}
