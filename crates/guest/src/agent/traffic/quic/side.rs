// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One end of a QUIC connection in the event loop: handles datagrams, timers and the
//! application, sends datagrams, and waits.

use super::application::Application;
use super::congestion::Sender;
use super::setup::Setup;
use crate::agent::clock::Alarm;
use crate::agent::traffic::endpoint::Endpoint;
use crate::agent::traffic::flow::Flow;
use crate::agent::traffic::options;
use anyhow::{Context, Result, anyhow};
use bytes::{Bytes, BytesMut};
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, EcnCodepoint,
    Event, VarInt,
};
use rustix::io::Errno;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::task::yield_now;

/// The number of datagrams received or sent before other tasks run.
const BATCH: usize = 64;

/// The server name that the connecting end requests. It is not checked.
const NAME: &str = "weirgate.test";

/// One end of a connection.
pub struct Side {
    flow: Flow,
    socket: Rc<Endpoint>,
    peer: SocketAddr,
    endpoint: quinn_proto::Endpoint,
    open: Option<(ConnectionHandle, Rc<Sender>)>,
    in_flight: Arc<AtomicU64>,
    application: Application,
    /// Whether the handshake is complete.
    connected: bool,
    /// Whether it closed the connection itself.
    closed: bool,
    alarm: Alarm,
    /// The same moment on quinn-proto's clock and the run's clock.
    zero: (Instant, u64),
    ecn: bool,
    /// The octet (code point and ECN field) that the socket currently sends.
    octet: u8,
    taken: Vec<u8>,
    sent: Vec<u8>,
}

impl Side {
    /// Returns the connecting end, with a socket connected to its peer.
    pub fn connecting(
        flow: &Flow,
        setup: &Setup,
        (socket, peer): (Rc<Endpoint>, SocketAddr),
        application: Application,
    ) -> Result<Self> {
        let endpoint =
            quinn_proto::Endpoint::new(Arc::clone(&setup.endpoints[0]), None, true, None);
        let in_flight = Arc::clone(&setup.in_flight[0]);
        let parts = (endpoint, in_flight, setup.ecn);
        let mut side = Self::new(flow, (socket, peer), parts, application)?;
        side.connect(setup.client.clone())?;
        Ok(side)
    }

    /// Returns the accepting end, which accepts a connection of its socket's peer.
    pub fn accepting(
        flow: &Flow,
        setup: &Setup,
        ends: (Rc<Endpoint>, SocketAddr),
        application: Application,
    ) -> Result<Self> {
        let server = Some(Arc::clone(&setup.server));
        let endpoint =
            quinn_proto::Endpoint::new(Arc::clone(&setup.endpoints[1]), server, true, None);
        let in_flight = Arc::clone(&setup.in_flight[1]);
        Self::new(flow, ends, (endpoint, in_flight, setup.ecn), application)
    }

    fn new(
        flow: &Flow,
        (socket, peer): (Rc<Endpoint>, SocketAddr),
        (endpoint, in_flight, ecn): (quinn_proto::Endpoint, Arc<AtomicU64>, bool),
        application: Application,
    ) -> Result<Self> {
        options::tell_octets_and_do_not_fragment(&*socket, flow.entry.ipv6)?;
        let clock = &flow.session.clock;
        Ok(Self {
            socket,
            peer,
            endpoint,
            open: None,
            in_flight,
            application,
            connected: false,
            closed: false,
            alarm: clock.alarm()?,
            zero: (Instant::now(), clock.now_ns()),
            ecn,
            octet: flow.entry.dscp.value() << 2,
            taken: vec![0; usize::from(u16::MAX)],
            sent: Vec::new(),
            flow: flow.clone(),
        })
    }

    fn connect(&mut self, config: ClientConfig) -> Result<()> {
        let now = self.now();
        let (handle, connection) = self.endpoint.connect(now, config, self.peer, NAME)?;
        self.take(handle, connection);
        Ok(())
    }

