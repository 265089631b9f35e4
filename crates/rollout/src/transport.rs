// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the two ends of a measurement reach each other: by datagrams or a connection, from and to
//! the ports that a service requires.
//!
//! A connection carries messages of one size, which its first two bytes give. Each message is a
//! segment of its own unless segments are lost.

use crate::connections::{Connection, Connections, Until};
use crate::end::{Arrivals, HEAD, Sending, answered};
use anyhow::{Context as _, bail};
use rustix::net::{self, AddressFamily, SocketType, sockopt};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use weirgate_domain::Service;
use weirgate_policy::{Ports, Protocol};

/// How long a connection may take to name its flow.
const STRANGER: Duration = Duration::from_secs(5);

/// The ports of a service whose packets are selected by their contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServicePorts {
    /// Whether it uses TCP.
    pub tcp: bool,
    /// The acceptable ports, from..=to; empty means any.
    pub ports: Vec<(u16, u16)>,
}

/// The task of a customer's machine.
pub struct Wanted {
    /// The address at which it listens.
    pub address: IpAddr,
    /// The services that need a place of their own.
    pub services: Vec<usize>,
    /// Those places.
    pub places: Vec<ServicePorts>,
    /// The numbers in packets of each flow to it, which only the sender knows too.
    pub numbers: BTreeMap<u32, u64>,
}

impl Wanted {
    /// Creates a task that only listens.
    pub fn at(address: IpAddr) -> Self {
        Self {
            address,
            services: Vec::new(),
            places: Vec::new(),
            numbers: BTreeMap::new(),
        }
    }

    /// Adds the place of a service whose packets are selected by their contents, if it ends here.
    pub fn add(&mut self, number: usize, service: &Service) {
        let tcp = by_connection(service);
        if tcp || !service.select.ports.is_empty() {
            let ports = pairs(&service.select.ports);
            self.services.push(number);
            self.places.push(ServicePorts { tcp, ports });
        }
    }
}

/// Returns whether a service's packets can only belong to TCP connections.
pub fn by_connection(service: &Service) -> bool {
    service.select.protocols == [Protocol::TCP]
}

/// Converts ports to pairs from..=to.
pub fn pairs(ports: &[Ports]) -> Vec<(u16, u16)> {
    ports.iter().map(|one| (one.from, one.to)).collect()
}

/// Returns the ports to try in order: those of a list, or any.
fn each(ports: &[(u16, u16)]) -> Box<dyn Iterator<Item = u16> + '_> {
    if ports.is_empty() {
        return Box::new(std::iter::once(0));
    }
    Box::new(ports.iter().flat_map(|(from, to)| *from..=*to))
}

/// The sockets that listen at the places of services, each opened once.
#[derive(Default)]
pub struct Listening {
    open: Vec<(bool, u16)>,
}

impl Listening {
    /// Listens at a place. Returns the port; `None` if all are taken.
    pub fn at(&mut self, address: IpAddr, place: &ServicePorts, to: &Arrivals) -> Option<u16> {
        each(&place.ports).find_map(|port| {
            if port != 0 && self.open.contains(&(place.tcp, port)) {
                return Some(port);
            }
            let at = SocketAddr::new(address, port);
            let bound = if place.tcp {
                TcpListener::bind(at).and_then(|socket| {
                    let own = socket.local_addr()?.port();
                    accept(socket, to.clone())?;
                    Ok(own)
                })
            } else {
                UdpSocket::bind(at).and_then(|socket| {
                    let own = socket.local_addr()?.port();
                    receive(socket, to.clone())?;
                    Ok(own)
                })
            };
            let own = bound.ok()?;
            self.open.push((place.tcp, own));
            Some(own)
        })
    }
}

/// Answers echoes and counts the rest, on a thread that ends with the process.
fn receive(socket: UdpSocket, to: Arrivals) -> io::Result<()> {
    sockopt::set_socket_recv_buffer_size(&socket, 4 << 20)?;
    let work = move || crate::end::receive(&socket, &to);
    thread::Builder::new().spawn(work).map(drop)
}

