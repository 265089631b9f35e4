// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures with hosts that answer ICMP echo requests. It uses the kernel's ping sockets
//! (icmp(7)), which need no privilege if `net.ipv4.ping_group_range` allows them. Round trips
//! are based on the kernel's timestamps, so that they are correct even if this process is
//! scheduled late.

use crate::remote::error::RemoteError;
use crate::sequence::wanted::mark;
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{self, AddressFamily, SendFlags, SocketFlags, SocketType};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use weirgate_kernel::{enable_timestamps, receive_timestamped, sent_timestamped, took};

/// The result of an echo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Echo {
    /// It came back after this time.
    After(Duration),
    /// It did not come back in time.
    Lost,
    /// It exceeds the MTU of a link on the path.
    TooLong,
}

/// The result of sending a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It was sent with this number.
    Number(u32),
    /// It was dropped on this host.
    Lost,
    /// It exceeds the MTU of a link on the path.
    TooLong,
}

/// An answer that a [`Reflector`] received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The packet with this number came back after this time.
    Back(u32, Duration),
    /// A router or this host reports that a packet was lost.
    Lost,
    /// A router or this host reports that a packet exceeds the MTU of a link on the path.
    TooLong,
    /// No answer.
    Nothing,
}

/// A host that returns packets.
pub trait Reflector {
    /// Sends an IP packet of this size, which must not be fragmented on the path.
    fn send(&mut self, size: u32) -> Result<Sent, RemoteError>;

    /// Waits for the next answer to any packet.
    fn answer(&mut self, patience: Duration) -> Result<Answer, RemoteError>;

    /// Returns the MTU of the path's first link; `None` if only the smallest size can be sent.
    fn largest(&self) -> Option<u32>;

    /// Returns the size of a small packet.
    fn small(&self) -> u32;

    /// Returns the smallest interval between packets that the host allows.
    fn interval(&self) -> Duration {
        Duration::ZERO
    }

    /// Sends a packet as `send` does, and waits for its answer.
    fn echo(&mut self, size: u32, patience: Duration) -> Result<Echo, RemoteError> {
        let begin = Instant::now();
        let number = match self.send(size)? {
            Sent::Number(number) => number,
            Sent::Lost => return Ok(Echo::Lost),
            Sent::TooLong => return Ok(Echo::TooLong),
        };
        loop {
            let left = patience.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Ok(Echo::Lost);
            }
            match self.answer(left)? {
                Answer::Back(back, took) if back == number => return Ok(Echo::After(took)),
                Answer::Back(..) | Answer::Nothing => {}
                Answer::Lost => return Ok(Echo::Lost),
                Answer::TooLong => return Ok(Echo::TooLong),
            }
        }
    }
}

/// The bytes of ICMP around an echo's data (RFC 792).
const HEADER: u32 = 8;

/// A host that answers ICMP echoes.
#[derive(Debug)]
pub struct Icmp {
    socket: OwnedFd,
    address: IpAddr,
    next: u16,
    /// Outstanding packets with their send times, by the clocks of this process and of the
    /// kernel.
    sent: BTreeMap<u16, (Instant, Option<u64>)>,
}

impl Icmp {
    /// Opens a socket to a host.
    pub fn open(address: IpAddr) -> Result<Self, RemoteError> {
        let (family, protocol) = match address {
            IpAddr::V4(_) => (AddressFamily::INET, net::ipproto::ICMP),
            IpAddr::V6(_) => (AddressFamily::INET6, net::ipproto::ICMPV6),
        };
        let flags = SocketFlags::CLOEXEC;
        let socket = net::socket_with(family, SocketType::DGRAM, flags, Some(protocol));
        let socket = socket.map_err(|error| match error {
            Errno::ACCESS | Errno::PERM => RemoteError::Forbidden,
            other => RemoteError::Socket(other.into()),
        })?;
        whole(&socket, address)?;
        enable_timestamps(&socket)?;
        net::connect(&socket, &SocketAddr::new(address, 0))?;
        Ok(Self {
            socket,
            address,
            next: 0,
            sent: BTreeMap::new(),
        })
    }

    /// Opens a socket to a host, and sets the code point of its packets.
    pub fn open_with(address: IpAddr, dscp: u8) -> Result<Self, RemoteError> {
        let icmp = Self::open(address)?;
        mark(&icmp.socket, address, dscp)?;
        Ok(icmp)
    }

