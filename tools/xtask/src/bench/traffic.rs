// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The traffic with which `weirgate watch` is measured: a router's traffic to 300 hosts, of which
//! 80 are active, half of it TCP; and the hosts' answers.

use anyhow::{Context as _, Result};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// Classes, each with a port for datagrams and connections of hosts.
pub const CLASSES: u16 = 8;
pub const PORT: u16 = 5_000;
/// The address of the receiver of watch's numbers.
pub const RECEIVER: &str = "127.0.0.1:9000";

const HOSTS: u16 = 300;
const ACTIVE: u16 = 80;
/// A port at which every host gets one datagram.
const FIRST: u16 = 4_000;
/// Packets per second: to the active hosts in turn, where every second packet is a TCP segment, and
/// from the hosts.
const DOWN: u32 = 2_000;
const UP: u32 = 500;
const BYTES: usize = 400;
/// The time limit for the hosts to listen.
const PATIENCE: Duration = Duration::from_secs(10);

fn host(number: u16) -> String {
    format!("10.8.{}.{}", 1 + number / 200, 1 + number % 200)
}

/// Runs in the router's namespace: receives watch's numbers, and sends to all hosts.
pub fn router() -> Result<()> {
    let receiver = TcpListener::bind(RECEIVER)?;
    thread::spawn(move || {
        for stream in receiver.incoming().flatten() {
            thread::spawn(move || taken(&stream));
        }
    });
    let mut connections = Vec::new();
    for number in 0..ACTIVE {
        connections.push(connected(&format!(
            "{}:{}",
            host(number),
            PORT + number % CLASSES
        ))?);
    }
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    for number in 0..HOSTS {
        socket.send_to(&[0; 100], format!("{}:{FIRST}", host(number)))?;
    }
    let begin = Instant::now();
    for count in 0_u32.. {
        let port = PORT + count as u16 % CLASSES;
        let turn = count / 2;
        if count.is_multiple_of(2) {
            let connection = &mut connections[turn as usize % usize::from(ACTIVE)];
            // Ignore errors: packets that exceed the gate's rate are lost.
            let _ = connection.write(&[0; BYTES]);
        } else {
            // One in eight goes to a host that is seldom active.
            let number = if turn % 8 == 7 {
                turn / 8 % u32::from(HOSTS)
            } else {
                turn % u32::from(ACTIVE)
            };
            let _ = socket.send_to(&[0; BYTES], format!("{}:{port}", host(number as u16)));
        }
        if count.is_multiple_of(DOWN / UP) {
            let _ = socket.send_to(&[0; BYTES], format!("10.9.0.2:{port}"));
        }
        let due = Duration::from_secs_f64(f64::from(count) / f64::from(DOWN));
        sleep(due.saturating_sub(begin.elapsed()));
    }
    Ok(())
}

/// Returns a connection on which every write is a segment, as soon as the port is open.
fn connected(place: &str) -> Result<TcpStream> {
    let begin = Instant::now();
    loop {
        match TcpStream::connect(place) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                return Ok(stream);
            }
            Err(error) if begin.elapsed() > PATIENCE => {
                return Err(error).with_context(|| format!("{place} does not answer"));
            }
            Err(_) => sleep(Duration::from_millis(50)),
        }
    }
}

/// Runs in the hosts' namespace: receives the traffic of all hosts.
pub fn hosts() -> Result<()> {
    let mut unread = Vec::new();
    for port in (PORT..PORT + CLASSES).chain([FIRST]) {
        // The sockets are not read, but prevent port-unreachable errors.
        unread.push(UdpSocket::bind(("0.0.0.0", port))?);
    }
    let mut listeners = Vec::new();
    for port in PORT..PORT + CLASSES {
        let listener = TcpListener::bind(("0.0.0.0", port))?;
        listeners.push(thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
            }
        }));
    }
    for listener in listeners {
        let _ = listener.join();
    }
    Ok(())
}

/// Receives and acknowledges requests, until the connection ends.
fn taken(stream: &TcpStream) {
    let mut to = stream;
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if !matches!(reader.read_line(&mut line), Ok(1..)) {
                return;
            }
            let line = line.to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let body = std::io::copy(&mut (&mut reader).take(length), &mut std::io::sink());
        let answer = b"HTTP/1.1 204 No Content\r\n\r\n";
        if body.is_err() || to.write_all(answer).is_err() {
            return;
        }
    }
}