/// Accepts connections, each on a thread of its own.
fn accept(socket: TcpListener, to: Arrivals) -> io::Result<()> {
    let work = move || {
        let connections = Arc::new(Connections::default());
        loop {
            match socket.accept() {
                Ok((stream, from)) => {
                    let own = connections.enter(stream, from.ip());
                    let (to, all, one) = (to.clone(), Arc::clone(&connections), Arc::clone(&own));
                    let started = thread::Builder::new().spawn(move || {
                        // Ignore errors: what arrived before a connection broke counts.
                        let _ = read(&one, &all, &to);
                        all.leave(&one);
                    });
                    if started.is_err() {
                        // The limit of threads (`TasksMax` of systemd) is reached.
                        connections.leave(&own);
                    }
                }
                // Out of descriptors: wait until connections end.
                Err(_) => thread::sleep(Duration::from_millis(100)),
            }
        }
    };
    thread::Builder::new().spawn(work).map(drop)
}

/// Reads the messages of a connection. A connection that does not begin with a message of an
/// expected flow is closed.
fn read(own: &Arc<Connection>, connections: &Connections, to: &Arrivals) -> io::Result<()> {
    let mut stream = &own.stream;
    stream.set_nodelay(true)?;
    let mut first = Until(stream, Instant::now() + STRANGER);
    let mut size = [0; 2];
    first.read_exact(&mut size)?;
    let size = usize::from(u16::from_be_bytes(size));
    if size < HEAD {
        return Ok(());
    }
    let mut message = vec![0; size];
    first.read_exact(&mut message)?;
    if !to.awaits(&message) || !connections.named(own) {
        return Ok(());
    }
    stream.set_read_timeout(None)?;
    loop {
        if answered(&mut message, to).is_some() {
            stream.write_all(&message)?;
        }
        stream.read_exact(&mut message)?;
    }
}

/// A flow's own socket, connected.
#[derive(Debug)]
pub enum FlowSocket {
    Datagrams(UdpSocket),
    Connection(TcpStream),
}

impl FlowSocket {
    /// Opens it from this address.
    pub fn open(own: IpAddr, flow: &Sending, patience: Duration) -> anyhow::Result<Self> {
        let mut tried = None;
        for port in each(&flow.from) {
            match Self::of(SocketAddr::new(own, port), flow, patience) {
                Ok(socket) => return Ok(socket),
                Err(error) => tried = Some(error),
            }
        }
        match tried {
            Some(error) => Err(error).context("open a socket for a service's packets"),
            None => bail!("a service's packets come from no port"),
        }
    }

    fn of(own: SocketAddr, flow: &Sending, patience: Duration) -> anyhow::Result<Self> {
        let socket = if flow.tcp {
            let family = match own {
                SocketAddr::V4(_) => AddressFamily::INET,
                SocketAddr::V6(_) => AddressFamily::INET6,
            };
            let socket = net::socket(family, SocketType::STREAM, None)?;
            // The port of an earlier measurement may be reused.
            sockopt::set_socket_reuseaddr(&socket, true)?;
            net::bind(&socket, &own)?;
            // The timeout of connecting and sending.
            sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(patience))?;
            sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(patience))?;
            Self::mark(&socket, flow)?;
            net::connect(&socket, &flow.to)?;
            let mut stream = TcpStream::from(socket);
            stream.set_nodelay(true)?;
            let size = u16::try_from(payload(flow)).unwrap_or(u16::MAX);
            stream.write_all(&size.to_be_bytes())?;
            Self::Connection(stream)
        } else {
            let socket = UdpSocket::bind(own)?;
            socket.connect(flow.to)?;
            socket.set_read_timeout(Some(patience))?;
            Self::mark(&socket, flow)?;
            Self::Datagrams(socket)
        };
        Ok(socket)
    }

    fn mark(socket: &impl std::os::fd::AsFd, flow: &Sending) -> anyhow::Result<()> {
        if flow.to.is_ipv6() {
            sockopt::set_ipv6_tclass(socket, u32::from(flow.dscp) << 2)?;
        } else {
            sockopt::set_ip_tos(socket, flow.dscp << 2)?;
        }
        Ok(())
    }

    /// Sends one packet. Returns how long a connection blocked because earlier data was not sent
    /// yet.
    pub fn send(&mut self, packet: &[u8]) -> io::Result<Duration> {
        match self {
            Self::Datagrams(socket) => socket.send(packet).map(|_| Duration::ZERO),
            Self::Connection(stream) => {
                let begin = Instant::now();
                stream.write_all(packet)?;
                Ok(begin.elapsed())
            }
        }
    }

    /// Receives an answer of the same size as what was sent.
    pub fn hear(&mut self, answer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Datagrams(socket) => socket.recv(answer),
            Self::Connection(stream) => stream.read_exact(answer).map(|()| answer.len()),
        }
    }
}

