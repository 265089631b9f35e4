// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A socket in the event loop.

use super::options::{self, Transport};
use crate::agent::clock::Clock;
use crate::agent::nodes::{self, Nodes};
use crate::agent::watch::watch;
use rustix::io::Errno;
use rustix::net::sockopt::{
    set_socket_linger, set_socket_recv_buffer_size_force, set_socket_reuseaddr,
    set_socket_send_buffer_size_force, socket_error,
};
use rustix::net::{SendFlags, Shutdown, SocketFlags, acceptfrom_with};
use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use weirgate_experiment::Node;
use weirgate_units::Dscp;

/// Buffer size of datagram sockets in bytes, in both directions. The line and the gateway's
/// queues should lose packets, not the sockets.
const DATAGRAM_BUFFER: usize = 8 << 20;

/// A receive timestamp older than this in nanoseconds shows that the system time was changed.
const FURTHEST_NS: u64 = 10_000_000_000;

/// A non-blocking socket, registered in the event loop. Dropping closes it.
#[derive(Debug)]
pub struct Endpoint {
    socket: AsyncFd<OwnedFd>,
    noted: Noted,
}

/// Converts the kernel's receive timestamps to the run's clock.
#[derive(Debug, Default)]
pub struct Noted {
    /// How far `CLOCK_REALTIME`, the clock of receive timestamps, is ahead of the run's clock;
    /// `None` if unknown.
    ahead_ns: Cell<Option<u64>>,
}

/// Opens a socket of `node` that is not yet registered in the event loop. It is bound to the
/// node's address and `port`.
pub fn bound(
    nodes: &Nodes,
    node: Node,
    transport: Transport,
    ipv6: bool,
    dscp: Dscp,
    port: u16,
) -> io::Result<OwnedFd> {
    nodes.enter(node, || {
        let socket = options::open(transport, ipv6, dscp)?;
        // Several instances may share a server's port, and a port may be in the state TIME_WAIT
        // from an earlier run.
        set_socket_reuseaddr(&socket, true)?;
        if transport != Transport::Tcp {
            set_socket_send_buffer_size_force(&socket, DATAGRAM_BUFFER)?;
            set_socket_recv_buffer_size_force(&socket, DATAGRAM_BUFFER)?;
        }
        let address = SocketAddr::new(nodes::address(node, ipv6), port);
        rustix::net::bind(&socket, &address)?;
        Ok(socket)
    })
}

impl Endpoint {
    /// Registers a TCP socket in the event loop.
    pub fn stream(socket: OwnedFd) -> io::Result<Self> {
        Self::watched(socket, Interest::READABLE.add(Interest::WRITABLE))
    }

    /// Registers a socket that only [receives](Self::receive_stamped), [accepts](Self::accept)
    /// or [sends at once](Self::send_now). Waiting for room in a datagram socket would wake the
    /// event loop for every packet that leaves.
    pub fn readable(socket: OwnedFd) -> io::Result<Self> {
        Self::watched(socket, Interest::READABLE)
    }

    fn watched(socket: OwnedFd, interest: Interest) -> io::Result<Self> {
        Ok(Self {
            socket: watch(socket, interest)?,
            noted: Noted::default(),
        })
    }

