// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server for scripted sequences. Its TCP connections send a requested number of bytes,
//! receive bytes, or answer requests.
//!
//! The client sends a line with its request, and the server a line with its decision; then
//! follow the data. A server sends data only to the client that connected, so it cannot be used
//! to flood others.

mod bounded;
mod datagrams;
pub(crate) mod ports;

use crate::sequence::serve::bounded::Bounded;
use crate::sequence::serve::ports::Silence;
use crate::sequence::skip::skip;
use crate::sequence::wanted::{LINE, Wanted};
use crate::source_limit::{Quota, SourceLimit};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// The limit on concurrent connections.
const CONNECTIONS: Quota = Quota {
    all: 512,
    of_network: 128,
};
/// The limits on the duration of connections.
const LASTING: Lasting = Lasting {
    patience: Duration::from_mins(1),
    longest: Duration::from_hours(1),
};
const BLOCK: usize = 65_536;

#[derive(Debug, Clone, Copy)]
struct Lasting {
    /// The timeout for the first line, and for later reads and writes.
    patience: Duration,
    /// The longest duration of a connection.
    longest: Duration,
}

/// A server for TCP connections.
#[derive(Debug)]
pub struct BulkServer(TcpListener);

impl BulkServer {
    /// Listens at an address. Needs no privilege.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        TcpListener::bind(address).map(Self)
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Serves until the process exits.
    pub fn run(self) {
        let limit = SourceLimit::new(CONNECTIONS);
        loop {
            let Ok((stream, from)) = self.0.accept() else {
                // No descriptors are left: wait until other connections end.
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            let Some(slot) = limit.take(from.ip()) else {
                let _ = (&stream).write_all(b"no: too many ask at a time\n");
                continue;
            };
            // Without a thread, because too many exist, the connection is closed.
            let _ = thread::Builder::new().spawn(move || {
                // Ignore errors of the client, and aborted connections.
                let _ = served(&stream, LASTING);
                let _ = stream.shutdown(Shutdown::Both);
                drop(slot);
            });
        }
    }
}

fn served(stream: &TcpStream, lasting: Lasting) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let Lasting { patience, longest } = lasting;
    let mut from = BufReader::with_capacity(BLOCK, Bounded::new(stream, patience, patience));
    let mut to = Bounded::new(stream, patience, longest);
    let mut line = String::new();
    (&mut from).take(LINE).read_line(&mut line)?;
    *from.get_mut() = Bounded::new(stream, patience, longest);
    let wanted = match Wanted::read(&line) {
        Ok(wanted) => wanted,
        Err(why) => return writeln!(to, "no: {why}"),
    };
    if let Err(why) = wanted.prepare(stream, false) {
        return writeln!(to, "no: {why}");
    }
    writeln!(to, "yes")?;
    let block = vec![0; BLOCK];
    match wanted {
        Wanted::Send { bytes, .. } => {
            let mut left = bytes.unwrap_or(u64::MAX);
            while left > 0 {
                let part = left.min(BLOCK as u64) as usize;
                left -= to.write(&block[..part])? as u64;
            }
            // The client knows that it has all data when it sees the end.
            stream.shutdown(Shutdown::Write)
        }
        Wanted::Take { .. } => {
            let mut taken = 0_u64;
            let mut buffer = block;
            loop {
                match from.read(&mut buffer)? {
                    0 => return writeln!(to, "{taken}"),
                    read => taken += read as u64,
                }
            }
        }
        Wanted::Answer {
            request, response, ..
        } => {
            while skip(&mut from, request)? == request {
                let mut left = response;
                while left > 0 {
                    let part = left.min(BLOCK as u64) as usize;
                    to.write_all(&block[..part])?;
                    left -= part as u64;
                }
            }
            Ok(())
        }
        Wanted::Datagrams { exchange, dscp } => {
            // The client sends nothing more.
            *from.get_mut() = Bounded::new(stream, longest, longest);
            datagrams::serve(stream, &mut from, (exchange, dscp), longest)
        }
        Wanted::Silence => {
            let silence = match Silence::open(stream.local_addr()?) {
                Ok(silence) => silence,
                Err(error) => return writeln!(to, "no: {error}"),
            };
            writeln!(to, "{} silent", silence.port())?;
            datagrams::lasting(stream)?;
            // Wait until the client closes the connection.
            *from.get_mut() = Bounded::new(stream, longest, longest);
            skip(&mut from, u64::MAX).map(|_| ())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const SHORT: Lasting = Lasting {
        patience: Duration::from_millis(400),
        longest: Duration::from_millis(1500),
    };

    /// Returns how long a connection lasts whose client sends this line, and then either sends
    /// single bytes (`drips`) or reads nothing.
    fn lasts(line: &str, drips: bool) -> Duration {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        client.write_all(line.as_bytes()).unwrap();
        let served = thread::spawn(move || {
            let begin = Instant::now();
            let _ = served(&stream, SHORT);
            begin.elapsed()
        });
        while !served.is_finished() {
            if drips {
                let _ = client.write_all(b"x");
            }
            thread::sleep(Duration::from_millis(50));
        }
        served.join().unwrap()
    }

    #[test]
    fn a_client_that_drips_cannot_stretch_its_connection() {
        let late = Duration::from_secs(1);
        let line = lasts("weirgate-load 2 ", true);
        assert!(line < SHORT.patience + late, "{line:?}");
        for wanted in ["take 0 - - -", "answer 1000000 1 0 - - -", "silence"] {
            let took = lasts(&format!("weirgate-load 2 {wanted}\n"), true);
            assert!(took >= SHORT.longest, "{wanted}: {took:?}");
            assert!(took < SHORT.longest + late, "{wanted}: {took:?}");
        }
    }

    #[test]
    fn a_client_that_takes_nothing_loses_its_connection() {
        let took = lasts("weirgate-load 2 send - 0 - - -\n", false);
        assert!(took < SHORT.longest, "{took:?}");
    }
}