/// Returns the payload bytes of a flow's packet, after the headers of IP and of UDP, or of TCP with
/// timestamps.
pub fn payload(flow: &Sending) -> usize {
    let network = if flow.to.is_ipv6() { 40 } else { 20 };
    let transport = if flow.tcp { 32 } else { 8 };
    let headers = network + transport;
    usize::from(flow.packet).saturating_sub(headers).max(HEAD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn flow(to: u16, tcp: bool, from: Vec<(u16, u16)>) -> Sending {
        Sending {
            flow: 7 << 6,
            number: 99,
            to: SocketAddr::new(HERE, to),
            tcp,
            from,
            dscp: 0,
            packet: 200,
            rate: 1_000_000,
            burst: 400,
            milliseconds: 100,
        }
    }

    /// Both kinds on this machine: one port for two services, the next port if the first is taken,
    /// and echoes that return.
    #[test]
    fn places_are_found_and_answer() {
        let arrivals = Arrivals::of(BTreeMap::from([(7 << 6, 99)]));
        let mut listening = Listening::default();
        let taken = UdpSocket::bind((HERE, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let only = |tcp, ports| ServicePorts { tcp, ports };
        assert_eq!(
            listening.at(HERE, &only(false, vec![(port, port)]), &arrivals),
            None
        );
        let next = port.checked_add(1).unwrap();
        let range = only(false, vec![(port, port), (next, next.saturating_add(40))]);
        let found = listening.at(HERE, &range, &arrivals).unwrap();
        assert_eq!(listening.at(HERE, &range, &arrivals), Some(found));
        let stream = listening
            .at(HERE, &only(true, Vec::new()), &arrivals)
            .unwrap();
        for (tcp, to) in [(false, found), (true, stream)] {
            let flow = flow(to, tcp, Vec::new());
            let mut socket = FlowSocket::open(HERE, &flow, Duration::from_secs(5)).unwrap();
            let mut packet = vec![0; payload(&flow)];
            crate::end::echo(&mut packet, &flow);
            socket.send(&packet).unwrap();
            let mut answer = vec![0; packet.len()];
            assert_eq!(socket.hear(&mut answer).unwrap(), packet.len());
            assert_ne!(packet, answer);
        }
        // From a required port.
        let free = UdpSocket::bind((HERE, 0))
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let from = flow(found, false, vec![(port, port), (free, free)]);
        let FlowSocket::Datagrams(socket) =
            FlowSocket::open(HERE, &from, Duration::from_secs(5)).unwrap()
        else {
            panic!("datagrams");
        };
        assert_eq!(socket.local_addr().unwrap().port(), free);
    }
    /// A client that sends single bytes is closed in time, and one with a message that can be none
    /// at once.
    #[test]
    fn a_client_that_drips_loses_its_connection() {
        let arrivals = Arrivals::of(BTreeMap::from([(7 << 6, 99)]));
        let place = ServicePorts {
            tcp: true,
            ports: Vec::new(),
        };
        let port = Listening::default().at(HERE, &place, &arrivals).unwrap();
        let late = Duration::from_secs(3);
        for (size, longest) in [(u16::MAX, STRANGER), (9, Duration::ZERO)] {
            let mut client = TcpStream::connect((HERE, port)).unwrap();
            let begin = Instant::now();
            let timeout = Some(Duration::from_millis(200));
            client.set_read_timeout(timeout).unwrap();
            client.write_all(&size.to_be_bytes()).unwrap();
            let ended = |client: &mut TcpStream| match client.read(&mut [0]) {
                Ok(0) => true,
                Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
                Ok(_) => false,
            };
            while !ended(&mut client) {
                // The end is seen above.
                let _ = client.write_all(b"x");
                let lasted = begin.elapsed();
                assert!(lasted < longest + late, "{size}: {lasted:?}");
            }
        }
    }
}
