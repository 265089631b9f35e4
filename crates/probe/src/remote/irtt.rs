// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures round trips with an irtt server (github.com/heistp/irtt, protocol version 1),
//! without HMAC keys. The format is defined in packet.go and params.go there.

use crate::bound::{OutOfRange, within};
use crate::datagrams::Datagrams;
use crate::remote::echo::{Answer, Reflector, Sent};
use crate::remote::error::RemoteError;
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// The default port of irtt servers.
pub const IRTT_PORT: u16 = 2112;

const MAGIC: [u8; 3] = [0x14, 0xa7, 0x5b];
const OPEN: u8 = 1;
const REPLY: u8 = 2;
const CLOSE: u8 = 4;
/// The bytes of magic, flags and token.
const HEAD: usize = 12;

/// The requested duration and interval. Servers have their own limits, and answer with what they
/// grant.
const LENGTH: Duration = Duration::from_mins(5);
const INTERVAL: Duration = Duration::from_millis(10);
/// The longest acceptable interval of a server.
const LONGEST_INTERVAL_NS: i64 = 1_000_000_000;
const TRIES: u32 = 4;
const PATIENCE: Duration = Duration::from_secs(2);

/// An open session with an irtt server.
#[derive(Debug)]
pub struct Irtt {
    socket: Box<dyn Datagrams>,
    server: SocketAddr,
    token: [u8; 8],
    next: u32,
    interval: Duration,
    /// When the last packet was sent, and when each outstanding one was.
    last: Option<Instant>,
    sent: BTreeMap<u32, Instant>,
}

impl Irtt {
    /// Opens a session.
    pub fn open(server: SocketAddr) -> Result<Self, RemoteError> {
        let any: SocketAddr = match server {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(server)?;
        Self::over(Box::new(socket), server)
    }

    /// Opens a session over an existing path.
    pub fn over(socket: Box<dyn Datagrams>, server: SocketAddr) -> Result<Self, RemoteError> {
        let mut request = MAGIC.to_vec();
        request.push(OPEN);
        for (number, value) in [
            (1, 1),
            (2, LENGTH.as_nanos() as i64),
            (3, INTERVAL.as_nanos() as i64),
        ] {
            varint(&mut request, number);
            // Signed numbers are zigzag-encoded: 0, -1, 1, -2.
            varint(&mut request, ((value << 1) ^ (value >> 63)) as u64);
        }
        let mut answer = [0; 2048];
        for _ in 0..TRIES {
            socket.send(&request)?;
            let length = match socket.hear(&mut answer, PATIENCE) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => break,
                Err(error) if waited(&error) => continue,
                Err(error) => return Err(error.into()),
            };
            let Some((flags, token, rest)) = head(&answer[..length]) else {
                continue;
            };
            if flags & (OPEN | REPLY) != OPEN | REPLY {
                continue;
            }
            if flags & CLOSE != 0 || token == [0; 8] {
                return Err(RemoteError::Refused(format!("the irtt server {server}")));
            }
            let named = RemoteError::out_of_range(format!("the irtt server {server}"));
            return Ok(Self {
                socket,
                server,
                token,
                next: 0,
                interval: granted(rest).map_err(named)?.unwrap_or(INTERVAL),
                last: None,
                sent: BTreeMap::new(),
            });
        }
        Err(RemoteError::Silent(format!("the irtt server {server}")))
    }

    fn packet(&self, flags: u8) -> Vec<u8> {
        let mut packet = MAGIC.to_vec();
        packet.push(flags);
        packet.extend(self.token);
        packet
    }
}

impl Drop for Irtt {
    fn drop(&mut self) {
        // Ignore errors: the server drops the session after a while anyway.
        let _ = self.socket.send(&self.packet(CLOSE));
    }
}

impl Reflector for Irtt {
    fn send(&mut self, _size: u32) -> Result<Sent, RemoteError> {
        // The server ends sessions that send faster than it granted.
        if let Some(last) = self.last {
            self.socket
                .pause(self.interval.saturating_sub(last.elapsed()));
        }
        let number = self.next;
        self.next = number.wrapping_add(1);
        let mut packet = self.packet(0);
        packet.extend(number.to_le_bytes());
        let begin = Instant::now();
        self.last = Some(begin);
        self.socket.send(&packet)?;
        self.sent.insert(number, begin);
        Ok(Sent::Number(number))
    }

    fn answer(&mut self, patience: Duration) -> Result<Answer, RemoteError> {
        let mut answer = [0; 2048];
        let length = match self.socket.hear(&mut answer, patience) {
            Ok(length) => length,
            Err(error) if waited(&error) => return Ok(Answer::Nothing),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                return Ok(Answer::Lost);
            }
            Err(error) => return Err(error.into()),
        };
        let came = Instant::now();
        let Some((flags, token, rest)) = head(&answer[..length]) else {
            return Ok(Answer::Nothing);
        };
        if token != self.token {
            return Ok(Answer::Nothing);
        }
        if flags & CLOSE != 0 {
            let server = format!("the irtt server {}", self.server);
            return Err(RemoteError::Refused(server));
        }
        let number = rest.first_chunk().map(|chunk| u32::from_le_bytes(*chunk));
        let number = number.filter(|_| flags & REPLY != 0);
        let sent = number.and_then(|number| Some((number, self.sent.remove(&number)?)));
        Ok(sent.map_or(Answer::Nothing, |(number, begin)| {
            Answer::Back(number, came.saturating_duration_since(begin))
        }))
    }

    fn interval(&self) -> Duration {
        self.interval
    }

    fn largest(&self) -> Option<u32> {
        None
    }

    fn small(&self) -> u32 {
        // IPv4, UDP, header and number.
        20 + 8 + HEAD as u32 + 4
    }
}

fn waited(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

fn head(packet: &[u8]) -> Option<(u8, [u8; 8], &[u8])> {
    let rest = packet.strip_prefix(&MAGIC)?;
    let (flags, rest) = rest.split_first()?;
    let (token, rest) = rest.split_first_chunk()?;
    Some((*flags, *token, rest))
}

/// Appends a number in groups of seven bits, the low ones first.
fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn taken(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Returns the interval among the parameters that a server grants; `None` if it is missing.
pub fn granted(mut rest: &[u8]) -> Result<Option<Duration>, OutOfRange> {
    while let (Some(number), Some(value)) = (taken(&mut rest), taken(&mut rest)) {
        match number {
            3 => {
                // Signed numbers are zigzag-encoded: 0, -1, 1, -2.
                let interval = (value >> 1).cast_signed() ^ -(value & 1).cast_signed();
                let interval = within("interval in ns", interval, 0..=LONGEST_INTERVAL_NS)?;
                return Ok(Some(Duration::from_nanos(interval.unsigned_abs())));
            }
            // A text that is not needed: skip its bytes.
            9 => {
                let after = usize::try_from(value)
                    .ok()
                    .and_then(|length| rest.get(length..));
                rest = after.unwrap_or_default();
            }
            _ => {}
        }
    }
    Ok(None)
}
