// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server for datagrams: a port for one client, as long as its TCP connection exists. It
//! sends only to the address of the connection, and only after a datagram from there contained a
//! secret word that was sent over the connection.

use crate::sequence::datagram::{self, DatagramReport, TURN};
use crate::sequence::serve::ports;
use crate::sequence::skip::skip;
use crate::sequence::wanted::{Exchange, mark};
use crate::train::pace::passing;
use rustix::net::sockopt;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, Read as _, Write as _};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long to wait for the word.
const PATIENCE: Duration = Duration::from_secs(10);

/// Serves until the client stops, or `longest` has passed.
pub(crate) fn serve(
    stream: &TcpStream,
    from: &mut (dyn BufRead + Send),
    (exchange, dscp): (Exchange, u8),
    longest: Duration,
) -> io::Result<()> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = &over;
        lasting(stream)?;
        scope.spawn(move || {
            // The client sends nothing more, so any result means its end.
            let _ = skip(from, u64::MAX);
            over.store(true, Ordering::Relaxed);
        });
        let done = exchanged(stream, (exchange, dscp), longest, over);
        let mut to = stream;
        let written = match done {
            Ok(Some(report)) => write!(to, "{report}"),
            Ok(None) => Ok(()),
            Err(error) => writeln!(to, "no: {error}"),
        };
        // Ends the reading thread by ending the connection.
        let _ = stream.shutdown(Shutdown::Both);
        written
    })
}

/// Enables keepalives, so that a connection without traffic ends if the other end has
/// disappeared.
pub(crate) fn lasting(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(None)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(10))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(5))?;
    sockopt::set_tcp_keepcnt(stream, 4)?;
    Ok(())
}

/// Exchanges datagrams; returns `None` if the client stopped before it started.
fn exchanged(
    stream: &TcpStream,
    (exchange, dscp): (Exchange, u8),
    longest: Duration,
    over: &AtomicBool,
) -> io::Result<Option<DatagramReport>> {
    let (socket, port) = ports::datagrams(stream.local_addr()?)?;
    let word = word()?;
    let mut to = stream;
    writeln!(to, "{port} {word}")?;
    if !found(&socket, stream, &word, over)? {
        return Ok(None);
    }
    mark(&socket, stream.peer_addr()?.ip(), dscp)?;
    writeln!(to, "go")?;
    let begin = Instant::now();
    let ended = || over.load(Ordering::Relaxed) || begin.elapsed() > longest;
    thread::scope(|scope| {
        let sending = match exchange {
            Exchange::Down(ref wanted) | Exchange::Both(ref wanted) => {
                Some(scope.spawn(|| datagram::send(&socket, wanted, over, |_| ())))
            }
            Exchange::Up | Exchange::Echo => None,
        };
        let listening = match exchange {
            Exchange::Down(_) => None,
            _ => Some(scope.spawn(|| {
                datagram::receive(&socket, over, word.as_bytes(), |payload| {
                    if exchange == Exchange::Echo {
                        let _ = socket.send(payload);
                    }
                })
            })),
        };
        while !ended() {
            thread::sleep(TURN);
        }
        over.store(true, Ordering::Relaxed);
        let joined = |error| io::Error::other(format!("a thread failed: {error:?}"));
        let sent = sending.map(thread::ScopedJoinHandle::join).transpose();
        let received = listening.map(thread::ScopedJoinHandle::join).transpose();
        Ok(Some(DatagramReport {
            sent: sent.map_err(joined)?.transpose()?.unwrap_or(0),
            received: received.map_err(joined)?.transpose()?.unwrap_or_default(),
        }))
    })
}

/// Returns a random word that others cannot know.
fn word() -> io::Result<String> {
    let mut random = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(random.iter().fold(String::new(), |mut word, byte| {
        let _ = write!(word, "{byte:02x}");
        word
    }))
}

/// Waits for the word, and connects the socket to its sender; returns false if the client
/// stopped before.
fn found(
    socket: &UdpSocket,
    stream: &TcpStream,
    word: &str,
    over: &AtomicBool,
) -> io::Result<bool> {
    let peer = stream.peer_addr()?.ip().to_canonical();
    socket.set_read_timeout(Some(TURN))?;
    let begin = Instant::now();
    let mut payload = [0; 64];
    while begin.elapsed() < PATIENCE {
        if over.load(Ordering::Relaxed) {
            return Ok(false);
        }
        match socket.recv_from(&mut payload) {
            Ok((length, from)) => {
                if &payload[..length] == word.as_bytes() && from.ip() == peer {
                    socket.connect(from)?;
                    return Ok(true);
                }
            }
            Err(error) if passing(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(
        "no datagram came from the address of the connection",
    ))
}
