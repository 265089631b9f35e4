// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a connection of a scripted sequence is for: one line of text, which the
//! client says first.

use rustix::net::sockopt;
use std::fmt;
use std::net::TcpStream;

/// The longest line.
pub(crate) const LINE: u64 = 200;

/// What each line begins with.
const NAME: &str = "weirgate-load 1";

/// The largest request, response or transfer that is asked for by its size.
const LARGEST: u64 = 1 << 40;

/// How a connection's packets are to be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manner {
    /// The code point, 0 to 63.
    pub dscp: u8,
    /// The congestion control of who sends; the system's own where none is said.
    pub congestion: Option<String>,
    /// Bytes of the receiver's buffer, which bounds its window; the system's own
    /// where none is said.
    pub window: Option<u32>,
}

/// What a connection is for. The manner is that of both ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// The serving end sends so many bytes, or until it is ended.
    Send {
        /// How many.
        bytes: Option<u64>,
        /// How.
        manner: Manner,
    },
    /// It takes what comes, and says at the end how much that was.
    Take {
        /// How.
        manner: Manner,
    },
    /// It answers each request of so many bytes with a response.
    Answer {
        /// Bytes of a request.
        request: u64,
        /// Bytes of a response.
        response: u64,
        /// How.
        manner: Manner,
    },
}

impl Wanted {
    fn manner(&self) -> &Manner {
        match self {
            Self::Send { manner, .. } | Self::Take { manner } | Self::Answer { manner, .. } => {
                manner
            }
        }
    }

    /// Reads a line.
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
        let manner = |dscp: &str, congestion: &str, window: &str| -> Result<Manner, String> {
            let dscp = number(dscp)?;
            let name = |name: &str| {
                let fine = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                (name.len() <= 15 && name.chars().all(fine)).then(|| name.to_owned())
            };
            Ok(Manner {
                dscp: u8::try_from(dscp)
                    .ok()
                    .filter(|dscp| *dscp < 64)
                    .ok_or_else(wrong)?,
                congestion: match congestion {
                    "-" => None,
                    other => Some(name(other).ok_or_else(wrong)?),
                },
                window: match optional(window)? {
                    None => None,
                    Some(window) => Some(u32::try_from(window).map_err(|_| wrong())?),
                },
            })
        };
        match *words {
            ["send", bytes, dscp, congestion, window] => Ok(Self::Send {
                bytes: optional(bytes)?,
                manner: manner(dscp, congestion, window)?,
            }),
            ["take", dscp, congestion, window] => Ok(Self::Take {
                manner: manner(dscp, congestion, window)?,
            }),
            ["answer", request, response, dscp, congestion, window] => Ok(Self::Answer {
                // A request of nothing would be answered without end.
                request: number(request)?.max(1),
                response: number(response)?,
                manner: manner(dscp, congestion, window)?,
            }),
            _ => Err(wrong()),
        }
    }

    /// Sets a socket up for one end: `client` says which.
    pub(crate) fn prepare(&self, stream: &TcpStream, client: bool) -> Result<(), String> {
        let manner = self.manner();
        let said = |what: &'static str| move |error: rustix::io::Errno| format!("{what}: {error}");
        let sends = match self {
            Self::Send { .. } => !client,
            Self::Take { .. } => client,
            Self::Answer { .. } => true,
        };
        let address = stream.peer_addr().map_err(|error| error.to_string())?;
        let code = manner.dscp << 2;
        if code > 0 {
            if address.is_ipv4() {
                sockopt::set_ip_tos(stream, code).map_err(said("its code point"))?;
            } else {
                sockopt::set_ipv6_tclass(stream, u32::from(code))
                    .map_err(said("its code point"))?;
            }
        }
        if let Some(name) = manner.congestion.as_ref().filter(|_| sends) {
            sockopt::set_tcp_congestion(stream, name).map_err(|error| {
                format!("the congestion control `{name}` cannot be had there: {error}")
            })?;
        }
        let receives = !sends || matches!(self, Self::Answer { .. });
        if let Some(window) = manner.window.filter(|_| receives) {
            sockopt::set_socket_recv_buffer_size(stream, window as usize)
                .map_err(said("its receive buffer"))?;
        }
        Ok(())
    }
}

impl fmt::Display for Wanted {
    /// The line, with its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or = |value: Option<String>| value.unwrap_or_else(|| String::from("-"));
        write!(f, "{NAME} ")?;
        match self {
            Self::Send { bytes, .. } => write!(f, "send {}", or(bytes.map(|it| it.to_string()))),
            Self::Take { .. } => f.write_str("take"),
            Self::Answer {
                request, response, ..
            } => write!(f, "answer {request} {response}"),
        }?;
        let manner = self.manner();
        let window = manner.window.map(|window| window.to_string());
        writeln!(
            f,
            " {} {} {}",
            manner.dscp,
            or(manner.congestion.clone()),
            or(window)
        )
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
        };
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
        ] {
            assert_eq!(Wanted::read(&wanted.to_string()), Ok(wanted));
        }
        for wrong in [
            "",
            "GET / HTTP/1.1\n",
            "weirgate-load 1 send 5 0 - -",
            "weirgate-load 1 send 5 64 - -\n",
            "weirgate-load 1 send -5 0 - -\n",
            "weirgate-load 1 take 0 a/../b -\n",
            "weirgate-load 1 take 0 - 99999999999\n",
            "weirgate-load 2 take 0 - -\n",
        ] {
            Wanted::read(wrong).unwrap_err();
        }
    }

    proptest! {
        #[test]
        fn any_line_does_no_harm(line in "(weirgate-load 1 )?\\PC{0,60}\n?") {
            let _ = Wanted::read(&line);
        }
    }
}