    /// Connects a stream, and registers it in the event loop only then. epoll reports a socket
    /// that is not connecting yet as hung up, and the event loop would keep this state.
    pub async fn connect(socket: OwnedFd, peer: SocketAddr) -> io::Result<Self> {
        match rustix::net::connect(&socket, &peer) {
            Ok(()) => Self::stream(socket),
            Err(Errno::INPROGRESS) => {
                let endpoint = Self::stream(socket)?;
                endpoint.socket.writable().await?.retain_ready();
                socket_error(&endpoint)??;
                Ok(endpoint)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Accepts the next connection of a listening socket. Returns it with its peer's port.
    pub async fn accept(&self) -> io::Result<(Self, u16)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        loop {
            let mut guard = self.socket.readable().await?;
            let taken = guard.try_io(|fd| Ok(acceptfrom_with(fd.get_ref(), flags)?));
            match taken {
                Ok(Ok((socket, peer))) => {
                    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
                    let port = peer.map_or(0, |peer| peer.port());
                    return Ok((Self::stream(socket)?, port));
                }
                // The peer has given up already: wait for the next connection.
                Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Ok(Err(error)) => return Err(error),
                Err(_would_block) => {}
            }
        }
    }

    /// Sends a part of `data`, and waits until the socket accepts some.
    pub async fn send(&self, data: &[u8]) -> io::Result<usize> {
        loop {
            let mut guard = self.socket.writable().await?;
            match guard.try_io(|fd| Ok(rustix::net::send(fd, data, SendFlags::NOSIGNAL)?)) {
                Ok(Ok(sent)) => {
                    // A stream that accepted less than offered is full now. This saves the
                    // system call that would fail.
                    if sent < data.len() {
                        guard.clear_ready();
                    }
                    return Ok(sent);
                }
                Ok(Err(error)) => return Err(error),
                Err(_would_block) => {}
            }
        }
    }

    /// Sends a datagram without waiting. Returns false if the socket buffer is full.
    pub fn send_now(&self, data: &[u8]) -> io::Result<bool> {
        match rustix::net::send(self, data, SendFlags::NOSIGNAL) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads and discards at most `most` bytes of a stream; returns 0 at the end of the stream.
    pub async fn discard(&self, most: usize) -> io::Result<usize> {
        loop {
            let mut guard = self.socket.readable().await?;
            match guard.try_io(|fd| options::discard(fd, most)) {
                Ok(Ok(taken)) => {
                    if (1..most).contains(&taken) {
                        guard.clear_ready();
                    }
                    return Ok(taken);
                }
                Ok(Err(error)) => return Err(error),
                Err(_would_block) => {}
            }
        }
    }

    /// Reads a datagram. Returns its length and when the kernel received it, by the run's clock.
    /// Needs [`options::note_arrivals`].
    pub async fn receive_stamped(
        &self,
        buffer: &mut [u8],
        clock: &Clock,
    ) -> io::Result<(usize, u64)> {
        let read = |fd: &OwnedFd| options::receive_stamped(fd, &mut *buffer);
        let (length, noted_ns) = self.socket.async_io(Interest::READABLE, read).await?;
        let now_ns = clock.now_ns();
        let at_ns = noted_ns.map_or(now_ns, |noted_ns| self.noted.at(noted_ns, now_ns, clock));
        Ok((length, at_ns))
    }

    /// Reads the next datagram as [`options::receive_with_ecn`] does.
    pub fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, u8)>> {
        loop {
            let mut guard = ready!(self.socket.poll_read_ready(cx))?;
            let read = guard.try_io(|fd| options::receive_with_ecn(fd, &mut *buffer));
            if let Ok(result) = read {
                return Poll::Ready(result);
            }
        }
    }

    /// Returns the port to which it is bound.
    pub fn port(&self) -> io::Result<u16> {
        let own = SocketAddr::try_from(rustix::net::getsockname(self)?)?;
        Ok(own.port())
    }

    /// Closes the sending direction.
    pub fn finish(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(self, Shutdown::Write)?)
    }

    /// Makes closing discard unacknowledged data and reset the connection, so that the sender
    /// stops at once.
    pub fn abort_on_close(&self) -> io::Result<()> {
        Ok(set_socket_linger(self, Some(Duration::ZERO))?)
    }
}

impl Noted {
    /// Converts a receive timestamp in nanoseconds of `CLOCK_REALTIME` to the run's clock, whose
    /// current time is `now_ns`.
    pub fn at(&self, noted_ns: u64, now_ns: u64, clock: &Clock) -> u64 {
        let by = |ahead_ns: u64| noted_ns.saturating_sub(ahead_ns);
        let plausible = now_ns.saturating_sub(FURTHEST_NS)..=now_ns;
        if let Some(ahead_ns) = self.ahead_ns.get()
            && plausible.contains(&by(ahead_ns))
        {
            return by(ahead_ns);
        }
        let ahead_ns = realtime_ahead(clock);
        self.ahead_ns.set(Some(ahead_ns));
        by(ahead_ns).min(now_ns)
    }
}

impl AsFd for Endpoint {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Returns how far `CLOCK_REALTIME` is ahead of the run's clock.
fn realtime_ahead(clock: &Clock) -> u64 {
    // The thread may be preempted between reading the two clocks, so take the closest of several
    // readings.
    let readings = (0..8).map(|_| {
        let before_ns = clock.now_ns();
        let realtime_ns = realtime_ns();
        let took_ns = clock.now_ns().saturating_sub(before_ns);
        (took_ns, realtime_ns.saturating_sub(before_ns + took_ns / 2))
    });
    readings.min().map_or(0, |(_, ahead_ns)| ahead_ns)
}

fn realtime_ns() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
