// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traffic through the soak's router: a bulk connection in each direction, and small packets in the
//! policy's class `urgent`.

use crate::process::within;
use anyhow::{Context, Result};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

/// The addresses at the provider's end: the port of DNS, which is urgent, and a port for bulk.
const ECHO: &str = "192.0.2.2:53";
const BULK: &str = "192.0.2.2:8000";

/// The interval between small packets, and the time after which one counts as lost.
const GAP: Duration = Duration::from_millis(100);
const LOST: Duration = Duration::from_secs(2);

/// The permanent servers.
pub struct Probe {
    bulk: TcpListener,
    _echo: thread::JoinHandle<()>,
}

impl Probe {
    /// Starts the servers.
    pub fn begin() -> Result<Self> {
        let (echo, bulk) = within("isp", || {
            Ok((UdpSocket::bind(ECHO)?, TcpListener::bind(BULK)?))
        })?;
        bulk.set_nonblocking(true)?;
        let answer = move || {
            let mut bytes = [0; 64];
            while let Ok((length, from)) = echo.recv_from(&mut bytes) {
                if echo.send_to(&bytes[..length], from).is_err() {
                    break;
                }
            }
        };
        Ok(Self {
            bulk,
            _echo: thread::spawn(answer),
        })
    }

    /// Returns the longest round trip under load during `time`, in milliseconds. The first second
    /// has only the load.
    pub fn longest(&self, time: Duration) -> Result<f64> {
        let until = Instant::now() + time;
        let mut users = Vec::new();
        for up in [true, false] {
            let user = within("home", || Ok(TcpStream::connect(BULK)?)).context("bulk")?;
            let far = self.accepted()?;
            let (from, to) = if up { (user, far) } else { (far, user) };
            users.push(thread::spawn(move || fill(from, until)));
            users.push(thread::spawn(move || drain(to, until)));
        }
        thread::sleep(Duration::from_secs(1));
        let longest = within("home", || asked(until));
        for user in users {
            let _ = user.join();
        }
        longest
    }

    fn accepted(&self) -> Result<TcpStream> {
        loop {
            match self.bulk.accept() {
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
}

/// Sends small packets one after the other, and returns the longest round trip.
fn asked(until: Instant) -> Result<f64> {
    let socket = UdpSocket::bind("198.51.100.2:0")?;
    socket.connect(ECHO)?;
    socket.set_read_timeout(Some(LOST))?;
    let mut longest = Duration::ZERO;
    while Instant::now() < until {
        let sent = Instant::now();
        socket.send(&[0; 32])?;
        let took = match socket.recv(&mut [0; 64]) {
            Ok(_) => sent.elapsed(),
            Err(_) => LOST,
        };
        longest = longest.max(took);
        thread::sleep(GAP.saturating_sub(took));
    }
    Ok(longest.as_secs_f64() * 1e3)
}

fn fill(mut stream: TcpStream, until: Instant) {
    let _ = stream.set_write_timeout(Some(LOST));
    while Instant::now() < until && stream.write_all(&[0; 16_384]).is_ok() {}
    let _ = stream.shutdown(std::net::Shutdown::Both);
}

fn drain(mut stream: TcpStream, until: Instant) {
    let _ = stream.set_read_timeout(Some(LOST));
    let mut bytes = [0; 16_384];
    while Instant::now() < until && stream.read(&mut bytes).is_ok_and(|read| read > 0) {}
}
