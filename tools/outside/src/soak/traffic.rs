// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traffic through the soak's router: small packets of one class, beside a bulk connection of each
//! other class in each direction.

use super::promises::{Bounds, CLASSES};
use crate::process::within;
use anyhow::{Context, Result};
use rustix::net::sockopt::set_socket_linger;
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

/// The address at the provider's end, and the user's.
const FAR: &str = "192.0.2.2";
const USER: &str = "198.51.100.2:0";

/// The interval between small packets.
const GAP: Duration = Duration::from_millis(100);
/// A packet that returns so much later than promised counts as lost.
const LOST: Duration = Duration::from_secs(1);
/// How long the load is alone, how long small packets are sent beside it, and the pause in which
/// its queues drain.
const ALONE: Duration = Duration::from_secs(1);
const BESIDE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_secs(2);
/// The longest time in which a connection of the load may do nothing.
const IDLE: Duration = Duration::from_secs(5);

/// What the packets of a class had to wait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waited {
    pub class: String,
    /// The number of packets.
    pub packets: u32,
    /// The longest round trip, in milliseconds.
    pub longest: f64,
    /// What `check` promises, in milliseconds.
    pub bound: f64,
}

/// The permanent servers at the provider's end, one for each class.
pub struct Servers(Vec<TcpListener>);

impl Servers {
    /// Starts the servers.
    pub fn begin() -> Result<Self> {
        let mut sinks = Vec::new();
        for (_, port) in CLASSES {
            let place = (FAR, port);
            let bound = || Ok((UdpSocket::bind(place)?, TcpListener::bind(place)?));
            let (echo, sink) = within("isp", bound)?;
            sink.set_nonblocking(true)?;
            sinks.push(sink);
            thread::spawn(move || answer(&echo));
        }
        Ok(Self(sinks))
    }

    /// Measures every class after the other.
    pub fn waited(&self, bounds: &Bounds) -> Result<Vec<Waited>> {
        let classes = CLASSES.iter().zip(bounds).enumerate();
        classes
            .map(|(number, ((name, port), bound))| {
                let lost = Duration::from_secs_f64(bound / 1e3) + LOST;
                let (packets, longest) = self.beside(number, *port, lost).context(*name)?;
                Ok(Waited {
                    class: (*name).to_owned(),
                    packets,
                    longest,
                    bound: *bound,
                })
            })
            .collect()
    }

    /// Returns the number of packets of a class, and their longest round trip in milliseconds,
    /// beside the load of all other classes.
    fn beside(&self, class: usize, port: u16, lost: Duration) -> Result<(u32, f64)> {
        let others = self.0.iter().zip(CLASSES).enumerate();
        let others = others.filter(|(number, _)| *number != class);
        // All connections before any load, which would delay the handshakes.
        let mut pairs = Vec::new();
        for (_, (sink, (_, port))) in others {
            for up in [true, false] {
                let user = || Ok(TcpStream::connect((FAR, port))?);
                let user = within("home", user).context("bulk")?;
                let far = accepted(sink)?;
                pairs.push(if up { (user, far) } else { (far, user) });
            }
        }
        let until = Instant::now() + ALONE + BESIDE;
        let mut ends = Vec::new();
        for (from, to) in pairs {
            ends.push(thread::spawn(move || fill(from, until)));
            ends.push(thread::spawn(move || drain(to, until)));
        }
        thread::sleep(ALONE);
        let found = within("home", || asked(port, until, lost));
        for end in ends {
            let _ = end.join();
        }
        thread::sleep(PAUSE);
        found
    }
}

fn answer(echo: &UdpSocket) {
    let mut bytes = [0; 64];
    while let Ok((length, from)) = echo.recv_from(&mut bytes) {
        if echo.send_to(&bytes[..length], from).is_err() {
            break;
        }
    }
}

fn accepted(sink: &TcpListener) -> Result<TcpStream> {
    loop {
        match sink.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_millis(10));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sends small packets one after the other. Returns their number and the longest round trip.
fn asked(port: u16, until: Instant, lost: Duration) -> Result<(u32, f64)> {
    let socket = UdpSocket::bind(USER)?;
    socket.connect((FAR, port))?;
    let (mut number, mut longest) = (0_u32, Duration::ZERO);
    while number == 0 || Instant::now() < until {
        number += 1;
        let sent = Instant::now();
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        socket.send(&bytes)?;
        let took = returned(&socket, number, sent, lost)?;
        longest = longest.max(took);
        thread::sleep(GAP.saturating_sub(took));
    }
    Ok((number, longest.as_secs_f64() * 1e3))
}

/// Waits for a packet, and returns its round trip. A former one may come first.
fn returned(socket: &UdpSocket, number: u32, sent: Instant, lost: Duration) -> Result<Duration> {
    loop {
        let left = lost.saturating_sub(sent.elapsed());
        if left.is_zero() {
            return Ok(lost);
        }
        socket.set_read_timeout(Some(left))?;
        let mut bytes = [0; 64];
        match socket.recv(&mut bytes) {
            Ok(length) if length >= 4 && bytes[..4] == number.to_be_bytes() => {
                return Ok(sent.elapsed());
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn fill(mut stream: TcpStream, until: Instant) {
    // What has not been sent by the end is not sent any more.
    let _ = set_socket_linger(&stream, Some(Duration::ZERO));
    let _ = stream.set_write_timeout(Some(IDLE));
    while Instant::now() < until && stream.write_all(&[0; 16_384]).is_ok() {}
}

fn drain(mut stream: TcpStream, until: Instant) {
    let _ = stream.set_read_timeout(Some(IDLE));
    let mut bytes = [0; 16_384];
    while Instant::now() < until && stream.read(&mut bytes).is_ok_and(|read| read > 0) {}
}
