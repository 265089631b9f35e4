// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP connections between two nodes, both of whose ends are in this process.
//!
//! Options that must apply to the first segment (window, buffers, congestion control, code
//! point) are set before connecting, and on the listening socket. Other modules decide what a
//! connection sends.

use super::endpoint::{self, Endpoint};
use super::flow::Flow;
use super::meter::Meter;
use super::options::{self, Transport};
use crate::agent::clock::Clock;
use crate::agent::nodes::{self, name};
use crate::agent::prague;
use anyhow::{Context, Result, anyhow, ensure};
use rustix::net::sockopt::{
    set_socket_recv_buffer_size_force, set_socket_send_buffer_size_force, set_tcp_congestion,
    set_tcp_nodelay,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use tokio::sync::oneshot;
use weirgate_experiment::{Node, TcpSettings, TrafficKind};
use weirgate_units::{Dscp, Size};

/// The TCP protocol number.
pub const PROTOCOL: u8 = 6;

/// The limit of unsent bytes in a socket without a configured send buffer. The kernel wakes the
/// sender at half of it: 64 KiB at a time need few wake-ups, and last for 5 ms at 100 Mbit/s.
const UNSENT: u32 = 128 << 10;

/// Receive buffer per byte of window. A segment occupies two to four times its payload, and the
/// kernel uses only half of the buffer for the window. A smaller buffer would prevent the
/// requested window.
const BUFFER_PER_WINDOW: u64 = 8;

/// The bytes by which the first data segment enlarges the window before the limit can be set
/// again ([`hold_window`]): two segments of 1460 bytes (`tcp_grow_window`). A connection starts
/// with a window that is smaller by this.
const GROWTH: u64 = 2 * 1_460;

/// The largest number of SYN retransmissions that Linux permits (`MAX_TCP_SYNCNT`,
/// include/net/tcp.h), which takes hours.
const MOST_SYNS: u32 = 127;

/// The largest number of bytes to read at once; a large value costs nothing.
const MOST: u64 = 1 << 20;

/// Payload of arbitrary content.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The listening sockets of a run, by node, address family and port.
#[derive(Debug, Default)]
pub struct Listeners {
    all: RefCell<BTreeMap<(Node, bool, u16), Rc<Listener>>>,
}

/// A listening socket. Entries with the same port of the same node share it, and the source port
/// shows to which of them a connection belongs.
#[derive(Debug)]
struct Listener {
    /// The receive settings of its connections.
    receives: (Option<Size>, Option<Size>),
    /// The tasks that wait for a connection, by source port.
    expected: RefCell<BTreeMap<u16, oneshot::Sender<Endpoint>>>,
}

/// One end of a connection that is not established yet.
#[derive(Debug)]
pub enum Opening {
    /// The connecting end.
    Connect(OwnedFd, SocketAddr),
    /// The accepting end.
    Accept(Accepting),
}

/// The accepting end of a connection.
#[derive(Debug)]
pub struct Accepting {
    accepted: oneshot::Receiver<Endpoint>,
    ipv6: bool,
    dscp: Dscp,
    /// The TCP settings, if this end sends the data.
    sender: Option<TcpSettings>,
}

impl Listeners {
    /// Opens a flow's listening socket, once for all flows that share it.
    pub fn open(&self, flow: &Flow, settings: &TcpSettings) -> Result<()> {
        let node = flow.ends().1;
        let receives = if flow.is_sent_to_far() {
            (settings.window, settings.receive_buffer)
        } else {
            (None, None)
        };
        let key = (node, flow.entry.ipv6, flow.port);
        if let Some(known) = self.all.borrow().get(&key) {
            ensure!(
                known.receives == receives,
                "another entry listens on port {} of {} with another receive window or buffer: \
                 give one of them a port of its own",
                flow.port,
                name(node)
            );
            return Ok(());
        }
        let session = &flow.session;
        let entry = &flow.entry;
        let socket = endpoint::bound(
            &session.nodes,
            node,
            Transport::Tcp,
            entry.ipv6,
            entry.dscp,
            flow.port,
        )
        .and_then(|socket| {
            set_receiver(&socket, receives)?;
            if matches!(entry.kind, TrafficKind::Tcp(_)) {
                // Retry as long as the near end does. By default, the kernel drops a half-open
                // connection after five SYN-ACK retransmissions, or 63 s (`tcp_synack_retries`),
                // and resets it when a segment arrives later.
                options::set_syn_repeats(&socket, MOST_SYNS)?;
            }
            rustix::net::listen(&socket, i32::from(u16::MAX))?;
            Endpoint::readable(socket)
        })
        .with_context(|| format!("listen on port {} of {}", flow.port, name(node)))?;
        let listener = Rc::new(Listener {
            receives,
            expected: RefCell::default(),
        });
        let accepting = Rc::clone(&listener);
        flow.spawn("accept connections", async move {
            loop {
                let (connection, port) = socket.accept().await?;
                let expected = accepting.expected.borrow_mut().remove(&port);
                let unwanted = match expected {
                    Some(waiting) => waiting.send(connection).err(),
                    None => Some(connection),
                };
                // The other side has given up, because its run has ended.
                if let Some(connection) = unwanted {
                    connection.abort_on_close()?;
                }
            }
        });
        self.all.borrow_mut().insert(key, listener);
        Ok(())
    }

    fn expect(&self, flow: &Flow, near_port: u16) -> Result<oneshot::Receiver<Endpoint>> {
        let key = (flow.ends().1, flow.entry.ipv6, flow.port);
        let all = self.all.borrow();
        let listener = all
            .get(&key)
            .ok_or_else(|| anyhow!("port {} of {} is not open", flow.port, name(key.0)))?;
        let (sender, receiver) = oneshot::channel();
        listener.expected.borrow_mut().insert(near_port, sender);
        Ok(receiver)
    }
}

impl Flow {
    /// Prepares a connection so that even its first packet is assigned to the flow. Returns the
    /// sending and the receiving end.
    pub fn dial(&self, settings: &TcpSettings) -> Result<(Opening, Opening)> {
        let (near_node, far_node) = self.ends();
        let near_port = self.shared.ports.near();
        let entry = &self.entry;
        let socket = endpoint::bound(
            &self.session.nodes,
            near_node,
            Transport::Tcp,
            entry.ipv6,
            entry.dscp,
            near_port,
        )
        .with_context(|| format!("open port {near_port} of {}", name(near_node)))?;
        if self.is_sent_to_far() {
            set_sender(&socket, settings)?;
        } else {
            let receives = (settings.window, settings.receive_buffer);
            set_receiver(&socket, receives).context("set the receive window")?;
            if prague::is_asked_for(settings) {
                // The connecting end requests the feedback that the sending end needs.
                set_congestion(&socket, settings)?;
            }
        }
        self.label(PROTOCOL, near_port);
        let peer = SocketAddr::new(nodes::address(far_node, entry.ipv6), self.port);
        let accepted = self.shared.listeners.expect(self, near_port)?;
        let near = Opening::Connect(socket, peer);
        let far = |sender| {
            Opening::Accept(Accepting {
                accepted,
                ipv6: entry.ipv6,
                dscp: entry.dscp,
                sender,
            })
        };
        Ok(if self.is_sent_to_far() {
            (near, far(None))
        } else {
            (far(Some(settings.clone())), near)
        })
    }
}

impl Opening {
    /// Returns whether this end connects.
    pub fn connects(&self) -> bool {
        matches!(self, Self::Connect(..))
    }

    /// Keeps retransmitting the SYN as long as the run lasts. By default, the kernel gives up
    /// after six retransmissions, or 127 s (`tcp_syn_retries`), which may happen by chance on a
    /// lossy line.
    pub fn insist(&self) -> Result<()> {
        if let Self::Connect(endpoint, peer) = self {
            let set = options::set_syn_repeats(endpoint, MOST_SYNS);
            set.with_context(|| format!("keep asking {peer}"))?;
        }
        Ok(())
    }

    /// Returns the connection, or `None` if it is not established by `end_ns`.
    pub async fn by(self, clock: &Clock, end_ns: u64) -> Result<Option<Rc<Endpoint>>> {
        tokio::select! {
            biased;
            ended = clock.until(end_ns) => {
                ended?;
                Ok(None)
            }
            opened = self.open() => Ok(Some(Rc::new(opened?))),
        }
    }

    async fn open(self) -> Result<Endpoint> {
        match self {
            Self::Connect(socket, peer) => {
                let connected = Endpoint::connect(socket, peer).await;
                connected.with_context(|| format!("connect to {peer}"))
            }
            Self::Accept(accepting) => {
                let Ok(endpoint) = accepting.accepted.await else {
                    // The listener has failed and reports its own error.
                    return std::future::pending().await;
                };
                options::set_dscp(&endpoint, accepting.ipv6, accepting.dscp)?;
                if let Some(settings) = &accepting.sender {
                    set_sender(&endpoint, settings)?;
                }
                Ok(endpoint)
            }
        }
    }
}

fn set_sender(socket: impl std::os::fd::AsFd, settings: &TcpSettings) -> Result<()> {
    set_congestion(&socket, settings)?;
    match settings.send_buffer {
        Some(size) => set_socket_send_buffer_size_force(&socket, size.as_bytes() as usize)
            .context("set the send buffer")?,
        None => options::set_unsent_limit(&socket, UNSENT).context("limit unsent data")?,
    }
    Ok(())
}

fn set_congestion(socket: impl std::os::fd::AsFd, settings: &TcpSettings) -> Result<()> {
    match &settings.congestion {
        Some(congestion) => set_tcp_congestion(socket, congestion)
            .with_context(|| format!("set congestion control `{congestion}`")),
        None => Ok(()),
    }
}

fn set_receiver(socket: &OwnedFd, receives: (Option<Size>, Option<Size>)) -> io::Result<()> {
    // The kernel doubles the value, which must stay below 2 GiB.
    let most = u64::from(u32::MAX / 4);
    let buffer = match receives {
        (_, Some(buffer)) => Some(buffer.as_bytes()),
        (Some(window), None) => Some(window.as_bytes().saturating_mul(BUFFER_PER_WINDOW)),
        (None, None) => None,
    };
    if let Some(buffer) = buffer {
        set_socket_recv_buffer_size_force(socket, buffer.min(most) as usize)?;
    }
    if let Some(window) = receives.0 {
        let first = first_window(window.as_bytes());
        hold_window(socket, Some(Size::bytes(first)))?;
    }
    Ok(())
}

/// Returns the limit before the first data segment. The kernel chooses the window scale by it
/// (`tcp_select_initial_window`), so it must not be below the power of two at which the scale
/// changes.
fn first_window(bytes: u64) -> u64 {
    let first = bytes.saturating_sub(GROWTH).max(bytes / 2);
    match bytes.checked_ilog2() {
        Some(power @ 16..) => first.max(1 << power),
        _ => first,
    }
}

/// Limits the window again. The kernel forgets the limit when it learns the segment size
/// (`tcp_measure_rcv_mss`) or grows the buffer (`tcp_rcv_space_adjust`). Both happen before data
/// is read.
fn hold_window(socket: impl std::os::fd::AsFd, window: Option<Size>) -> io::Result<()> {
    match window {
        Some(window) => {
            options::set_window_clamp(socket, u32::try_from(window.as_bytes()).unwrap_or(u32::MAX))
        }
        None => Ok(()),
    }
}

/// Sends this many bytes, or without limit if `None`.
pub async fn send(endpoint: &Endpoint, bytes: Option<u64>) -> io::Result<()> {
    let mut left = bytes.unwrap_or(u64::MAX);
    while left > 0 {
        let most = left.min(ZEROS.len() as u64) as usize;
        let sent = endpoint.send(&ZEROS[..most]).await?;
        if bytes.is_some() {
            left -= sent as u64;
        }
    }
    Ok(())
}

/// Receives until this many bytes have arrived or the sender has finished. Returns how many
/// arrived.
pub async fn receive(
    flow: &Flow,
    endpoint: &Endpoint,
    window: Option<Size>,
    meter: &Meter,
    bytes: Option<u64>,
) -> io::Result<u64> {
    let bytes = bytes.unwrap_or(u64::MAX);
    let mut came = 0;
    while came < bytes {
        let taken = endpoint.discard((bytes - came).min(MOST) as usize).await?;
        if taken == 0 {
            break;
        }
        hold_window(endpoint, window)?;
        came += taken as u64;
        meter.add(flow.session.clock.now_ns(), taken);
    }
    Ok(came)
}

/// Reads this many bytes without recording them, or fewer at the end of the stream. Returns how
/// many.
pub async fn take(endpoint: &Endpoint, bytes: u64) -> io::Result<u64> {
    let mut came = 0;
    while came < bytes {
        let taken = endpoint.discard((bytes - came).min(MOST) as usize).await?;
        if taken == 0 {
            break;
        }
        came += taken as u64;
    }
    Ok(came)
}

/// Ignores a reset after the run's end, by which the sender ends the transfer. It also ignores a
/// timeout of the kernel by then: the recording has the data that arrived.
pub fn unless_cut_off<T>(result: io::Result<T>, clock: &Clock, end_ns: u64) -> Result<()> {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut};
    match result {
        Err(error)
            if matches!(error.kind(), BrokenPipe | ConnectionReset | TimedOut)
                && clock.now_ns() >= end_ns =>
        {
            Ok(())
        }
        other => Ok(other.map(|_| ())?),
    }
}

/// Disables Nagle's algorithm, as programs do that wait for replies to small messages.
pub fn send_at_once(endpoint: &Endpoint) -> io::Result<()> {
    Ok(set_tcp_nodelay(endpoint, true)?)
}

#[cfg(test)]
mod tests {
    use super::first_window;

    #[test]
    fn the_first_window_is_smaller_but_has_the_same_scale() {
        assert_eq!(first_window(18_750), 15_830);
        assert_eq!(first_window(63_712), 60_792);
        assert_eq!(first_window(2_000), 1_000);
        assert_eq!(first_window(66_000), 65_536);
        assert_eq!(first_window(750_000), 747_080);
        assert_eq!(first_window(0), 0);
    }
}
