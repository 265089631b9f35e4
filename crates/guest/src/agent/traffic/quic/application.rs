// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The application on a connection, which writes to streams or reads from them.

use crate::agent::clock::Clock;
use crate::agent::traffic::meter::Meter;
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use quinn_proto::{
    Connection, Dir, Event, ReadError, ReadableError, StreamEvent, StreamId, WriteError,
};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Payload of arbitrary content. quinn-proto searches the writes in flight for each packet, so
/// writes are large.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// One end's role in a transfer.
#[derive(Debug)]
pub enum Application {
    /// It sends the data.
    Sends {
        /// The bytes left to write on each stream that is not open yet; `None` for no limit.
        shares: Vec<Option<u64>>,
        /// The open streams, with the bytes left to write.
        open: BTreeMap<StreamId, Option<u64>>,
        /// Whether all streams are open.
        opened: bool,
    },
    /// It receives and counts the data.
    Receives(Rc<Meter>),
}

impl Application {
    /// Returns a sender of this many bytes over this many streams; `None` for no limit.
    pub fn sending(streams: u16, bytes: Option<u64>) -> Self {
        let streams = u64::from(streams.max(1));
        let share =
            |number: u64| bytes.map(|bytes| bytes / streams + u64::from(number < bytes % streams));
        Self::Sends {
            shares: (0..streams).map(share).collect(),
            open: BTreeMap::new(),
            opened: false,
        }
    }

    /// Returns a receiver.
    pub fn receiving(meter: Rc<Meter>) -> Self {
        Self::Receives(meter)
    }

    /// Returns the bytes to send, 0 if there is no limit; `None` for a receiver.
    pub fn amount(&self) -> Option<u64> {
        match self {
            Self::Sends { shares, .. } => {
                Some(shares.iter().map(|share| share.unwrap_or_default()).sum())
            }
            Self::Receives(_) => None,
        }
    }

    /// Returns whether everything was sent and acknowledged.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Sends { open, opened: true, .. } if open.is_empty())
    }

    /// Handles an event of the connection.
    pub fn on(&mut self, event: &Event, connection: &mut Connection, clock: &Clock) -> Result<()> {
        match (self, event) {
            (
                Self::Sends {
                    shares,
                    open,
                    opened,
                },
                Event::Connected,
            ) => {
                for share in shares {
                    let id = connection.streams().open(Dir::Uni);
                    let id = id.context("the peer takes no further stream")?;
                    open.insert(id, *share);
                }
                *opened = true;
                for (id, left) in open {
                    write(connection, *id, left)?;
                }
            }
            (Self::Sends { open, .. }, Event::Stream(StreamEvent::Writable { id })) => {
                if let Some(left) = open.get_mut(id) {
                    write(connection, *id, left)?;
                }
            }
            (Self::Sends { open, .. }, Event::Stream(StreamEvent::Finished { id })) => {
                open.remove(id);
            }
            (Self::Receives(meter), Event::Stream(StreamEvent::Opened { dir: Dir::Uni })) => {
                while let Some(id) = connection.streams().accept(Dir::Uni) {
                    read(connection, id, meter, clock)?;
                }
            }
            (Self::Receives(meter), Event::Stream(StreamEvent::Readable { id })) => {
                read(connection, *id, meter, clock)?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Writes as much as the connection accepts, and finishes the stream when everything is written.
fn write(connection: &mut Connection, id: StreamId, left: &mut Option<u64>) -> Result<()> {
    let mut stream = connection.send_stream(id);
    loop {
        let most = left.unwrap_or(u64::MAX).min(ZEROS.len() as u64) as usize;
        if most == 0 {
            return stream.finish().context("finish a stream");
        }
        match stream.write_chunks(&mut [Bytes::from_static(&ZEROS[..most])]) {
            Ok(written) => {
                if let Some(left) = left {
                    *left -= written.bytes as u64;
                }
            }
            Err(WriteError::Blocked) => return Ok(()),
            Err(error) => return Err(error).context("write to a stream"),
        }
    }
}

/// Reads the available data of a stream in order, as a program would.
fn read(connection: &mut Connection, id: StreamId, meter: &Meter, clock: &Clock) -> Result<()> {
    let mut stream = connection.recv_stream(id);
    let mut chunks = match stream.read(true) {
        Ok(chunks) => chunks,
        // The stream was read to its end before this event.
        Err(ReadableError::ClosedStream) => return Ok(()),
        Err(error) => return Err(error).context("read a stream"),
    };
    let mut taken = 0;
    let ended = loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => taken += chunk.bytes.len(),
            Ok(None) | Err(ReadError::Blocked) => break None,
            Err(ReadError::Reset(code)) => break Some(code),
        }
    };
    // The acknowledgement is sent with the connection's next packet.
    let _ = chunks.finalize().should_transmit();
    if taken > 0 {
        meter.add(clock.now_ns(), taken);
    }
    match ended {
        None => Ok(()),
        Some(code) => bail!("the sender gave a stream up with code {code}"),
    }
}

#[cfg(test)]
mod tests {
    use super::Application;

    #[test]
    fn streams_share_an_amount_to_the_byte() {
        let shares = |streams, bytes| match Application::sending(streams, bytes) {
            Application::Sends { shares, .. } => shares,
            Application::Receives(_) => Vec::new(),
        };
        assert_eq!(shares(3, Some(11)), [Some(4), Some(4), Some(3)]);
        assert_eq!(shares(2, Some(1)), [Some(1), Some(0)]);
        assert_eq!(shares(2, None), [None, None]);
        assert_eq!(Application::sending(7, Some(100)).amount(), Some(100));
        assert!(!Application::sending(1, Some(0)).is_done());
    }
}
