// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The purpose of a connection of a scripted sequence: a line of text, which the client sends
//! first.

use crate::sequence::datagram::{LONGEST_PAYLOAD, STAMP};
use rustix::net::sockopt;
use std::fmt;
use std::net::{IpAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

/// The longest line in bytes.
pub(crate) const LINE: u64 = 200;

/// The beginning of each line: the protocol and its version.
const NAME: &str = "weirgate-load 2";

/// The largest request, response or transfer in bytes.
const LARGEST: u64 = 1 << 40;

/// The shortest interval between datagrams, as in experiments.
const SHORTEST_GAP: Duration = Duration::from_micros(10);

/// The properties of a connection's packets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manner {
    /// The code point, from 0 to 63.
    pub dscp: u8,
    /// The sender's congestion control; `None` for the system's default.
    pub congestion: Option<String>,
    /// The receiver's buffer in bytes, which limits its window; `None` for the system's default.
    pub window: Option<u32>,
    /// The sender's buffer in bytes; `None` for the system's default.
    pub send_buffer: Option<u32>,
}

/// Datagrams of one size, sent at equal intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// The interval between datagrams.
    pub interval: Duration,
    /// Bytes of UDP payload.
    pub payload: u16,
    /// The number of datagrams; `None` to send until the run ends.
    pub count: Option<u64>,
}

/// The treatment of datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchange {
    /// The server sends them.
    Down(Stream),
    /// The server counts those that arrive.
    Up,
    /// Both at the same time, like a conversation.
    Both(Stream),
    /// The server returns each one.
    Echo,
}

/// The purpose of a connection. Both ends apply the manner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// The server sends this many bytes, or until it is stopped.
    Send {
        /// The number of bytes.
        bytes: Option<u64>,
        /// The properties of its packets.
        manner: Manner,
    },
    /// The server receives data, and reports their number at the end.
    Take {
        /// The properties of its packets.
        manner: Manner,
    },
    /// The server answers each request of this size with a response.
    Answer {
        /// The size of a request in bytes.
        request: u64,
        /// The size of a response in bytes.
        response: u64,
        /// The properties of its packets.
        manner: Manner,
    },
    /// Datagrams on a separate port.
    Datagrams {
        /// Their treatment.
        exchange: Exchange,
        /// Their code point.
        dscp: u8,
    },
    /// A TCP port that never answers.
    Silence,
}

impl Wanted {
    /// Returns the properties of a TCP connection's packets; `None` if it carries only the line.
    fn manner(&self) -> Option<&Manner> {
        match self {
            Self::Send { manner, .. } | Self::Take { manner } | Self::Answer { manner, .. } => {
                Some(manner)
            }
            Self::Datagrams { .. } | Self::Silence => None,
        }
    }

