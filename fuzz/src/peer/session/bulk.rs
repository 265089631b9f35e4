// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes a client of the server of sequences, and datagrams to the port that it is given.
//!
//! Besides "no panic", this must hold: the connection ends when the client does, a slot is free for
//! the next one, and the answer has exactly the requested bytes.

use super::Script;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::Duration;
use weirgate_probe::{BulkServer, DatagramReport, Exchange, Wanted};

/// The maximum length of the first line.
const LINE: usize = 200;

/// The time limit of a connection.
const PATIENCE: Duration = Duration::from_secs(20);

/// A client that has received this many bytes closes the connection.
const ENOUGH: u64 = 1 << 17;

/// The first byte of a client that leaves without reading.
const LEAVES: u8 = b'l';

static SERVER: LazyLock<Option<u16>> = LazyLock::new(|| {
    let server = BulkServer::bind((Ipv4Addr::UNSPECIFIED, 0).into()).ok()?;
    let port = server.address().ok()?.port();
    thread::spawn(move || server.run());
    Some(port)
});

pub fn run(bytes: &[u8]) {
    let Some((how, said)) = bytes.split_first() else {
        return;
    };
    let (line, rest) = said.split_at(first_line(said));
    let wanted = std::str::from_utf8(line).map(Wanted::read);
    let exchange = match &wanted {
        Ok(Ok(Wanted::Datagrams { exchange, .. })) if is_tried(said) => Some(*exchange),
        Ok(Ok(Wanted::Datagrams { .. })) => return,
        _ => None,
    };
    let Ok(stream) = connected() else { return };
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    // Ignore errors: the server may have closed the connection.
    let _ = (&stream).write_all(said);
    if exchange.is_none() {
        if *how == LEAVES {
            return;
        }
        let _ = stream.shutdown(Shutdown::Write);
    }
    let mut from = BufReader::new(&stream);
    let mut answer = String::new();
    ends(from.read_line(&mut answer));
    let Ok(wanted) = wanted else {
        return assert_eq!(answer, "", "what is no text is not answered");
    };
    if let Some(why) = answer.strip_prefix("no: ") {
        assert!(!why.starts_with("too many"), "a slot is free");
        let line = why.strip_suffix('\n').expect("a whole line");
        return assert!(!line.chars().any(char::is_control), "{line:?}");
    }
    assert_eq!(answer, "yes\n");
    let wanted = wanted.expect("what is wrong is refused");
    planted(&wanted);
    if let Some(exchange) = exchange {
        return datagrams(&stream, &mut from, exchange, rest);
    }
    if wanted == Wanted::Silence {
        let mut place = String::new();
        ends(from.read_line(&mut place));
        return assert!(
            place.starts_with("no: ") || place.ends_with(" silent\n"),
            "{place:?}"
        );
    }
    let mut sent = Vec::new();
    ends(from.take(ENOUGH).read_to_end(&mut sent));
    let expected = match wanted {
        Wanted::Take { .. } => {
            let taken = format!("{}\n", rest.len());
            return assert_eq!(String::from_utf8_lossy(&sent), taken);
        }
        Wanted::Send { bytes, .. } => bytes.unwrap_or(u64::MAX),
        Wanted::Answer {
            request, response, ..
        } => (rest.len() as u64 / request).saturating_mul(response),
        Wanted::Datagrams { .. } | Wanted::Silence => 0,
    };
    assert_eq!(sent.len() as u64, expected.min(ENOUGH));
}

/// Returns whether a conversation with datagrams is carried out. It takes a second, in which a
/// fuzzer can try thousands of others.
fn is_tried(said: &[u8]) -> bool {
    let mut hasher = DefaultHasher::new();
    said.hash(&mut hasher);
    !cfg!(feature = "fuzzing") || hasher.finish().is_multiple_of(64)
}

/// Connects each time to another address of this machine, which has separate client ports.
fn connected() -> io::Result<TcpStream> {
    static PLACE: AtomicU16 = AtomicU16::new(0);
    let [high, low] = PLACE.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let port = SERVER.ok_or(io::ErrorKind::NotConnected)?;
    TcpStream::connect(SocketAddr::new(
        Ipv4Addr::new(127, 2, high, low).into(),
        port,
    ))
}

fn first_line(said: &[u8]) -> usize {
    let read = &said[..said.len().min(LINE)];
    let end = read.iter().position(|byte| *byte == b'\n');
    end.map_or(read.len(), |end| end + 1)
}

/// Checks that the connection ended in time.
#[track_caller]
fn ends<T>(read: io::Result<T>) {
    if let Err(error) = read {
        let late = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut];
        assert!(!late.contains(&error.kind()), "the connection does not end");
    }
}

/// Sends the secret word and any datagrams, and checks the report about them.
fn datagrams(stream: &TcpStream, from: &mut impl io::BufRead, exchange: Exchange, said: &[u8]) {
    let mut place = String::new();
    ends(from.read_line(&mut place));
    let Some((port, word)) = place.trim_end().split_once(' ') else {
        return;
    };
    let Ok(port) = port.parse::<u16>() else {
        return assert!(place.starts_with("no: "), "{place:?}");
    };
    let script = Script::of(said);
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a socket");
    let server = stream.peer_addr().expect("an address").ip();
    socket.connect((server, port)).expect("an address");
    let mut sent = 0;
    if script.next().is_some() {
        let _ = socket.send(word.as_bytes());
        let mut go = String::new();
        ends(from.read_line(&mut go));
        assert_eq!(go, "go\n");
        while let Some(payload) = script.next() {
            sent += u64::from(socket.send(&payload).is_ok());
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    let mut report = String::new();
    ends(from.read_line(&mut report));
    if report.is_empty() {
        return;
    }
    // Times that a client made up may be out of range.
    let Ok(report) = DatagramReport::read(&report) else {
        return;
    };
    let report = report.expect("it is a report");
    assert!(report.received.count <= sent, "{report:?} of {sent}");
    let sends = matches!(exchange, Exchange::Down(_) | Exchange::Both(_));
    assert!(sends || report.sent == 0, "{report:?}");
}

/// The planted mistake: responses of a size that no seed has.
#[cfg(feature = "planted")]
fn planted(wanted: &Wanted) {
    if let Wanted::Answer { response, .. } = wanted {
        assert!(response % 4 != 3, "the planted mistake: {response} bytes");
    }
}

#[cfg(not(feature = "planted"))]
fn planted(_: &Wanted) {}
