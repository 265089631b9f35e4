// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The traffic during the test of packages. It has 1,000 small packets a second, none of which may
//! be lost. Large packets exceed the line's rate, so that a missing shaper shows.

use crate::packages::inside::say;
use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use std::net::UdpSocket;
use std::path::Path;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// The receiver and its ports.
pub const RECEIVER: &str = "10.9.0.2";
pub const SMALL: u16 = 5_001;
const LARGE: u16 = 5_002;

/// The traffic continues while this file exists.
pub const GOES_ON: &str = "/run/packages-traffic";

/// The rate of the line, in bit/s.
pub const RATE: f64 = 8e6;

/// One packet of each kind is sent per interval: the large ones are 11.5 Mbit/s.
const PACE: Duration = Duration::from_millis(1);
const SMALL_BYTES: usize = 64;
const LARGE_BYTES: usize = 1_400;

/// The headers of IPv4, UDP and Ethernet.
const HEADERS: usize = 20 + 8 + 14;

/// The windows in which the rate is judged, and the tolerance of one: the gate's burst, and one
/// packet in transmission at each end.
const WINDOW: u64 = 100_000_000;
const SLACK: f64 = 4.0 * (LARGE_BYTES + HEADERS) as f64;

/// The time after the last packet in which all have arrived.
const DRAINED: Duration = Duration::from_secs(3);

/// Sends until the file is removed; reports the number of small packets.
pub fn send() -> Result<()> {
    let large = thread::spawn(|| -> Result<()> {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        // Packets that exceed the shaper's rate are dropped.
        socket.set_nonblocking(true)?;
        let begin = Instant::now();
        for count in 1_u32.. {
            let _ = socket.send_to(&[0; LARGE_BYTES], (RECEIVER, LARGE));
            sleep((PACE * count).saturating_sub(begin.elapsed()));
            if !Path::new(GOES_ON).exists() {
                break;
            }
        }
        Ok(())
    });
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let begin = Instant::now();
    let mut sent = 0_u32;
    while Path::new(GOES_ON).exists() {
        let mut payload = [0; SMALL_BYTES];
        payload[..4].copy_from_slice(&sent.to_be_bytes());
        payload[4..12].copy_from_slice(&now().to_be_bytes());
        sent += 1;
        // A packet that cannot be sent counts as lost.
        let _ = socket.send_to(&payload, (RECEIVER, SMALL));
        sleep((PACE * sent).saturating_sub(begin.elapsed()));
    }
    say("sent", f64::from(sent));
    large
        .join()
        .ok()
        .context("the thread of the large packets")?
}

/// Receives until nothing has arrived for a while, and reports the result.
pub fn receive() -> Result<()> {
    let (small, large) = (
        UdpSocket::bind(("0.0.0.0", SMALL))?,
        UdpSocket::bind(("0.0.0.0", LARGE))?,
    );
    let small = thread::spawn(move || arrivals(&small));
    let large = arrivals(&large)?;
    let small = small
        .join()
        .ok()
        .context("the thread of the small packets")??;
    let first = small.iter().map(|packet| packet.number);
    let mut numbers: Vec<u32> = first.collect();
    numbers.sort_unstable();
    numbers.dedup();
    say("received", numbers.len() as f64);
    let waits = small
        .iter()
        .map(|packet| packet.at.saturating_sub(packet.sent));
    say("latest", waits.max().unwrap_or(0) as f64 / 1e6);
    let mut all: Vec<(u64, usize)> = Vec::new();
    all.extend(small.iter().map(|packet| (packet.at, packet.bytes)));
    all.extend(large.iter().map(|packet| (packet.at, packet.bytes)));
    let judged = judge(&mut all);
    say("windows", judged.windows as f64);
    say("above", judged.above as f64);
    say("full", judged.mean / 1e6);
    Ok(())
}

/// A packet that arrived.
struct Packet {
    number: u32,
    /// When it was sent and received, in nanoseconds.
    sent: u64,
    at: u64,
    /// Its length on Ethernet.
    bytes: usize,
}

/// Returns the packets that arrive at a socket; waits indefinitely for the first one.
fn arrivals(socket: &UdpSocket) -> Result<Vec<Packet>> {
    let mut found = Vec::new();
    let mut payload = [0; 2_048];
    loop {
        let Ok((length, _)) = socket.recv_from(&mut payload) else {
            return Ok(found);
        };
        let at = now();
        if found.is_empty() {
            socket.set_read_timeout(Some(DRAINED))?;
        }
        let [a, b, c, d, rest @ ..] = &payload;
        let sent = rest.first_chunk().context("a time")?;
        found.push(Packet {
            number: u32::from_be_bytes([*a, *b, *c, *d]),
            sent: u64::from_be_bytes(*sent),
            at,
            bytes: length + HEADERS,
        });
    }
}

/// The verdict on the rate.
struct Judged {
    windows: usize,
    /// Windows that exceeded the rate and its tolerance.
    above: usize,
    /// The mean rate, in bit/s.
    mean: f64,
}

/// Judges a window that begins with each packet in turn; windows do not overlap.
fn judge(all: &mut [(u64, usize)]) -> Judged {
    all.sort_unstable();
    let mut judged = Judged {
        windows: 0,
        above: 0,
        mean: 0.0,
    };
    let allowed = RATE / 8.0 * WINDOW as f64 / 1e9 + SLACK;
    let mut rest = &all[..];
    while let Some(&(begin, _)) = rest.first() {
        let length = rest.partition_point(|&(at, _)| at < begin + WINDOW);
        let (window, next) = rest.split_at(length);
        let bytes: usize = window.iter().map(|&(_, bytes)| bytes).sum();
        judged.windows += 1;
        judged.above += usize::from(bytes as f64 > allowed);
        rest = next;
    }
    if let (Some((begin, _)), Some((end, _))) = (all.first(), all.last()) {
        let bytes: usize = all.iter().map(|&(_, bytes)| bytes).sum();
        judged.mean = bytes as f64 * 8e9 / (end - begin).max(1) as f64;
    }
    judged
}

/// Returns the clock of both ends, in nanoseconds.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns packets of 1,442 bytes at a rate, for a second.
    fn at(rate: f64) -> Vec<(u64, usize)> {
        let each = 1_442.0 * 8e9 / rate;
        (0..(1e9 / each) as u64)
            .map(|n| ((n as f64 * each) as u64, 1_442))
            .collect()
    }

    #[test]
    fn a_line_that_keeps_its_rate_and_one_that_does_not() {
        let kept = judge(&mut at(RATE));
        assert_eq!((kept.windows, kept.above), (10, 0));
        assert!((kept.mean / RATE - 1.0).abs() < 0.01);
        assert_eq!(judge(&mut at(RATE * 1.2)).above, 10);
        // A tenth of a second without a shaper.
        let mut gap = at(RATE);
        gap.extend(at(11.5e6).into_iter().take(100));
        assert!(judge(&mut gap).above > 0);
    }
}