    fn take(&mut self, handle: ConnectionHandle, connection: Connection) {
        let sender = Sender::new(connection, Arc::clone(&self.in_flight));
        self.open = Some((handle, Rc::new(sender)));
    }

    fn now(&self) -> Instant {
        let (zero, zero_ns) = self.zero;
        zero + Duration::from_nanos(self.flow.session.clock.now_ns().saturating_sub(zero_ns))
    }

    fn nanoseconds(&self, at: Instant) -> u64 {
        let (zero, zero_ns) = self.zero;
        let since = at.saturating_duration_since(zero).as_nanos();
        zero_ns.saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }

    /// Returns the bytes to send, if it is the sender and was never connected.
    pub fn unconnected(&self) -> Option<u64> {
        self.application.amount().filter(|_| !self.connected)
    }

    /// Runs until the connection has ended, or until `end_ns` if it is not established.
    pub async fn run(&mut self, end_ns: u64) -> Result<()> {
        loop {
            let is_late = self.flow.session.clock.now_ns() >= end_ns;
            if is_late && !self.connected {
                return Ok(());
            }
            self.handle_time();
            self.serve(end_ns)?;
            if self.is_over() {
                return Ok(());
            }
            if self.send()? {
                // Let the line and the other end run.
                yield_now().await;
            } else {
                self.wait(end_ns).await?;
            }
            self.receive()?;
        }
    }

    fn is_over(&self) -> bool {
        let drained = |sender: &Rc<Sender>| sender.connection.borrow().is_drained();
        matches!(&self.open, Some((_, sender)) if drained(sender))
    }

    fn handle_time(&mut self) {
        let now = self.now();
        if let Some((_, sender)) = &self.open {
            let mut connection = sender.connection.borrow_mut();
            if connection.poll_timeout().is_some_and(|at| at <= now) {
                connection.handle_timeout(now);
            }
        }
    }

