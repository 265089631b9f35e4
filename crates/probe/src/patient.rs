// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A TCP connection whose reads have a deadline.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A connection whose reads can be made to end in time.
pub trait Talk: Read + Write {
    /// Ends reads after this time from now; `None` lets them take forever.
    fn wait(&mut self, patience: Option<Duration>) -> io::Result<()>;
}

/// A connection with a deadline for all reads together. A timeout of the socket
/// begins anew with each byte, so that a peer could stretch it without end.
#[derive(Debug)]
pub(crate) struct Patient {
    pub(crate) stream: TcpStream,
    until: Option<Instant>,
}

impl Patient {
    /// A connection whose reads may take forever.
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
