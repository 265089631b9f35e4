// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The serving end of scripted sequences: TCP connections by which whoever asks
//! is sent so many bytes, has bytes taken, or has requests answered.
//!
//! One line says what is wanted, another whether it is done; then come bytes.
//! Nobody can have others sent anything: a connection's bytes go to who made it.

mod datagrams;
pub(crate) mod ports;

use crate::sequence::serve::ports::Silence;
use crate::sequence::wanted::{LINE, Wanted};
use crate::source_limit::{Quota, SourceLimit};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// Connections at a time.
const CONNECTIONS: Quota = Quota {
    all: 512,
    of_network: 128,
};
/// Nothing comes or goes for so long, and a connection is over; none is longer
/// than an hour.
const PATIENCE: Duration = Duration::from_mins(1);
const LONGEST: Duration = Duration::from_hours(1);
const BLOCK: usize = 65_536;

/// A serving end of TCP connections.
#[derive(Debug)]
pub struct BulkServer(TcpListener);

impl BulkServer {
    /// One that listens at an address. Needs no privilege.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        TcpListener::bind(address).map(Self)
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Serves as long as the process lasts.
    pub fn run(self) {
        let limit = SourceLimit::new(CONNECTIONS);
        loop {
            let Ok((stream, from)) = self.0.accept() else {
                // Out of descriptors: connections that are open end some time.
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            let Some(slot) = limit.take(from.ip()) else {
                let _ = (&stream).write_all(b"no: too many ask at a time\n");
                continue;
            };
            thread::spawn(move || {
                // What a client does wrong, or breaks off, is its own matter.
                let _ = served(&stream);
                let _ = stream.shutdown(Shutdown::Both);
                drop(slot);
            });
        }
    }
}

fn served(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let begin = Instant::now();
    let mut from = BufReader::with_capacity(BLOCK, stream);
    let mut to = stream;
    let mut line = String::new();
    (&mut from).take(LINE).read_line(&mut line)?;
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
            while left > 0 && begin.elapsed() < LONGEST {
                let part = left.min(BLOCK as u64) as usize;
                left -= to.write(&block[..part])? as u64;
            }
            // The client has all of it when it sees the end.
            to.shutdown(Shutdown::Write)
        }
        Wanted::Take { .. } => {
            let mut taken = 0_u64;
            let mut buffer = block;
            while begin.elapsed() < LONGEST {
                match from.read(&mut buffer)? {
                    0 => return writeln!(to, "{taken}"),
                    read => taken += read as u64,
                }
            }
            Ok(())
        }
        Wanted::Answer {
            request, response, ..
        } => {
            while begin.elapsed() < LONGEST {
                if !skipped(&mut from, request)? {
                    return Ok(());
                }
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
            datagrams::serve(stream, &mut from, (exchange, dscp), LONGEST)
        }
        Wanted::Silence => {
            let silence = match Silence::open(stream.local_addr()?) {
                Ok(silence) => silence,
                Err(error) => return writeln!(to, "no: {error}"),
            };
            writeln!(to, "{} silent", silence.port())?;
            datagrams::lasting(stream)?;
            stream.set_read_timeout(Some(LONGEST))?;
            // Until the client ends it.
            io::copy(&mut from, &mut io::sink()).map(|_| ())
        }
    }
}

/// Reads so many bytes; false where the connection ends before.
fn skipped(from: &mut impl io::BufRead, bytes: u64) -> io::Result<bool> {
    let came = io::copy(&mut from.take(bytes), &mut io::sink())?;
    Ok(came == bytes)
}
