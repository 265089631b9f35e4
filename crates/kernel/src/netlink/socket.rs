// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The transport of a channel: a netlink socket. With the feature `played`, it may also be a script
//! of false answers, or a socket whose answers are altered.

use crate::error::KernelError;
#[cfg(feature = "played")]
use crate::netlink::{altered::Altered, played::Played};
use nlink::netlink::NetlinkSocket;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::borrow::Cow;
use std::io;
#[cfg(feature = "played")]
use std::sync::Arc;

/// The size of the receive buffer. Dumps have up to 32 KiB (`netlink_dump`,
/// net/netlink/af_netlink.c), single objects less than 64 KiB.
pub(crate) const ROOM: usize = 256 << 10;

pub(crate) enum Socket {
    Netlink(NetlinkSocket),
    #[cfg(feature = "played")]
    Played(Arc<Played>),
    #[cfg(feature = "played")]
    Altered(NetlinkSocket, Arc<Altered>),
}

impl Socket {
    /// Returns the kernel's socket.
    #[cfg_attr(
        not(feature = "played"),
        expect(clippy::unnecessary_wraps, reason = "only a script has none")
    )]
    pub(crate) fn kernel(&self) -> io::Result<&NetlinkSocket> {
        match self {
            Self::Netlink(socket) => Ok(socket),
            #[cfg(feature = "played")]
            Self::Played(_) => Err(io::ErrorKind::Unsupported.into()),
            #[cfg(feature = "played")]
            Self::Altered(socket, _) => Ok(socket),
        }
    }

    /// Returns the sequence number of the next request.
    pub(crate) fn next_seq(&self) -> u32 {
        match self {
            Self::Netlink(socket) => socket.next_seq(),
            #[cfg(feature = "played")]
            Self::Played(played) => played.next_seq(),
            #[cfg(feature = "played")]
            Self::Altered(socket, _) => socket.next_seq(),
        }
    }

    pub(crate) async fn send(&self, bytes: &[u8]) -> Result<(), KernelError> {
        let sent = match self {
            Self::Netlink(socket) => socket.send(bytes).await,
            #[cfg(feature = "played")]
            Self::Played(_) => Ok(()),
            #[cfg(feature = "played")]
            Self::Altered(socket, _) => socket.send(bytes).await,
        };
        sent.map_err(|error| KernelError::socket("sending to the kernel", &error))
    }

    /// Returns the next datagram, which is usually queued already.
    pub(crate) async fn next<'a>(&self, room: &'a mut [u8]) -> Result<Cow<'a, [u8]>, KernelError> {
        if let Some(length) = self.waiting(room)? {
            return Ok(Cow::Borrowed(&room[..length]));
        }
        let waited = match self {
            Self::Netlink(socket) => socket.recv_unicast().await,
            #[cfg(feature = "played")]
            Self::Played(played) => played.next(),
            // The kernel queues all answers before the request returns.
            #[cfg(feature = "played")]
            Self::Altered(..) => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        };
        waited.map(Cow::Owned).map_err(unread)
    }

    /// Returns a queued datagram, if any.
    pub(crate) fn queued<'a>(&self, room: &'a mut [u8]) -> Result<Option<&'a [u8]>, KernelError> {
        let length = self.waiting(room)?;
        Ok(length.map(|length| &room[..length]))
    }

    /// Reads a queued datagram in one call, instead of asking for its length first. The socket is
    /// in no group, so each datagram is addressed to it.
    fn waiting(&self, room: &mut [u8]) -> Result<Option<usize>, KernelError> {
        let (size, flags) = (room.len(), RecvFlags::DONTWAIT | RecvFlags::TRUNC);
        let received = match self {
            Self::Netlink(socket) => rustix::net::recv(socket, &mut *room, flags),
            #[cfg(feature = "played")]
            Self::Played(played) => return Ok(played.queued(room)),
            #[cfg(feature = "played")]
            Self::Altered(socket, altered) => match altered.again(room) {
                Some(length) => return Ok(Some(length)),
                None => rustix::net::recv(socket, &mut *room, flags).map(|(filled, length)| {
                    let whole = length <= size;
                    let changed = whole.then(|| altered.change(&mut room[..length]));
                    (filled, changed.unwrap_or(length))
                }),
            },
        };
        match received {
            Ok((_, length)) if length <= size => Ok(Some(length)),
            Ok((_, length)) => Err(KernelError::Malformed {
                what: format!("an answer of {length} bytes"),
            }),
            Err(Errno::AGAIN) => Ok(None),
            Err(errno) => Err(unread(io::Error::from(errno).into())),
        }
    }

    /// Waits for a multicast message.
    pub(crate) async fn word(&self) -> nlink::Result<Vec<u8>> {
        match self {
            Self::Netlink(socket) => socket.recv_msg().await,
            #[cfg(feature = "played")]
            Self::Played(played) => played.next(),
            #[cfg(feature = "played")]
            Self::Altered(socket, _) => socket.recv_msg().await,
        }
    }

    /// Returns a queued multicast message, if any.
    pub(crate) fn queued_word(&self) -> nlink::Result<Option<Vec<u8>>> {
        match self {
            Self::Netlink(socket) => socket.try_recv_msg(),
            #[cfg(feature = "played")]
            Self::Played(played) => Ok(played.next_queued()),
            #[cfg(feature = "played")]
            Self::Altered(socket, _) => socket.try_recv_msg(),
        }
    }

    /// Makes the send buffer large enough for this much. If that is not permitted, the later send
    /// fails with EMSGSIZE.
    pub(crate) fn make_room(&self, length: usize) {
        // The kernel's default (`SK_WMEM_DEFAULT`) is larger.
        const ENOUGH: usize = 100_000;
        let Ok(socket) = self.kernel() else { return };
        if length > ENOUGH {
            let forced =
                rustix::net::sockopt::set_socket_send_buffer_size_force(socket, length * 2);
            if forced.is_err() {
                let _ = rustix::net::sockopt::set_socket_send_buffer_size(socket, length * 2);
            }
        }
    }
}

#[allow(clippy::needless_pass_by_value, reason = "it stands in `map_err`")]
fn unread(error: nlink::Error) -> KernelError {
    KernelError::socket("reading the kernel's answer", &error)
}
