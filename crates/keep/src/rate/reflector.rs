// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends echo requests to a reflector, or timestamp requests if it answers them.
//!
//! A raw socket is used if that is permitted (icmp(7), `CAP_NET_RAW`): over IPv4, only a raw socket
//! can send timestamp requests (RFC 792). Otherwise the kernel's ping socket is used. By default no
//! group may open one (`net.ipv4.ping_group_range`, networking/ip-sysctl.rst), and this holds for
//! IPv6 too. Both receive only answers of this reflector.

use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};
use tokio::io::unix::AsyncFd;
use weirgate_kernel::{bind_to_device, receive_only, watch};
use weirgate_state::DeviceName;

const ECHO: u8 = 8;
const ECHO_REPLY: u8 = 0;
const TIMES: u8 = 13;
const TIMES_REPLY: u8 = 14;
const ECHO_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;
/// Data bytes of an echo request, which give an IPv4 packet of 64 bytes.
const DATA: usize = 36;
const DAY_MS: i64 = 86_400_000;
/// How many echo requests are answered without the timestamp requests beside them before the
/// reflector counts as not answering the latter.
const TRIES: u8 = 5;
/// After more unanswered timestamp requests than this, echo requests are sent beside them again.
const UNANSWERED: u8 = 5;

/// Whether a reflector answers timestamp requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tells {
    /// Not known; the number of answered echo requests without an answer of this kind.
    Unknown(u8),
    /// It answers; the number of unanswered requests since the last answer.
    Yes(u8),
    No,
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The low half of the number of the request.
    pub(crate) id: u16,
    /// The difference of clocks, in microseconds: the reflector's less ours on the way there, ours
    /// less the reflector's on the way back.
    pub(crate) one_way_us: Option<(i64, i64)>,
}

/// One reflector with its socket.
#[derive(Debug)]
pub(crate) struct Asked {
    socket: AsyncFd<OwnedFd>,
    raw: bool,
    v6: bool,
    own: u16,
    tells: Tells,
}

