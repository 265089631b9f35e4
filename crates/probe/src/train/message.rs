// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The messages between the two ends of a measurement, as UDP payloads.
//!
//! Until a client has shown that packets reach it, the server never sends it more than it
//! received (as in QUIC, RFC 9000 section 8.1). A greeting is padded to [`GREETING`] bytes and
//! answered by a shorter one with a cookie. All other messages need the cookie.

use crate::bound::{OutOfRange, within};

/// The first bytes of every message.
const MAGIC: [u8; 4] = *b"WGP1";

/// The size of a cookie in bytes.
pub const COOKIE: usize = 16;

/// The payload of a greeting in bytes, longer than the answer.
pub const GREETING: usize = 128;

/// The payload of the shortest packet of a train in bytes.
pub const SHORTEST: usize = 4 + 1 + 4 + 4 + 8;

/// The most packets, the most bytes and the longest time of one train.
pub const MOST_PACKETS: u32 = 65_536;
/// See [`MOST_PACKETS`].
pub const MOST_BYTES: u64 = 64 << 20;
/// See [`MOST_PACKETS`].
pub const LONGEST_NS: u64 = 12_000_000_000;
/// Returns the largest number of packets with this payload in one train. On a fast line
/// [`MOST_BYTES`] limits it, before [`MOST_PACKETS`] or the time do.
pub fn most_packets(payload: u16) -> u32 {
    let fit = MOST_BYTES / u64::from(payload.max(1));
    u32::try_from(fit).map_or(MOST_PACKETS, |fit| fit.min(MOST_PACKETS))
}

/// The largest difference between the delays of packets in a train: on a slow line, behind a
/// modem's full buffer.
const MOST_DELAY_NS: u64 = 60_000_000_000;

/// Packets of one size, sent at equal intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Train {
    /// The number that identifies its packets.
    pub id: u32,
    /// The UDP payload of each packet in bytes.
    pub payload: u16,
    /// The number of packets.
    pub count: u32,
    /// The time from the start of one packet to the start of the next.
    pub gap_ns: u64,
}

impl Train {
    /// Checks the size and duration of the train.
    pub fn check(self) -> Result<Self, OutOfRange> {
        let time_ns = u64::from(self.count).saturating_mul(self.gap_ns);
        within("payload", usize::from(self.payload), SHORTEST..=1472)?;
        within("count", self.count, 2..=MOST_PACKETS)?;
        let bytes = u64::from(self.count) * u64::from(self.payload);
        within("count * payload", bytes, 0..=MOST_BYTES)?;
        within("count * gap_ns", time_ns, 0..=LONGEST_NS)?;
        Ok(self)
    }
}

/// The observations of a train's receiver; times are in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Seen {
    /// The number of packets that arrived.
    pub received: u32,
    /// The mean interval between packets.
    pub gap_ns: f64,
    /// Its standard error.
    pub gap_error_ns: f64,
    /// The difference between the longest and the shortest delay.
    pub delay_ns: u64,
    /// The same difference for the shortest delay in the train's second half: it is above 0 if
    /// there was a standing queue.
    pub standing_ns: u64,
}

