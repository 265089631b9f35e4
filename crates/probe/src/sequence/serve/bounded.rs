// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A connection that ends in time, whatever its client does. A timeout of the socket begins
//! anew with each byte.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// One end of a connection, by reference.
#[derive(Debug)]
pub(crate) struct Bounded<'a> {
    stream: &'a TcpStream,
    /// For one read or write.
    patience: Duration,
    /// The end of them all.
    until: Instant,
}

impl<'a> Bounded<'a> {
    /// Reads and writes of `patience` each, and of `longest` from now on together.
    pub(crate) fn new(stream: &'a TcpStream, patience: Duration, longest: Duration) -> Self {
        Self {
            stream,
            patience,
            until: Instant::now() + longest,
        }
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(left.min(self.patience))
    }
}

impl Read for Bounded<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(to)
    }
}

impl Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