impl Asked {
    /// Opens a socket in the calling thread's namespace. `own` is the identifier that distinguishes
    /// its answers from those to other sockets. A socket that is bound to a device sends echo
    /// requests only.
    pub(crate) fn open(
        address: IpAddr,
        dscp: u8,
        own: u16,
        device: Option<&DeviceName>,
    ) -> io::Result<Self> {
        let v6 = address.is_ipv6();
        let (family, protocol) = if v6 {
            (AddressFamily::INET6, net::ipproto::ICMPV6)
        } else {
            (AddressFamily::INET, net::ipproto::ICMP)
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let open = |kind| net::socket_with(family, kind, flags, Some(protocol));
        let raw = open(SocketType::RAW).ok();
        let is_raw = raw.is_some();
        let socket = match raw {
            Some(socket) => socket,
            None => open(SocketType::DGRAM)?,
        };
        if v6 {
            net::sockopt::set_ipv6_tclass(&socket, u32::from(dscp) << 2)?;
            if is_raw {
                // The kernel's own messages, such as those of neighbour discovery, are as frequent.
                receive_only(&socket, ECHO_REPLY_V6)?;
            }
        } else {
            net::sockopt::set_ip_tos(&socket, dscp << 2)?;
        }
        if let Some(device) = device {
            bind_to_device(&socket, device)?;
        }
        net::connect(&socket, &SocketAddr::new(address, 0))?;
        Ok(Self {
            socket: watch(socket)?,
            raw: is_raw,
            v6,
            own,
            tells: if is_raw && !v6 && device.is_none() {
                Tells::Unknown(0)
            } else {
                Tells::No
            },
        })
    }

    /// Sends a request. An error says why it could not be sent, for example without a route.
    pub(crate) fn ask(&mut self, id: u16) -> io::Result<()> {
        if let Tells::Yes(unanswered) = &mut self.tells {
            *unanswered += 1;
            if *unanswered > UNANSWERED {
                self.tells = Tells::Unknown(0);
            }
        }
        if matches!(self.tells, Tells::Yes(_)) {
            return self.send_times(id);
        }
        let kind = if self.v6 { ECHO_V6 } else { ECHO };
        let mut echo = self.head(kind, id);
        echo.resize(8 + DATA, 0x77);
        let sent = self.send(echo);
        if matches!(self.tells, Tells::Unknown(_)) {
            // The echo request counts, whatever becomes of this one.
            let _ = self.send_times(id);
        }
        sent
    }

    fn head(&self, kind: u8, id: u16) -> Vec<u8> {
        let mut head = vec![kind, 0, 0, 0];
        head.extend(self.own.to_be_bytes());
        head.extend(id.to_be_bytes());
        head
    }

    fn send_times(&self, id: u16) -> io::Result<()> {
        let mut ask = self.head(TIMES, id);
        ask.extend((now_us() / 1_000).rem_euclid(DAY_MS).to_be_bytes()[4..].iter());
        ask.extend([0; 8]);
        self.send(ask)
    }

    fn send(&self, mut message: Vec<u8>) -> io::Result<()> {
        // The kernel fills in the checksum of ICMPv6, which includes the addresses (RFC 4443).
        if self.raw && !self.v6 {
            let sum = checksum(&message);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        net::send(self.socket.get_ref(), &message, SendFlags::DONTWAIT)?;
        Ok(())
    }

    /// Returns the next answer when there is one.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Answer>> {
        let mut bytes = [0; 256];
        loop {
            let mut ready = ready!(self.socket.poll_read_ready(cx))?;
            let read = ready.try_io(|socket| {
                Ok(net::recv(socket.get_ref(), &mut bytes[..], RecvFlags::DONTWAIT)?.0)
            });
            // An error reports an ICMP error of a host on the path, and not an answer.
            let Ok(Ok(length)) = read else { continue };
            if let Some(answer) = self.read(&bytes[..length.min(bytes.len())], now_us()) {
                return Poll::Ready(Ok(answer));
            }
        }
    }

    fn read(&mut self, bytes: &[u8], now_us: i64) -> Option<Answer> {
        let message = if self.raw && !self.v6 {
            // A raw socket of IPv4 includes the IP header; its first byte has the header length.
            bytes.get(usize::from(bytes.first()? & 0xf) * 4..)?
        } else {
            bytes
        };
        let half = |at: usize| {
            Some(u16::from_be_bytes([
                *message.get(at)?,
                *message.get(at + 1)?,
            ]))
        };
        let (kind, own, id) = (*message.first()?, half(4)?, half(6)?);
        // The kernel chooses the identifiers of ping sockets.
        if self.raw && own != self.own {
            return None;
        }
        if kind == TIMES_REPLY && self.raw && !self.v6 {
            let first = !matches!(self.tells, Tells::Yes(_));
            self.tells = Tells::Yes(0);
            // The first timestamp request was sent along with an echo request, whose answer counts.
            return (!first).then(|| Answer {
                id,
                one_way_us: times(message, now_us),
            });
        }
        let expected = if self.v6 { ECHO_REPLY_V6 } else { ECHO_REPLY };
        if kind != expected {
            return None;
        }
        // An echo that comes back shows that the path works, so a missing timestamp counts.
        if let Tells::Unknown(echoes) = &mut self.tells {
            *echoes += 1;
            if *echoes > TRIES {
                self.tells = Tells::No;
            }
        }
        Some(Answer {
            id,
            one_way_us: None,
        })
    }
}

/// Returns the one-way differences from the three timestamps of an answer. Returns `None` if they
/// are not milliseconds of the day (RFC 792: the high bit).
fn times(message: &[u8], now_us: i64) -> Option<(i64, i64)> {
    let word = |at: usize| {
        let bytes: [u8; 4] = message.get(at..at + 4)?.try_into().ok()?;
        let time = i64::from(u32::from_be_bytes(bytes));
        (time < DAY_MS).then_some(time)
    };
    let (sent, came, left) = (word(8)?, word(12)?, word(16)?);
    let now = (now_us / 1_000).rem_euclid(DAY_MS);
    // Differences are taken within half a day, so that midnight does not matter.
    let apart = |ms: i64| ((ms + DAY_MS / 2).rem_euclid(DAY_MS) - DAY_MS / 2) * 1_000;
    Some((apart(came - sent), apart(now - left)))
}

fn now_us() -> i64 {
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
}

/// Returns the Internet checksum (RFC 1071).
fn checksum(message: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in message.chunks(2) {
        let low = pair.get(1).copied().unwrap_or(0);
        sum += u32::from(u16::from_be_bytes([pair[0], low]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_across_midnight() {
        let message = |sent: u32, came: u32, left: u32| {
            let mut bytes = vec![TIMES_REPLY, 0, 0, 0, 0, 1, 0, 2];
            for time in [sent, came, left] {
                bytes.extend(time.to_be_bytes());
            }
            bytes
        };
        let day = DAY_MS as u32;
        let now = 3 * DAY_MS * 1_000 + 20_000;
        assert_eq!(times(&message(day - 5, 5, 6), now), Some((10_000, 14_000)));
        assert_eq!(
            times(&message(0, day - 5, day - 5), now),
            Some((-5_000, 25_000))
        );
        assert_eq!(times(&message(0, 1 << 31, 0), now), None);
        assert_eq!(times(&message(0, 0, 0)[..19], now), None);
    }

    #[test]
    fn a_message_with_its_checksum_sums_to_nothing() {
        let mut message = vec![8, 0, 0, 0, 0x12, 0x34, 0, 1, 0x77];
        let sum = checksum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(checksum(&message), 0);
    }
}
