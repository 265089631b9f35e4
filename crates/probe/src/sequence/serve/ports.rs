// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Further ports of the server, each for one TCP connection, from a range that a firewall can
//! allow.

use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

/// How many ports after its own the server uses.
pub const PORTS_BESIDE: u16 = 256;

fn beside<T>(
    own: SocketAddr,
    bind: impl Fn(SocketAddr) -> io::Result<T>,
) -> io::Result<(T, SocketAddr)> {
    let mut failed = io::Error::from(io::ErrorKind::AddrInUse);
    for step in 1..=PORTS_BESIDE {
        let Some(port) = own.port().checked_add(step) else {
            break;
        };
        let address = SocketAddr::new(own.ip().to_canonical(), port);
        match bind(address) {
            Ok(bound) => return Ok((bound, address)),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Opens a socket for datagrams, and returns its port.
pub(crate) fn datagrams(own: SocketAddr) -> io::Result<(UdpSocket, u16)> {
    let (socket, address) = beside(own, UdpSocket::bind)?;
    Ok((socket, address.port()))
}

/// A TCP port that never answers. Its accept queue has room for one connection, and is full. The
/// kernel therefore drops every further SYN (`tcp_conn_request` with `sk_acceptq_is_full`).
#[derive(Debug)]
pub(crate) struct Silence {
    _listener: TcpListener,
    _first: TcpStream,
    port: u16,
}

impl Silence {
    pub(crate) fn open(own: SocketAddr) -> io::Result<Self> {
        let (listener, address) = beside(own, |address| {
            let family = match address.ip() {
                IpAddr::V4(_) => AddressFamily::INET,
                IpAddr::V6(_) => AddressFamily::INET6,
            };
            let socket = net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
            net::bind(&socket, &address)?;
            net::listen(&socket, 0)?;
            Ok(TcpListener::from(socket))
        })?;
        let first = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        Ok(Self {
            _listener: listener,
            _first: first,
            port: address.port(),
        })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_answers_where_silence_is() {
        let own = TcpListener::bind("127.0.0.1:0").unwrap();
        let silence = Silence::open(own.local_addr().unwrap()).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], silence.port()));
        for _ in 0..3 {
            let asked = TcpStream::connect_timeout(&address, Duration::from_millis(300));
            assert_eq!(asked.unwrap_err().kind(), io::ErrorKind::TimedOut);
        }
    }
}
