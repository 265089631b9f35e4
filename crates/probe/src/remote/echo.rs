// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures with hosts that answer ICMP echo requests, through the kernel's ping sockets (icmp(7)),
//! which need no privilege where `net.ipv4.ping_group_range` allows them. Round trips use the
//! kernel's timestamps, so that they are right however late this process gets the processor.

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

/// What became of an echo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Echo {
    /// It came back after so long.
    After(Duration),
    /// It did not come back in time.
    Lost,
    /// It is longer than a link on the way takes.
    TooLong,
}

/// What became of a packet that was to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It has this number.
    Number(u32),
    /// It was dropped at this host.
    Lost,
    /// It is longer than a link on the way takes.
    TooLong,
}

/// What a [`Reflector`] heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The packet of this number came back, after so long.
    Back(u32, Duration),
    /// A router or this host says that a packet was lost.
    Lost,
    /// A router or this host says that a packet is longer than a link on the way takes.
    TooLong,
    /// Nothing.
    Nothing,
}

/// A host that returns packets.
pub trait Reflector {
    /// Sends an IP packet of so many bytes, which must not be cut up on the way.
    fn send(&mut self, size: u32) -> Result<Sent, RemoteError>;

    /// Waits for the next answer to any packet.
    fn answer(&mut self, patience: Duration) -> Result<Answer, RemoteError>;

    /// The size of the largest packet that the way's first link takes; `None`
    /// where sizes other than the smallest cannot be sent.
    fn largest(&self) -> Option<u32>;

    /// The size of a small packet.
    fn small(&self) -> u32;

    /// The least time between two packets that the host allows.
    fn interval(&self) -> Duration {
        Duration::ZERO
    }

    /// Sends a packet as `send` does, and waits for it.
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

/// Bytes of ICMP around an echo's data (RFC 792).
const HEADER: u32 = 8;

/// A host that answers ICMP echoes.
#[derive(Debug)]
pub struct Icmp {
    socket: OwnedFd,
    address: IpAddr,
    next: u16,
    /// Of packets that have not come back: when each was sent, by this process's clock and by
    /// the kernel's.
    sent: BTreeMap<u16, (Instant, Option<u64>)>,
}

impl Icmp {
    /// A host that is probed at an address.
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

    /// The same, with a code point on what is sent.
    pub fn open_with(address: IpAddr, dscp: u8) -> Result<Self, RemoteError> {
        let icmp = Self::open(address)?;
        mark(&icmp.socket, address, dscp)?;
        Ok(icmp)
    }

    fn headers(&self) -> u32 {
        HEADER + if self.address.is_ipv4() { 20 } else { 40 }
    }
}

/// Has a socket's packets never cut up, whatever is known of the path.
pub(crate) fn whole(socket: &OwnedFd, address: IpAddr) -> Result<(), RemoteError> {
    if address.is_ipv4() {
        sockopt::set_ip_mtu_discover(socket, sockopt::Ipv4PathMtuDiscovery::PROBE)?;
    } else {
        sockopt::set_ipv6_mtu_discover(socket, sockopt::Ipv6PathMtuDiscovery::PROBE)?;
    }
    Ok(())
}

/// Errors that are about one packet: a router's or the host's own complaint.
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
    /// Sends an echo of so many bytes as an IP packet, with a number.
    pub(crate) fn emit(&self, number: u16, size: u32) -> Result<(), Errno> {
        let kind = if self.address.is_ipv4() { 8 } else { 128 };
        let mut packet = vec![kind, 0, 0, 0, 0, 0];
        packet.extend(number.to_be_bytes());
        let length = size.saturating_sub(self.headers()) + HEADER;
        packet.resize(length as usize, 0x77);
        net::send(&self.socket, &packet, SendFlags::empty()).map(drop)
    }

    /// Waits so long for an answer; its number and when the kernel had it, or
    /// nothing where none came.
    pub(crate) fn receive(&self, patience: Duration) -> Result<Option<(u16, Option<u64>)>, Errno> {
        let mut answer = [0; 8];
        sockopt::set_socket_timeout(&self.socket, Timeout::Recv, Some(patience))?;
        let stamped = receive_timestamped(&self.socket, &mut answer)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let own = stamped.length == answer.len() && [0, 129].contains(&answer[0]);
        let number = u16::from_be_bytes([answer[6], answer[7]]);
        Ok(own.then_some((number, stamped.at_ns)))
    }

    /// When the kernel gave the last packet to its device's queue.
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
        // Of those before this one.
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
                // One that came before, or is none of these.
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
