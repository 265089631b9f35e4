// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Datagrams of a scripted sequence: sends, counts and reports them.

use crate::bound::{OutOfRange, within};
use crate::sequence::wanted::Stream;
use crate::train::pace::{passing, since};
use rustix::net::{self, SendFlags};
use std::fmt;
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weirgate_units::Arrange as _;

/// The bytes at the start of each payload: a number and the time of sending.
pub(crate) const STAMP: u16 = 12;
/// The largest payload: that of a packet of 9000 bytes.
pub(crate) const LONGEST_PAYLOAD: u16 = 8972;
/// The longest wait before checking whether to stop.
pub(crate) const TURN: Duration = Duration::from_millis(100);
/// After the end, receiving stops once nothing has arrived for the first time, or after the
/// second one at the latest.
const QUIET: Duration = Duration::from_secs(1);
const DRAINED: Duration = Duration::from_secs(10);
/// The largest number of datagrams and bytes that a peer can report for a run: more than any
/// link carries in an hour.
const MOST: u64 = 1 << 50;
/// The longest delay that a peer can report: a day.
const MOST_DELAY: Duration = Duration::from_hours(24);
/// The number of delays that are kept for a run, as a uniform sample.
const KEPT: usize = 1 << 18;

/// The delays of datagrams relative to the fastest one. The clocks of the two ends may differ,
/// but must run equally fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delays {
    /// The median.
    pub p50: Duration,
    /// The 95th percentile.
    pub p95: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// The maximum.
    pub max: Duration,
}

/// The datagrams received in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Received {
    /// Their number.
    pub count: u64,
    /// Their payload in bytes.
    pub bytes: u64,
    /// Their delays; `None` if none arrived.
    pub delays: Option<Delays>,
}

impl Received {
    /// Checks what the other end reports against the number sent; a path may duplicate
    /// datagrams.
    pub(crate) fn check_of(self, sent: u64, payload: u16) -> Result<Self, OutOfRange> {
        within("datagrams received", self.count, 0..=sent.saturating_mul(2))?;
        let bytes = self.count.saturating_mul(payload.into());
        within("bytes received", self.bytes, 0..=bytes)?;
        Ok(self)
    }

    /// Checks the plausibility of the numbers: delays depend on the sender's clock, and the
    /// other numbers may come from the other end.
    pub(crate) fn check(self) -> Result<Self, OutOfRange> {
        within("datagrams received", self.count, 0..=MOST)?;
        within("bytes received", self.bytes, 0..=MOST)?;
        if let Some(delays) = self.delays {
            let most = MOST_DELAY.as_micros();
            for one in [delays.p50, delays.p95, delays.p99, delays.max] {
                within("delay in us", one.as_micros(), 0..=most)?;
            }
        }
        Ok(self)
    }
}

/// The report of a server at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DatagramReport {
    /// The number of datagrams that it sent.
    pub sent: u64,
    /// The datagrams that it received.
    pub received: Received,
}

impl fmt::Display for DatagramReport {
    /// Writes a line, including its end; times are in microseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, received } = self;
        write!(f, "{sent} {} {}", received.count, received.bytes)?;
        if let Some(delays) = received.delays {
            for one in [delays.p50, delays.p95, delays.p99, delays.max] {
                write!(f, " {}", one.as_micros())?;
            }
        }
        writeln!(f)
    }
}

impl DatagramReport {
    /// Parses the line; returns `None` if it is not a report.
    pub fn read(line: &str) -> Result<Option<Self>, OutOfRange> {
        let words: Result<Vec<u64>, _> = line.split_whitespace().map(str::parse).collect();
        let words = words.unwrap_or_default();
        let Some((&[sent, count, bytes], late)) = words.split_first_chunk() else {
            return Ok(None);
        };
        let delays = match *late {
            [] => None,
            [p50, p95, p99, max] => Some(Delays {
                p50: Duration::from_micros(p50),
                p95: Duration::from_micros(p95),
                p99: Duration::from_micros(p99),
                max: Duration::from_micros(max),
            }),
            _ => return Ok(None),
        };
        let received = Received {
            count,
            bytes,
            delays,
        };
        Ok(Some(Self {
            sent: within("datagrams sent", sent, 0..=MOST)?,
            received: received.check()?,
        }))
    }
}

