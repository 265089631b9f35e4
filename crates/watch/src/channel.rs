// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The protocol between the collector and the web process. They share a socket of messages.
//! First the collector passes the listening sockets. Then the web process requests streams, and
//! the collector answers each request with one end of a new socket pair. Each stream carries one
//! request and its answer in frames, so that a slow reader of one answer does not delay others.
//!
//! Every length is bounded. The collector accepts no descriptors from the web process.

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::{UnixDatagram, UnixStream};
use tokio::time::timeout;

/// The largest number of descriptors in a message, which bounds the addresses of a service.
pub(crate) const LISTENERS: usize = 16;
/// The size of a frame of an answer in bytes.
pub(crate) const PIECE: usize = 65_536;
/// The longest request in bytes: a path and a query.
pub(crate) const LONGEST_REQUEST: usize = 20_000;
/// The longest settings in bytes: certificates, and names with hashes.
pub(crate) const LONGEST_SETTINGS: usize = 4 << 20;
/// The request for settings, which are sent again whenever they change.
pub(crate) const SETTINGS: &str = "settings";
/// The HTTP status at the start of an answer.
pub(crate) const OK: u16 = 200;
pub(crate) const BAD_REQUEST: u16 = 400;
pub(crate) const FAILED: u16 = 500;
pub(crate) const LATER: u16 = 503;

/// A stream whose reader accepts nothing for this long is closed.
pub(crate) const STALLED: Duration = Duration::from_secs(30);

/// A message of the web process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word {
    /// Whether it requests a stream.
    pub(crate) stream: bool,
    /// The number of requests that it has refused since its start.
    pub(crate) refused: u64,
}

impl Word {
    const LENGTH: usize = 9;

    fn bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = [u8::from(self.stream); Self::LENGTH];
        bytes[1..].copy_from_slice(&self.refused.to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (kind, count) = bytes.split_first()?;
        Some(Self {
            stream: match kind {
                0 => false,
                1 => true,
                _ => return None,
            },
            refused: u64::from_le_bytes(count.try_into().ok()?),
        })
    }
}

/// Makes a channel: the collector's end, and that of the web process.
pub(crate) fn pair() -> io::Result<(Channel, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    let (near, far) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    Ok((Channel::open(near)?, far))
}

/// One end of a channel: a SOCK_SEQPACKET socket, which reports when the other end is closed.
/// tokio handles it like a datagram socket.
#[derive(Debug)]
pub(crate) struct Channel(UnixDatagram);

impl Channel {
    /// Opens an end; needs a tokio runtime.
    pub(crate) fn open(socket: OwnedFd) -> io::Result<Self> {
        let socket = std::os::unix::net::UnixDatagram::from(socket);
        socket.set_nonblocking(true)?;
        Ok(Self(UnixDatagram::from_std(socket)?))
    }

