// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A connection that ends in time, whatever its client does. A socket's timeout would restart
//! with each byte.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A reference to a connection with deadlines.
#[derive(Debug)]
pub(crate) struct Bounded<'a> {
    stream: &'a TcpStream,
    /// The timeout of a single read or write.
    patience: Duration,
    /// The deadline of all reads and writes.
    until: Instant,
}

impl<'a> Bounded<'a> {
    /// Makes a connection with a timeout for each read and write, and a total duration from now.
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