    /// Parses a line.
    pub fn read(line: &str) -> Result<Self, String> {
        let wrong = || {
            let shown: String = line.trim().chars().take(60).collect();
            format!("`{}` is no request of this version", shown.escape_debug())
        };
        let rest = line.strip_suffix('\n').ok_or_else(wrong)?;
        let rest = rest.strip_prefix(NAME).ok_or_else(wrong)?;
        let words: Vec<&str> = rest.split(' ').skip(1).collect();
        let number = |word: &str| {
            let number: Option<u64> = word.parse().ok();
            number.filter(|number| *number <= LARGEST).ok_or_else(wrong)
        };
        let optional = |word: &str| (word != "-").then(|| number(word)).transpose();
        let buffer = |word: &str| -> Result<Option<u32>, String> {
            let bytes = optional(word)?.map(u32::try_from).transpose();
            bytes.map_err(|_| wrong())
        };
        let code = |dscp: &str| {
            let dscp = u8::try_from(number(dscp)?);
            dscp.ok().filter(|dscp| *dscp < 64).ok_or_else(wrong)
        };
        let manner = |words: [&str; 4]| -> Result<Manner, String> {
            let [dscp, congestion, window, send_buffer] = words;
            let name = |name: &str| {
                let fine = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                (name.len() <= 15 && name.chars().all(fine)).then(|| name.to_owned())
            };
            Ok(Manner {
                dscp: code(dscp)?,
                congestion: match congestion {
                    "-" => None,
                    other => Some(name(other).ok_or_else(wrong)?),
                },
                window: buffer(window)?,
                send_buffer: buffer(send_buffer)?,
            })
        };
        let stream = |interval: &str, payload: &str, count: &str| {
            let payload = u16::try_from(number(payload)?).map_err(|_| wrong())?;
            let interval = Duration::from_nanos(number(interval)?);
            let count = optional(count)?;
            let fine = interval >= SHORTEST_GAP && (STAMP..=LONGEST_PAYLOAD).contains(&payload);
            let stream = Stream {
                interval,
                payload,
                count,
            };
            fine.then_some(stream).ok_or_else(wrong)
        };
        let datagrams = |exchange, dscp: &str| -> Result<Self, String> {
            let dscp = code(dscp)?;
            Ok(Self::Datagrams { exchange, dscp })
        };
        match *words {
            ["send", bytes, a, b, c, d] => Ok(Self::Send {
                bytes: optional(bytes)?,
                manner: manner([a, b, c, d])?,
            }),
            ["take", a, b, c, d] => Ok(Self::Take {
                manner: manner([a, b, c, d])?,
            }),
            ["answer", request, response, a, b, c, d] => Ok(Self::Answer {
                // An empty request would be answered endlessly.
                request: number(request)?.max(1),
                response: number(response)?,
                manner: manner([a, b, c, d])?,
            }),
            ["datagrams", "down", interval, payload, count, dscp] => {
                datagrams(Exchange::Down(stream(interval, payload, count)?), dscp)
            }
            ["datagrams", "both", interval, payload, count, dscp] => {
                datagrams(Exchange::Both(stream(interval, payload, count)?), dscp)
            }
            ["datagrams", "up", dscp] => datagrams(Exchange::Up, dscp),
            ["datagrams", "echo", dscp] => datagrams(Exchange::Echo, dscp),
            ["silence"] => Ok(Self::Silence),
            _ => Err(wrong()),
        }
    }

    /// Configures a socket for one end; `client` tells which.
    pub(crate) fn prepare(&self, stream: &TcpStream, client: bool) -> Result<(), String> {
        let Some(manner) = self.manner() else {
            return Ok(());
        };
        let failed =
            |what: &'static str| move |error: rustix::io::Errno| format!("{what}: {error}");
        let sends = match self {
            Self::Send { .. } => !client,
            Self::Take { .. } => client,
            _ => true,
        };
        let address = stream.peer_addr().map_err(|error| error.to_string())?;
        mark(stream, address.ip(), manner.dscp).map_err(failed("its code point"))?;
        if let Some(name) = manner.congestion.as_ref().filter(|_| sends) {
            sockopt::set_tcp_congestion(stream, name).map_err(|error| {
                format!("the congestion control `{name}` cannot be had there: {error}")
            })?;
        }
        let receives = !sends || matches!(self, Self::Answer { .. });
        if let Some(window) = manner.window.filter(|_| receives) {
            sockopt::set_socket_recv_buffer_size(stream, window as usize)
                .map_err(failed("its receive buffer"))?;
        }
        if let Some(bytes) = manner.send_buffer.filter(|_| sends) {
            sockopt::set_socket_send_buffer_size(stream, bytes as usize)
                .map_err(failed("its send buffer"))?;
        }
        Ok(())
    }
}