    /// Sends descriptors.
    pub(crate) async fn hand(&self, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let hand = || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(LISTENERS))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            if !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let byte = [IoSlice::new(&[0])];
            sendmsg(&self.0, &byte, &mut ancillary, SendFlags::NOSIGNAL)?;
            Ok(())
        };
        self.0.async_io(Interest::WRITABLE, hand).await
    }

    /// Receives the descriptors of one message.
    pub(crate) async fn take(&self) -> io::Result<Vec<OwnedFd>> {
        let take = || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(LISTENERS))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut byte = [0];
            let into = &mut [IoSliceMut::new(&mut byte)];
            let got = recvmsg(&self.0, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
            if got.bytes == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let rights = ancillary.drain().filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(rights) => Some(rights),
                _ => None,
            });
            Ok(rights.flatten().collect())
        };
        self.0.async_io(Interest::READABLE, take).await
    }

    /// Sends a message if there is room; otherwise it is dropped, because the next message
    /// contains the count too.
    pub(crate) fn try_say(&self, word: Word) {
        let _ = self.0.try_send(&word.bytes());
    }

    /// Sends a message.
    pub(crate) async fn say(&self, word: Word) -> io::Result<()> {
        self.0.send(&word.bytes()).await.map(drop)
    }

    /// Receives a message; returns `None` once the other end is closed. The kernel closes
    /// descriptors that come with it, because the buffer has no room for them.
    pub(crate) async fn hear(&self) -> io::Result<Option<Word>> {
        // One byte more than a message, to detect longer ones.
        let mut bytes = [0; Word::LENGTH + 1];
        let length = self.0.recv(&mut bytes).await?;
        if length == 0 {
            return Ok(None);
        }
        let word = Word::read(&bytes[..length]);
        word.map(Some)
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// Makes a stream: one end to use, and one to send.
pub(crate) fn stream() -> io::Result<(UnixStream, OwnedFd)> {
    let (near, far) = std::os::unix::net::UnixStream::pair()?;
    near.set_nonblocking(true)?;
    Ok((UnixStream::from_std(near)?, far.into()))
}

/// Writes a frame, unless the reader stalls. An empty frame ends an answer.
pub(crate) async fn write(stream: &mut UnixStream, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let work = async {
        stream.write_all(&length.to_le_bytes()).await?;
        stream.write_all(bytes).await
    };
    timeout(STALLED, work).await?
}

/// Reads a frame of at most `longest` bytes.
pub(crate) async fn read(stream: &mut UnixStream, longest: usize) -> io::Result<Vec<u8>> {
    let length = stream.read_u32_le().await? as usize;
    if length > longest {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// Writes an answer that is completely known.
pub(crate) async fn whole(stream: &mut UnixStream, status: u16, text: &str) -> io::Result<()> {
    write(stream, &status.to_le_bytes()).await?;
    for piece in text.as_bytes().chunks(PIECE) {
        write(stream, piece).await?;
    }
    write(stream, &[]).await
}

/// Returns once the reader of an answer is gone.
pub(crate) async fn gone(stream: &UnixStream) {
    loop {
        if stream.readable().await.is_err() {
            return;
        }
        match stream.try_read(&mut [0]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // The web process must not send anything after its request.
            Ok(_) | Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(test);
    }

    #[test]
    fn words_and_descriptors_are_taken_or_refused() {
        run(async {
            let (near, far) = pair().unwrap();
            let far = Channel::open(far).unwrap();
            let word = Word {
                stream: true,
                refused: 77,
            };
            far.say(word).await.unwrap();
            assert_eq!(near.hear().await.unwrap(), Some(word));
            // Descriptors in a message of the web process are not received.
            let (stream, handed) = stream().unwrap();
            far.hand(&[handed.as_fd()]).await.unwrap();
            drop(handed);
            let error = near.hear().await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            stream.readable().await.unwrap();
            assert_eq!(stream.try_read(&mut [0; 1]).unwrap(), 0);
            for wrong in [&[][..], &[2; 9], &[0; 8], &[1; 10], &[0; 4000]] {
                if !wrong.is_empty() {
                    far.0.send(wrong).await.unwrap();
                    near.hear().await.unwrap_err();
                }
            }
            drop(far);
            assert_eq!(near.hear().await.unwrap(), None);
        });
    }

    #[test]
    fn a_frame_has_no_more_bytes_than_are_wanted() {
        run(async {
            let (mut near, far) = stream().unwrap();
            let far = std::os::unix::net::UnixStream::from(far);
            far.set_nonblocking(true).unwrap();
            let mut far = UnixStream::from_std(far).unwrap();
            write(&mut far, b"four").await.unwrap();
            assert_eq!(read(&mut near, 4).await.unwrap(), b"four");
            write(&mut far, b"fives").await.unwrap();
            let error = read(&mut near, 4).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            // A length without the bytes that should follow.
            let (mut near, far) = stream().unwrap();
            rustix::io::write(&far, &100_u32.to_le_bytes()).unwrap();
            drop(far);
            read(&mut near, PIECE).await.unwrap_err();
        });
    }
}