    fn headers(&self) -> u32 {
        HEADER + if self.address.is_ipv4() { 20 } else { 40 }
    }
}

/// Prevents a socket's packets from being fragmented, regardless of the known path MTU.
pub(crate) fn whole(socket: &OwnedFd, address: IpAddr) -> Result<(), RemoteError> {
    if address.is_ipv4() {
        sockopt::set_ip_mtu_discover(socket, sockopt::Ipv4PathMtuDiscovery::PROBE)?;
    } else {
        sockopt::set_ipv6_mtu_discover(socket, sockopt::Ipv6PathMtuDiscovery::PROBE)?;
    }
    Ok(())
}

/// Converts an error that concerns a single packet: a report from a router or this host.
pub(crate) fn complaint(error: Errno) -> Option<Echo> {
    match error {
        Errno::MSGSIZE => Some(Echo::TooLong),
        Errno::AGAIN
        | Errno::HOSTUNREACH
        | Errno::NETUNREACH
        | Errno::CONNREFUSED
        | Errno::NOBUFS => Some(Echo::Lost),
        _ => None,
    }
}

impl Icmp {
    /// Sends an echo as an IP packet of this size, with a number.
    pub(crate) fn emit(&self, number: u16, size: u32) -> Result<(), Errno> {
        let kind = if self.address.is_ipv4() { 8 } else { 128 };
        let mut packet = vec![kind, 0, 0, 0, 0, 0];
        packet.extend(number.to_be_bytes());
        let length = size.saturating_sub(self.headers()) + HEADER;
        packet.resize(length as usize, 0x77);
        net::send(&self.socket, &packet, SendFlags::empty()).map(drop)
    }

    /// Waits this long for an answer. Returns its number and the kernel's timestamp, or `None`
    /// if none arrived.
    pub(crate) fn receive(&self, patience: Duration) -> Result<Option<(u16, Option<u64>)>, Errno> {
        let mut answer = [0; 8];
        sockopt::set_socket_timeout(&self.socket, Timeout::Recv, Some(patience))?;
        let stamped = receive_timestamped(&self.socket, &mut answer)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let own = stamped.length == answer.len() && [0, 129].contains(&answer[0]);
        let number = u16::from_be_bytes([answer[6], answer[7]]);
        Ok(own.then_some((number, stamped.at_ns)))
    }

    /// Returns when the kernel passed the last packet to its device's queue.
    fn noted(&self) -> Option<u64> {
        let mut last = None;
        while let Ok(stamped) = sent_timestamped(&self.socket, &mut [0; 8]) {
            last = stamped.at_ns;
        }
        last
    }
}

impl Reflector for Icmp {
    fn send(&mut self, size: u32) -> Result<Sent, RemoteError> {
        let number = self.next;
        self.next = number.wrapping_add(1);
        // Discard the timestamps of earlier packets.
        self.noted();
        let begin = Instant::now();
        if let Err(error) = self.emit(number, size) {
            return match complaint(error) {
                Some(Echo::TooLong) => Ok(Sent::TooLong),
                Some(_) => Ok(Sent::Lost),
                None => Err(RemoteError::Socket(error.into())),
            };
        }
        self.sent.insert(number, (begin, self.noted()));
        Ok(Sent::Number(number.into()))
    }

    fn answer(&mut self, patience: Duration) -> Result<Answer, RemoteError> {
        match self.receive(patience) {
            Ok(Some((number, at_ns))) => {
                // A duplicate, or an answer to another process.
                let Some((begin, sent_ns)) = self.sent.remove(&number) else {
                    return Ok(Answer::Nothing);
                };
                let took = took(sent_ns, at_ns, begin.elapsed());
                Ok(Answer::Back(number.into(), took))
            }
            Ok(None) | Err(Errno::AGAIN | Errno::INTR) => Ok(Answer::Nothing),
            Err(error) => match complaint(error) {
                Some(Echo::TooLong) => Ok(Answer::TooLong),
                Some(_) => Ok(Answer::Lost),
                None => Err(RemoteError::Socket(error.into())),
            },
        }
    }

    fn largest(&self) -> Option<u32> {
        let found = if self.address.is_ipv4() {
            sockopt::ip_mtu(&self.socket)
        } else {
            sockopt::ipv6_mtu(&self.socket)
        };
        found.ok()
    }

    fn small(&self) -> u32 {
        64
    }
}
