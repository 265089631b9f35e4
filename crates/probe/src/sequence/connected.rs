// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The client's requests to a server for scripted sequences: a connection that it accepts, and a
//! port for datagrams.

use crate::patient::{Patient, Talk as _};
use crate::remote::error::RemoteError;
use crate::sequence::datagram::{DatagramReport, TURN};
use crate::sequence::wanted::{Exchange, Wanted, mark};
use crate::train::pace::passing;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use weirgate_units::PeerText;

/// The timeout for connecting.
const PATIENCE: Duration = Duration::from_secs(10);
/// The timeout for the final report, before which data may be in a modem's buffer.
pub(crate) const LAST_WORD: Duration = Duration::from_secs(30);
const BLOCK: usize = 65_536;
/// The longest line of a server in bytes.
const LINE: u64 = 400;

/// A connection that the server has accepted.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) stream: TcpStream,
    pub(crate) from: BufReader<Patient>,
}

impl Connected {
    pub(crate) fn open(server: SocketAddr, wanted: &Wanted) -> Result<Self, RemoteError> {
        let stream = TcpStream::connect_timeout(&server, PATIENCE).map_err(|error| {
            RemoteError::Strange(format!(
                "{server} takes no TCP connection ({error}); does `weirgate probe --serve` run \
                 there, and does a firewall let TCP through?"
            ))
        })?;
        wanted
            .prepare(&stream, true)
            .map_err(RemoteError::Strange)?;
        stream.set_nodelay(true)?;
        (&stream).write_all(wanted.to_string().as_bytes())?;
        let from = BufReader::with_capacity(BLOCK, Patient::new(stream.try_clone()?));
        let mut connected = Self { stream, from };
        let line = connected.line(PATIENCE)?;
        match line.trim_end().split_once(": ") {
            None if line == "yes\n" => {}
            Some(("no", why)) => return Err(refused(server, why)),
            _ => {
                return Err(RemoteError::Strange(format!(
                    "{server} is no `weirgate probe --serve` of this version"
                )));
            }
        }
        // The run ends what follows, which may take long.
        connected.from.get_mut().wait(None)?;
        Ok(connected)
    }

    fn line(&mut self, patience: Duration) -> Result<String, RemoteError> {
        let mut line = String::new();
        self.from.get_mut().wait(Some(patience))?;
        (&mut self.from).take(LINE).read_line(&mut line)?;
        Ok(line)
    }

    /// Reads the port for this connection, and the word after it.
    pub(crate) fn port(&mut self, server: SocketAddr) -> Result<(u16, String), RemoteError> {
        let line = self.line(PATIENCE)?;
        if let Some(why) = line.strip_prefix("no: ") {
            return Err(refused(server, why));
        }
        let mut words = line.split_whitespace();
        let port = words.next().and_then(|word| word.parse().ok());
        let port = port.ok_or_else(|| RemoteError::Strange(format!("{server} names no port")))?;
        Ok((port, words.next().unwrap_or_default().to_owned()))
    }
}

fn refused(server: SocketAddr, why: &str) -> RemoteError {
    RemoteError::Refused(format!("{server} ({})", PeerText::new(why)))
}

/// A path for datagrams to the server and back, which exists as long as its connection.
#[derive(Debug)]
pub(crate) struct Session {
    server: SocketAddr,
    connected: Connected,
    pub(crate) socket: UdpSocket,
}

impl Session {
    /// Opens a path. Datagrams with a word that came over the connection show the server where
    /// to send, even behind address translation.
    pub(crate) fn open(
        server: SocketAddr,
        exchange: Exchange,
        dscp: u8,
    ) -> Result<Self, RemoteError> {
        let mut connected = Connected::open(server, &Wanted::Datagrams { exchange, dscp })?;
        let (port, word) = connected.port(server)?;
        let any = match server.ip() {
            IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        };
        let socket = UdpSocket::bind((any, 0))?;
        mark(&socket, server.ip(), dscp)?;
        socket.connect((server.ip(), port))?;
        let begin = Instant::now();
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            if begin.elapsed() > PATIENCE {
                return Err(RemoteError::Strange(format!(
                    "UDP port {port} of {server} does not get datagrams from here; does a \
                     firewall let UDP through? (docs/probe.md names the ports)"
                )));
            }
            match socket.send(word.as_bytes()) {
                Err(error) if !passing(&error) => return Err(error.into()),
                _ => {}
            }
            connected.from.get_mut().wait(Some(TURN))?;
            let left = LINE.saturating_sub(line.len() as u64);
            match (&mut connected.from)
                .take(left)
                .read_until(b'\n', &mut line)
            {
                Ok(0) => return Err(RemoteError::Strange(format!("{server} ended it"))),
                Err(error) if !passing(&error) => return Err(error.into()),
                _ => {}
            }
        }
        if line != b"go\n" {
            let why = String::from_utf8_lossy(&line);
            return Err(refused(server, why.trim_start_matches("no: ")));
        }
        Ok(Self {
            server,
            connected,
            socket,
        })
    }

    /// Ends the path, and returns the server's report.
    pub(crate) fn end(&mut self) -> Result<DatagramReport, RemoteError> {
        let connected = &mut self.connected;
        connected.stream.shutdown(Shutdown::Write)?;
        let line = connected.line(LAST_WORD)?;
        let report = DatagramReport::read(&line)
            .map_err(RemoteError::out_of_range(self.server.to_string()))?;
        report.ok_or_else(|| {
            RemoteError::Strange(String::from("the serving end did not say what arrived"))
        })
    }
}