impl Seen {
    /// Checks whether the observations are possible.
    pub fn check(self) -> Result<Self, OutOfRange> {
        within("received", self.received, 0..=MOST_PACKETS)?;
        // 0 means unknown; shorter gaps than a nanosecond are impossible.
        if self.gap_ns != 0.0 {
            within("gap_ns", self.gap_ns, 1.0..=LONGEST_NS as f64)?;
        }
        // Infinity means unknown.
        within("gap_error_ns", self.gap_error_ns, 0.0..=f64::INFINITY)?;
        within("delay_ns", self.delay_ns, 0..=MOST_DELAY_NS)?;
        within("standing_ns", self.standing_ns, 0..=self.delay_ns)?;
        Ok(self)
    }
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Message {
    /// Requests a cookie; its payload is [`GREETING`] bytes long.
    Hello {
        /// A number that comes back with the cookie.
        nonce: u64,
    },
    /// The answer to [`Message::Hello`].
    Welcome {
        /// The number in the request.
        nonce: u64,
        /// The cookie that every later message needs.
        cookie: [u8; COOKIE],
    },
    /// Requests that the server send a train.
    Send {
        /// The cookie.
        cookie: [u8; COOKIE],
        /// The train.
        train: Train,
    },
    /// Announces a train.
    Expect {
        /// The cookie.
        cookie: [u8; COOKIE],
        /// The train.
        train: Train,
    },
    /// The answer to [`Message::Expect`].
    Ready {
        /// The train's number.
        id: u32,
    },
    /// A packet of a train; the rest of its payload is zero.
    Data {
        /// The train's number.
        id: u32,
        /// Its index in the train, from 0.
        index: u32,
        /// The time of sending, by the sender's clock.
        sent_ns: u64,
    },
    /// Asks for the observations of a train.
    Ask {
        /// The cookie.
        cookie: [u8; COOKIE],
        /// The train's number.
        id: u32,
    },
    /// The answer to [`Message::Ask`].
    Report {
        /// The train's number.
        id: u32,
        /// The observations.
        seen: Seen,
    },
    /// The server declines: too much, or too many at the same time.
    Refused {
        /// The train's number.
        id: u32,
    },
}

impl Message {
    /// Returns the payload without padding.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        match self {
            Self::Hello { nonce } => {
                out.push(1);
                out.extend(nonce.to_be_bytes());
                out.resize(GREETING, 0);
            }
            Self::Welcome { nonce, cookie } => {
                out.push(2);
                out.extend(nonce.to_be_bytes());
                out.extend(cookie);
            }
            Self::Send { cookie, train } => {
                out.push(3);
                put_train(&mut out, cookie, train);
            }
            Self::Expect { cookie, train } => {
                out.push(4);
                put_train(&mut out, cookie, train);
            }
            Self::Ready { id } => {
                out.push(5);
                out.extend(id.to_be_bytes());
            }
            Self::Data { id, index, sent_ns } => {
                out.push(6);
                out.extend(id.to_be_bytes());
                out.extend(index.to_be_bytes());
                out.extend(sent_ns.to_be_bytes());
            }
            Self::Ask { cookie, id } => {
                out.push(7);
                out.extend(cookie);
                out.extend(id.to_be_bytes());
            }
            Self::Report { id, seen } => {
                out.push(8);
                out.extend(id.to_be_bytes());
                out.extend(seen.received.to_be_bytes());
                out.extend(seen.gap_ns.to_bits().to_be_bytes());
                out.extend(seen.gap_error_ns.to_bits().to_be_bytes());
                out.extend(seen.delay_ns.to_be_bytes());
                out.extend(seen.standing_ns.to_be_bytes());
            }
            Self::Refused { id } => {
                out.push(9);
                out.extend(id.to_be_bytes());
            }
        }
        out
    }

    /// Parses a payload; returns `None` if it is not a message. The end that takes part in a
    /// requested train checks its parameters, and declines if necessary.
    pub fn read(payload: &[u8]) -> Result<Option<Self>, OutOfRange> {
        let message = Self::fields(payload);
        if let Some(Self::Report { seen, .. }) = message {
            seen.check()?;
        }
        Ok(message)
    }

    fn fields(payload: &[u8]) -> Option<Self> {
        let mut rest = Rest(payload.strip_prefix(&MAGIC)?);
        let [kind] = rest.take()?;
        let message = match kind {
            1 if payload.len() >= GREETING => Self::Hello {
                nonce: rest.long()?,
            },
            2 => Self::Welcome {
                nonce: rest.long()?,
                cookie: rest.take()?,
            },
            3 => Self::Send {
                cookie: rest.take()?,
                train: rest.train()?,
            },
            4 => Self::Expect {
                cookie: rest.take()?,
                train: rest.train()?,
            },
            5 => Self::Ready { id: rest.word()? },
            6 => Self::Data {
                id: rest.word()?,
                index: rest.word()?,
                sent_ns: rest.long()?,
            },
            7 => Self::Ask {
                cookie: rest.take()?,
                id: rest.word()?,
            },
            8 => Self::Report {
                id: rest.word()?,
                seen: rest.seen()?,
            },
            9 => Self::Refused { id: rest.word()? },
            _ => return None,
        };
        Some(message)
    }
}

fn put_train(out: &mut Vec<u8>, cookie: &[u8; COOKIE], train: &Train) {
    out.extend(cookie);
    out.extend(train.id.to_be_bytes());
    out.extend(train.payload.to_be_bytes());
    out.extend(train.count.to_be_bytes());
    out.extend(train.gap_ns.to_be_bytes());
}

/// The rest of a payload.
struct Rest<'p>(&'p [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn word(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take()?))
    }

    fn long(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.take()?))
    }

    fn seen(&mut self) -> Option<Seen> {
        Some(Seen {
            received: self.word()?,
            gap_ns: f64::from_bits(self.long()?),
            gap_error_ns: f64::from_bits(self.long()?),
            delay_ns: self.long()?,
            standing_ns: self.long()?,
        })
    }

    fn train(&mut self) -> Option<Train> {
        Some(Train {
            id: self.word()?,
            payload: u16::from_be_bytes(self.take()?),
            count: self.word()?,
            gap_ns: self.long()?,
        })
    }
}