    /// Handles events of the application and the endpoint. Closes the connection when there is
    /// nothing left to send.
    fn serve(&mut self, end_ns: u64) -> Result<()> {
        let now = self.now();
        let Some((handle, sender)) = &self.open else {
            return Ok(());
        };
        let clock = &self.flow.session.clock;
        let mut connection = sender.connection.borrow_mut();
        while let Some(event) = connection.poll() {
            match &event {
                Event::Connected => {
                    self.connected = true;
                    if self.application.amount().is_some() {
                        self.flow.shared.senders.add_quic(self.flow.index, sender);
                    }
                }
                Event::ConnectionLost { reason } if !is_end(reason) => {
                    return Err(anyhow!("the QUIC connection was lost: {reason}"));
                }
                _ => {}
            }
            self.application.on(&event, &mut connection, clock)?;
        }
        let sends = self.application.amount().is_some();
        let ends = self.application.is_done() || clock.now_ns() >= end_ns;
        if sends && ends && !self.closed {
            connection.close(now, VarInt::from_u32(0), Bytes::new());
            self.closed = true;
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        Ok(())
    }

    /// Sends due packets. Returns true if there may be more.
    fn send(&mut self) -> Result<bool> {
        let Some(sender) = self.open.as_ref().map(|(_, sender)| Rc::clone(sender)) else {
            return Ok(false);
        };
        for _ in 0..BATCH {
            self.sent.clear();
            let now = self.now();
            let transmit = sender
                .connection
                .borrow_mut()
                .poll_transmit(now, 1, &mut self.sent);
            let Some(transmit) = transmit else {
                return Ok(false);
            };
            self.put(transmit.size, transmit.ecn)?;
        }
        Ok(true)
    }

    /// Sends the first `size` bytes of the prepared buffer.
    fn put(&mut self, size: usize, ecn: Option<EcnCodepoint>) -> Result<()> {
        let field = ecn.filter(|_| self.ecn).map_or(0, |ecn| ecn as u8);
        let octet = self.flow.entry.dscp.value() << 2 | field;
        if octet != self.octet {
            options::set_octet(&*self.socket, self.flow.entry.ipv6, octet)?;
            self.octet = octet;
        }
        match self.socket.send_now(&self.sent[..size]) {
            // If the socket buffer is full, the datagram is lost, as in a full queue.
            Ok(_) => Ok(()),
            Err(error) if is_loss(&error) => Ok(()),
            Err(error) => Err(error).context("send a datagram"),
        }
    }

    /// Waits for a datagram and handles it, or for the next timer.
    async fn wait(&mut self, end_ns: u64) -> Result<()> {
        let now_ns = self.flow.session.clock.now_ns();
        let timeout = self
            .open
            .as_ref()
            .and_then(|(_, sender)| sender.connection.borrow_mut().poll_timeout());
        let timeout = timeout.map(|at| self.nanoseconds(at));
        // After the end, wait only for what a closed connection still needs.
        let end = Some(end_ns).filter(|end_ns| *end_ns > now_ns);
        self.alarm.set(timeout.into_iter().chain(end).min())?;
        let (socket, alarm, taken) = (&self.socket, &self.alarm, &mut self.taken);
        let came = poll_fn(|cx| {
            if let Poll::Ready(read) = socket.poll_receive(cx, taken) {
                return Poll::Ready(read.map(Some));
            }
            alarm.poll_ring(cx).map(|rung| rung.map(|()| None))
        });
        match came.await {
            Ok(Some((length, ecn))) => self.handle(length, ecn),
            Ok(None) => Ok(()),
            Err(error) if is_loss(&error) => Ok(()),
            Err(error) => Err(error).context("wait for a datagram"),
        }
    }

    /// Receives the datagrams that have arrived.
    fn receive(&mut self) -> Result<()> {
        for _ in 0..BATCH {
            match options::receive_with_ecn(&*self.socket, &mut self.taken) {
                Ok((length, ecn)) => self.handle(length, ecn)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if is_loss(&error) => {}
                Err(error) => return Err(error).context("receive a datagram"),
            }
        }
        Ok(())
    }

    /// Passes a received datagram to the endpoint.
    fn handle(&mut self, length: usize, ecn: u8) -> Result<()> {
        let now = self.now();
        let data = BytesMut::from(&self.taken[..length]);
        let ecn = EcnCodepoint::from_bits(ecn);
        self.sent.clear();
        let event = self
            .endpoint
            .handle(now, self.peer, None, ecn, data, &mut self.sent);
        match event {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, sender)) = &self.open {
                    sender.connection.borrow_mut().handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) if self.open.is_none() => {
                let accepted = self.endpoint.accept(incoming, now, &mut self.sent, None);
                let (handle, connection) = accepted.map_err(|error| error.cause)?;
                self.take(handle, connection);
            }
            // A second connection of the same peer does not occur in a run.
            Some(DatagramEvent::NewConnection(incoming)) => self.endpoint.ignore(incoming),
            Some(DatagramEvent::Response(transmit)) => self.put(transmit.size, transmit.ecn)?,
            None => {}
        }
        Ok(())
    }
}

/// Returns whether a transfer has ended without an error.
fn is_end(reason: &ConnectionError) -> bool {
    match reason {
        ConnectionError::LocallyClosed => true,
        ConnectionError::ApplicationClosed(close) => close.error_code.into_inner() == 0,
        _ => false,
    }
}

/// Returns whether an error means that the network did not deliver a datagram. QUIC treats this
/// as a loss (RFC 9000 section 14.2.1), also for a probe that is larger than the path's MTU.
fn is_loss(error: &io::Error) -> bool {
    let losses = [
        Errno::CONNREFUSED,
        Errno::HOSTUNREACH,
        Errno::NETUNREACH,
        Errno::MSGSIZE,
    ];
    losses
        .iter()
        .any(|loss| error.raw_os_error() == Some(loss.raw_os_error()))
}
