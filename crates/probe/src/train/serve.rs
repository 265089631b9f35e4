// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The serving end: answers whoever greets, sends and receives trains.

use crate::train::message::{COOKIE, Message, Train};
use crate::train::pace::{self, since};
use crate::train::{Arrival, Arrivals};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

/// Trains that are sent at a time, and that are received.
const MOST_SENDING: usize = 4;
const MOST_RECEIVING: usize = 16;

/// A serving end.
#[derive(Debug)]
pub struct Server {
    socket: Arc<UdpSocket>,
    secret: [u8; 32],
    clock: Instant,
    sending: Arc<AtomicUsize>,
    receiving: BTreeMap<SocketAddr, Receiving>,
}

/// A train that comes from someone.
#[derive(Debug)]
struct Receiving {
    train: Train,
    arrivals: Arrivals,
    last: Instant,
}

impl Server {
    /// One that listens at an address. Needs no privilege.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let mut secret = [0; 32];
        File::open("/dev/urandom")?.read_exact(&mut secret)?;
        Ok(Self {
            socket: Arc::new(UdpSocket::bind(address)?),
            secret,
            clock: Instant::now(),
            sending: Arc::default(),
            receiving: BTreeMap::new(),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves until the socket fails.
    pub fn run(mut self) -> io::Result<()> {
        let mut payload = [0; 2048];
        loop {
            let (length, from) = match self.socket.recv_from(&mut payload) {
                Ok(received) => received,
                // An earlier answer found no port; or a signal.
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
                // An answer that cannot be sent is as one that is lost.
                let _ = self.socket.send_to(&answer.bytes(), from);
            }
        }
    }

    fn answer(&mut self, message: &Message, from: SocketAddr, came_ns: u64) -> Option<Message> {
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
                // What is no packet of the train does not count for it.
                if receiving.train.id == id && receiving.arrivals.take(arrival).is_ok() {
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
                let receiving = self.receiving.get(&from)?;
                (receiving.train.id == id).then(|| Message::Told {
                    id,
                    seen: receiving.arrivals.seen(),
                })
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

    /// A train to someone, from a thread of its own.
    fn send(&self, to: SocketAddr, train: Train) -> Option<Message> {
        let refused = Some(Message::Refused { id: train.id });
        if train.check().is_err() {
            return refused;
        }
        if self.sending.fetch_add(1, Ordering::SeqCst) >= MOST_SENDING {
            self.sending.fetch_sub(1, Ordering::SeqCst);
            return refused;
        }
        let (socket, sending, clock) = (
            Arc::clone(&self.socket),
            Arc::clone(&self.sending),
            self.clock,
        );
        thread::spawn(move || {
            // Whoever asked sees that packets are missing.
            let _ = pace::send(&socket, to, &train, clock);
            sending.fetch_sub(1, Ordering::SeqCst);
        });
        None
    }

    fn expect(&mut self, from: SocketAddr, train: Train) -> Message {
        if train.check().is_err() {
            return Message::Refused { id: train.id };
        }
        let known = self.receiving.get(&from);
        if known.is_some_and(|receiving| receiving.train == train) {
            return Message::Ready { id: train.id };
        }
        if known.is_none() && self.receiving.len() >= MOST_RECEIVING {
            let oldest = self.receiving.iter().min_by_key(|(_, one)| one.last);
            if let Some(address) = oldest.map(|(address, _)| *address) {
                self.receiving.remove(&address);
            }
        }
        let receiving = Receiving {
            train,
            arrivals: Arrivals::of(train),
            last: Instant::now(),
        };
        self.receiving.insert(from, receiving);
        Message::Ready { id: train.id }
    }
}