/// Sends a stream until it is over, and returns the number sent. A sender that is late catches
/// up. `each` is called with the size of each datagram.
pub(crate) fn send(
    socket: &UdpSocket,
    stream: &Stream,
    over: &AtomicBool,
    mut each: impl FnMut(u64),
) -> io::Result<u64> {
    let begin = Instant::now();
    let mut payload = vec![0; usize::from(stream.payload)];
    let mut sent = 0;
    let mut due = begin;
    while stream.count.is_none_or(|count| sent < count) {
        loop {
            if over.load(Ordering::Relaxed) {
                return Ok(sent);
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            thread::sleep(left.min(TURN));
        }
        stamp(&mut payload, sent as u32, since(begin));
        // A datagram without room in the send buffer counts as lost on the path. Waiting for
        // room would make the stream follow the rate of the line.
        match net::send(socket, &payload, SendFlags::DONTWAIT).map_err(io::Error::from) {
            Ok(_) => {}
            Err(error) if passing(&error) => {}
            Err(error) => return Err(error),
        }
        sent += 1;
        each(payload.len() as u64);
        due += stream.interval;
    }
    Ok(sent)
}

/// Writes a number and a time to the start of a payload.
pub(crate) fn stamp(payload: &mut [u8], number: u32, sent_ns: u64) {
    payload[..4].copy_from_slice(&number.to_be_bytes());
    payload[4..12].copy_from_slice(&sent_ns.to_be_bytes());
}

/// Reads the number and time at the start of a payload.
pub(crate) fn stamped(payload: &[u8]) -> Option<(u32, u64)> {
    let (number, rest) = payload.split_first_chunk()?;
    let time = rest.first_chunk()?;
    Some((u32::from_be_bytes(*number), u64::from_be_bytes(*time)))
}

/// Receives until the stream is over and no more datagrams arrive. Ignores datagrams with
/// `word`, which open the path; `each` may inspect all others.
pub(crate) fn receive(
    socket: &UdpSocket,
    over: &AtomicBool,
    word: &[u8],
    mut each: impl FnMut(&[u8]),
) -> io::Result<Received> {
    socket.set_read_timeout(Some(TURN))?;
    let begin = Instant::now();
    let mut heard = Heard::default();
    let mut payload = vec![0; usize::from(LONGEST_PAYLOAD) + 1];
    let (mut last, mut ending) = (begin, None);
    loop {
        match socket.recv(&mut payload) {
            Ok(length) => {
                let payload = &payload[..length];
                if let Some((_, sent_ns)) = stamped(payload).filter(|_| payload != word) {
                    last = Instant::now();
                    heard.note(length as u64, sent_ns, since(begin));
                    each(payload);
                }
            }
            Err(error) if passing(&error) => {}
            Err(error) => return Err(error),
        }
        if over.load(Ordering::Relaxed) {
            let ended = *ending.get_or_insert_with(Instant::now);
            if last.max(ended).elapsed() >= QUIET || ended.elapsed() >= DRAINED {
                return Ok(heard.received());
            }
        }
    }
}

/// The datagrams received of a stream.
#[derive(Debug, Default)]
struct Heard {
    count: u64,
    bytes: u64,
    /// The transit time of the first one, by two clocks that differ.
    first_ns: Option<i128>,
    /// The transit times relative to that, of every `stride`th datagram.
    late_us: Vec<i64>,
    stride: u64,
}

impl Heard {
    fn note(&mut self, bytes: u64, sent_ns: u64, came_ns: u64) {
        let took = i128::from(came_ns) - i128::from(sent_ns);
        let late = (took - *self.first_ns.get_or_insert(took)) / 1000;
        self.stride = self.stride.max(1);
        if self.count.is_multiple_of(self.stride) {
            self.late_us.push(i64::try_from(late).unwrap_or(i64::MAX));
            if self.late_us.len() == KEPT {
                let mut place = 0_usize;
                self.late_us.retain(|_| {
                    place += 1;
                    place % 2 == 1
                });
                self.stride *= 2;
            }
        }
        self.count += 1;
        self.bytes += bytes;
    }

    fn received(mut self) -> Received {
        self.late_us.arrange();
        let late = &self.late_us;
        let above = |place: usize| -> Option<Duration> {
            let (one, least) = (late.get(place)?, late.first()?);
            Some(Duration::from_micros(one.abs_diff(*least)))
        };
        // The smallest delay that this many per mille do not exceed.
        let rank = |per_mille: usize| above((late.len() * per_mille).div_ceil(1000).max(1) - 1);
        let delays = || {
            Some(Delays {
                p50: rank(500)?,
                p95: rank(950)?,
                p99: rank(990)?,
                max: rank(1000)?,
            })
        };
        Received {
            count: self.count,
            bytes: self.bytes,
            delays: delays(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn delays_count_from_the_fastest() {
        let mut heard = Heard::default();
        // The sender's clock is far ahead; the third datagram is the fastest, the fourth is 7 ms
        // late.
        for (sent_ms, came_ms) in [(5000, 12), (5020, 31), (5040, 50), (5060, 77)] {
            heard.note(100, sent_ms * 1_000_000, came_ms * 1_000_000);
        }
        let received = heard.received();
        let delays = received.delays.unwrap();
        assert_eq!((received.count, received.bytes), (4, 400));
        assert_eq!(delays.p50, Duration::from_millis(1));
        assert_eq!(delays.max, Duration::from_millis(7));
        assert_eq!(Heard::default().received(), Received::default());
    }

    #[test]
    fn no_more_arrived_than_was_sent() {
        let received = |count, bytes| Received {
            count,
            bytes,
            delays: None,
        };
        received(20, 2_000).check_of(10, 100).unwrap();
        let many = received(21, 2_000).check_of(10, 100).unwrap_err();
        assert_eq!(
            (many.field, &*many.bound),
            ("datagrams received", "0 to 20")
        );
        let long = received(2, 1_207_776).check_of(2, 60).unwrap_err();
        assert_eq!((long.field, &*long.bound), ("bytes received", "0 to 120"));
    }

    #[test]
    fn a_long_run_keeps_some_of_all() {
        let mut heard = Heard::default();
        let many = KEPT as u64 * 5;
        for number in 0..many {
            heard.note(1, 0, number * 1000);
        }
        assert!(heard.late_us.len() < KEPT);
        let delays = heard.received().delays.unwrap();
        let half = delays.p50.as_micros() as f64 / many as f64;
        assert!((half - 0.5).abs() < 0.01, "{half}");
    }

    proptest! {
        #[test]
        fn lines_are_read_as_they_are_written(
            sent in 0..=MOST, count in 0..=MOST, bytes in 0..=MOST, late: Option<[u32; 4]>
        ) {
            let us = |us| Duration::from_micros(u64::from(us));
            let delays = late.map(|[a, b, c, d]| Delays {
                p50: us(a), p95: us(b), p99: us(c), max: us(d),
            });
            let report = DatagramReport { sent, received: Received { count, bytes, delays } };
            prop_assert_eq!(DatagramReport::read(&report.to_string()), Ok(Some(report)));
        }

        #[test]
        fn any_line_does_no_harm(line: String) {
            let _ = DatagramReport::read(&line);
        }
    }
}
