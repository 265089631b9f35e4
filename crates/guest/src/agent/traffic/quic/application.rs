// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The application on a connection, which fills streams or empties them.

use crate::agent::clock::Clock;
use crate::agent::traffic::meter::Meter;
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use quinn_proto::{
    Connection, Dir, Event, ReadError, ReadableError, StreamEvent, StreamId, WriteError,
};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Payload; what it holds does not matter.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// One end's part in a transfer.
#[derive(Debug)]
pub enum Application {
    /// Data comes from here.
    Sends {
        /// Of each stream, what is to be written yet; without end where absent.
        shares: Vec<Option<u64>>,
        /// The open streams with what is to be written yet.
        open: BTreeMap<StreamId, Option<u64>>,
        /// Whether all were opened.
        opened: bool,
    },
    /// Data goes to here, and is counted.
    Receives(Rc<Meter>),
}

impl Application {
    /// Sends this many bytes over this many streams, or without end.
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

    /// Receives arriving data.
    pub fn receiving(meter: Rc<Meter>) -> Self {
        Self::Receives(meter)
    }

    /// The bytes that it is to send, 0 where there is no end; `None` where it
    /// receives.
    pub fn amount(&self) -> Option<u64> {
        match self {
            Self::Sends { shares, .. } => {
                Some(shares.iter().map(|share| share.unwrap_or_default()).sum())
            }
            Self::Receives(_) => None,
        }
    }

    /// Whether everything was sent and acknowledged.
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

/// Writes as much as the connection takes, and says when that was all.
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

/// Takes in order what a stream has, as a program would.
fn read(connection: &mut Connection, id: StreamId, meter: &Meter, clock: &Clock) -> Result<()> {
    let mut stream = connection.recv_stream(id);
    let mut chunks = match stream.read(true) {
        Ok(chunks) => chunks,
        // It was read to its end before this event.
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
    // What it has to say of it goes out with what the connection sends next.
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
