// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the two ends of a measurement say to each other, as UDP payloads.
//!
//! Until a client has shown that packets reach it, the serving end never sends it
//! more than it received (as RFC 9000 section 8.1 has it for QUIC). A greeting is
//! padded to [`GREETING`] bytes and answered by a shorter one with a cookie.
//! Everything else needs the cookie.

use crate::bound::{OutOfRange, within};

/// The first bytes of every message.
const MAGIC: [u8; 4] = *b"WGP1";

/// Bytes of a cookie.
pub const COOKIE: usize = 16;

/// The payload of a greeting: longer than the answer.
pub const GREETING: usize = 128;

/// The payload of the shortest packet of a train.
pub const SHORTEST: usize = 4 + 1 + 4 + 4 + 8;

/// The most packets, the most bytes and the longest time of one train.
pub const MOST_PACKETS: u32 = 65_536;
/// See [`MOST_PACKETS`].
pub const MOST_BYTES: u64 = 64 << 20;
/// See [`MOST_PACKETS`].
pub const LONGEST_NS: u64 = 12_000_000_000;
/// The most packets of this payload in one train. On a fast line it is [`MOST_BYTES`] that
/// ends one, before [`MOST_PACKETS`] or its time do.
pub fn most_packets(payload: u16) -> u32 {
    let fit = MOST_BYTES / u64::from(payload.max(1));
    u32::try_from(fit).map_or(MOST_PACKETS, |fit| fit.min(MOST_PACKETS))
}

/// The longest that packets of one train may wait beside each other: a train on
/// a slow line, behind a modem's full buffer.
const MOST_DELAY_NS: u64 = 60_000_000_000;

/// Packets of one size, sent at even distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Train {
    /// Its number, by which its packets are known.
    pub id: u32,
    /// Bytes of UDP payload of each packet.
    pub payload: u16,
    /// How many packets.
    pub count: u32,
    /// The time from the begin of one to the begin of the next.
    pub gap_ns: u64,
}

impl Train {
    /// The train, if either end takes part in it: bounded in size and in time.
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

/// What the receiver of a train saw; times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Seen {
    /// How many packets came.
    pub received: u32,
    /// The time from packet to packet, in the mean.
    pub gap_ns: f64,
    /// Its standard error.
    pub gap_error_ns: f64,
    /// How much longer the slowest packet took than the fastest.
    pub delay_ns: u64,
    /// The same of the fastest in the train's second half: above 0 if a queue
    /// stood all the time.
    pub standing_ns: u64,
}

impl Seen {
    /// What was seen, if it can be true of a train.
    pub fn check(self) -> Result<Self, OutOfRange> {
        within("received", self.received, 0..=MOST_PACKETS)?;
        // 0 where there is no telling; a gap of less than a nanosecond is none.
        if self.gap_ns != 0.0 {
            within("gap_ns", self.gap_ns, 1.0..=LONGEST_NS as f64)?;
        }
        // Infinite where there is no telling.
        within("gap_error_ns", self.gap_error_ns, 0.0..=f64::INFINITY)?;
        within("delay_ns", self.delay_ns, 0..=MOST_DELAY_NS)?;
        within("standing_ns", self.standing_ns, 0..=self.delay_ns)?;
        Ok(self)
    }
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Message {
    /// Asks for a cookie; its payload is [`GREETING`] bytes long.
    Hello {
        /// Comes back with the cookie.
        nonce: u64,
    },
    /// The answer to [`Message::Hello`].
    Welcome {
        /// As it was asked.
        nonce: u64,
        /// What every later message needs.
        cookie: [u8; COOKIE],
    },
    /// Asks the serving end to send a train.
    Send {
        /// The cookie.
        cookie: [u8; COOKIE],
        /// The train.
        train: Train,
    },
    /// Says that a train comes.
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
        /// Its place in the train, from 0.
        index: u32,
        /// When it was sent, by the sender's clock.
        sent_ns: u64,
    },
    /// Asks what was seen of a train.
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
        /// What was seen.
        seen: Seen,
    },
    /// The serving end does not do that: too much, or too many at a time.
    Refused {
        /// The train's number.
        id: u32,
    },
}

impl Message {
    /// The payload, without padding.
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

    /// The message of a payload; `None` if it is none. A train that is asked for
    /// is checked by who takes part in it, who answers with a refusal.
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

/// What is left of a payload.
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