impl fmt::Display for Wanted {
    /// Writes the line, including its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or = |value: Option<String>| value.unwrap_or_else(|| String::from("-"));
        write!(f, "{NAME} ")?;
        match self {
            Self::Send { bytes, .. } => write!(f, "send {}", or(bytes.map(|it| it.to_string()))),
            Self::Take { .. } => f.write_str("take"),
            Self::Answer {
                request, response, ..
            } => write!(f, "answer {request} {response}"),
            Self::Datagrams { exchange, dscp } => match exchange {
                Exchange::Down(stream) => write!(f, "datagrams down {stream} {dscp}"),
                Exchange::Both(stream) => write!(f, "datagrams both {stream} {dscp}"),
                Exchange::Up => write!(f, "datagrams up {dscp}"),
                Exchange::Echo => write!(f, "datagrams echo {dscp}"),
            },
            Self::Silence => f.write_str("silence"),
        }?;
        let Some(manner) = self.manner() else {
            return writeln!(f);
        };
        let bytes = |bytes: Option<u32>| or(bytes.map(|bytes| bytes.to_string()));
        writeln!(
            f,
            " {} {} {} {}",
            manner.dscp,
            or(manner.congestion.clone()),
            bytes(manner.window),
            bytes(manner.send_buffer)
        )
    }
}

impl fmt::Display for Stream {
    /// Writes the words of a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.interval.as_nanos(), self.payload)?;
        match self.count {
            Some(count) => write!(f, "{count}"),
            None => f.write_str("-"),
        }
    }
}

/// Sets the code point of a socket's packets. An IPv6 socket with a mapped address sends IPv4,
/// and needs the option of IPv4.
pub(crate) fn mark(socket: impl AsFd, to: IpAddr, dscp: u8) -> rustix::io::Result<()> {
    match (dscp, to.to_canonical()) {
        (0, _) => Ok(()),
        (_, IpAddr::V4(_)) => sockopt::set_ip_tos(socket, dscp << 2),
        (_, IpAddr::V6(_)) => sockopt::set_ipv6_tclass(socket, u32::from(dscp) << 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_are_read_as_they_are_written() {
        let manner = Manner {
            dscp: 46,
            congestion: Some(String::from("reno")),
            window: Some(63_712),
            send_buffer: Some(9000),
        };
        let stream = Stream {
            interval: Duration::from_millis(20),
            payload: 172,
            count: Some(500),
        };
        let endless = Stream {
            count: None,
            ..stream
        };
        let datagrams = |exchange| Wanted::Datagrams { exchange, dscp: 46 };
        for wanted in [
            Wanted::Send {
                bytes: None,
                manner: Manner::default(),
            },
            Wanted::Send {
                bytes: Some(7),
                manner: manner.clone(),
            },
            Wanted::Take {
                manner: manner.clone(),
            },
            Wanted::Answer {
                request: 300,
                response: 0,
                manner,
            },
            datagrams(Exchange::Down(stream)),
            datagrams(Exchange::Both(endless)),
            datagrams(Exchange::Up),
            datagrams(Exchange::Echo),
            Wanted::Silence,
        ] {
            assert_eq!(Wanted::read(&wanted.to_string()), Ok(wanted));
        }
        for wrong in [
            "",
            "GET / HTTP/1.1\n",
            "weirgate-load 2 send 5 0 - - -",
            "weirgate-load 2 send 5 64 - - -\n",
            "weirgate-load 2 send -5 0 - - -\n",
            "weirgate-load 2 take 0 a/../b - -\n",
            "weirgate-load 2 take 0 - 99999999999 -\n",
            "weirgate-load 2 take 0 - -\n",
            "weirgate-load 2 datagrams down 20000000 8 - 0\n",
            "weirgate-load 2 datagrams down 0 100 - 0\n",
            "weirgate-load 2 datagrams up\n",
            "weirgate-load 2 silence 1\n",
            "weirgate-load 1 take 0 - - -\n",
        ] {
            Wanted::read(wrong).unwrap_err();
        }
    }

    proptest! {
        #[test]
        fn any_line_does_no_harm(line in "(weirgate-load 2 )?\\PC{0,60}\n?") {
            let _ = Wanted::read(&line);
        }
    }
}
