// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the local user of a connection over loopback. The kernel lists the sockets of a network
//! namespace with their owners in `/proc/net/tcp` and `tcp6` (proc(5)). The client's socket is
//! identified by its two ends.

use crate::lock::lock;
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::FileExt as _;
use std::sync::Mutex;

/// The buffer for lines, the longest of which has 176 bytes.
const ROOM: usize = 32_768;

/// The lists, which are opened before the process is confined.
#[derive(Debug)]
pub(crate) struct Sockets(Mutex<Vec<File>>);

impl Sockets {
    pub(crate) fn open() -> io::Result<Self> {
        let mut files = vec![File::open("/proc/net/tcp")?];
        // A kernel without IPv6 has no such file.
        files.extend(File::open("/proc/net/tcp6"));
        Ok(Self(Mutex::new(files)))
    }

    /// Returns the owner of the socket with these ends; `None` if there is none. The time grows
    /// with the number of sockets, so do not call it on the thread that answers requests.
    pub(crate) fn owner(&self, own: SocketAddr, remote: SocketAddr) -> io::Result<Option<u32>> {
        let ends = (canonical(own), canonical(remote));
        // Only one search at a time, so that frequent requests use at most one processor.
        for file in &*lock(&self.0) {
            if let Some(user) = find(file, ends)? {
                return Ok(Some(user));
            }
        }
        Ok(None)
    }
}

fn canonical(end: SocketAddr) -> (IpAddr, u16) {
    (end.ip().to_canonical(), end.port())
}

type Ends = ((IpAddr, u16), (IpAddr, u16));

fn find(file: &File, ends: Ends) -> io::Result<Option<u32>> {
    let mut room = vec![0; ROOM];
    let (mut at, mut held) = (0, 0);
    loop {
        let read = file.read_at(&mut room[held..], at)?;
        if read == 0 {
            return Ok(None);
        }
        at += read as u64;
        let filled = held + read;
        let whole = room[..filled].iter().rposition(|byte| *byte == b'\n');
        let whole = whole.map_or(0, |last| last + 1);
        let text = str::from_utf8(&room[..whole]).map_err(|_| io::ErrorKind::InvalidData)?;
        let owner = text.lines().find_map(|line| owner(line, ends));
        if owner.is_some() {
            return Ok(owner);
        }
        room.copy_within(whole..filled, 0);
        held = filled - whole;
    }
}

/// Returns the owner of the socket in a line, if its ends match. A socket that its program has
/// closed is listed with root as its owner and without an inode; it has no owner.
fn owner(line: &str, ends: Ends) -> Option<u32> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let own = end(words.next()?)?;
    let remote = end(words.next()?)?;
    if (own, remote) != ends {
        return None;
    }
    let user = words.nth(4)?.parse().ok()?;
    let inode: u64 = words.nth(1)?.parse().ok()?;
    (inode != 0).then_some(user)
}

/// Parses `ADDRESS:PORT` in hexadecimal; the words of the address are in host byte order.
fn end(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let word = |at: usize| {
        let digits = address.get(8 * at..8 * at + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let address = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (at, four) in bytes.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&word(at)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    Some((address, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn owner_of(listener: &str) -> Option<u32> {
        let listener = TcpListener::bind(listener).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (served, remote) = listener.accept().unwrap();
        let sockets = Sockets::open().unwrap();
        // Other sockets take more than one buffer.
        let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let others: Vec<_> = (0..300)
            .map(|_| (connect(), listener.accept().unwrap()))
            .collect();
        let own = served.local_addr().unwrap();
        let found = sockets.owner(remote, own).unwrap();
        assert_eq!(sockets.owner(remote, remote).unwrap(), None);
        drop(others);
        // A socket that its program has closed does not belong to root.
        drop(client);
        assert_eq!(sockets.owner(remote, own).unwrap(), None);
        found
    }

    #[test]
    fn the_owner_of_a_clients_socket_is_found() {
        let user = rustix::process::getuid().as_raw();
        for listener in ["127.0.0.1:0", "[::1]:0"] {
            assert_eq!(owner_of(listener), Some(user), "{listener}");
        }
    }

    #[test]
    fn lines_are_read_or_refused() {
        let ends = |own: &str, remote: &str| {
            let of = |text: &str| canonical(text.parse().unwrap());
            (of(own), of(remote))
        };
        let [a, b] = [[127, 0, 0, 1], [127, 0, 0, 2]].map(u32::from_ne_bytes);
        let line = |state: &str, inode: u64| {
            format!(
                "  3: {a:08X}:2591 {b:08X}:0050 {state} 00000000:00000000 00:00000000 00000000  1000        0 {inode} 1 0000 20 4 30 10 -1"
            )
        };
        let own = ends("127.0.0.1:9617", "127.0.0.2:80");
        assert_eq!(owner(&line("01", 7), own), Some(1000));
        assert_eq!(owner(&line("05", 0), own), None);
        assert_eq!(
            owner(&line("01", 7), ends("127.0.0.2:80", "127.0.0.1:9617")),
            None
        );
        for wrong in [
            "",
            "sl local rem",
            "1: x:1 y:2",
            "1: 0100007F:2591",
            "1: 00:1 00:2 01",
        ] {
            assert_eq!(owner(wrong, own), None, "{wrong}");
        }
    }
}
