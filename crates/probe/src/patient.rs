// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A TCP connection whose reads have a deadline.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A connection whose reads can have a deadline.
pub trait Talk: Read + Write {
    /// Sets a deadline for reads, this long from now; `None` removes it.
    fn wait(&mut self, patience: Option<Duration>) -> io::Result<()>;
}

/// A connection with a deadline for all reads together. A socket's timeout would restart with
/// each byte, so that a peer could extend it endlessly.
#[derive(Debug)]
pub(crate) struct Patient {
    pub(crate) stream: TcpStream,
    until: Option<Instant>,
}

impl Patient {
    /// Makes a connection without a deadline.
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            until: None,
        }
    }
}

impl Talk for Patient {
    fn wait(&mut self, patience: Option<Duration>) -> io::Result<()> {
        self.until = patience.map(|patience| Instant::now() + patience);
        self.stream.set_read_timeout(patience)
    }
}

impl Write for Patient {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Read for Patient {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if let Some(until) = self.until {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left))?;
        }
        self.stream.read(to)
    }
}
