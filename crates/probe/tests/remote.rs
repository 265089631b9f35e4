// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hosts that only answer: an irtt server by its format, and a web server.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};
use weirgate_probe::{Bulk, Echo, Irtt, Load, Reflector, RemoteError, remote};

/// How a server behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Good,
    /// Loses every third echo.
    Lossy,
    Refuses,
}

/// Starts a server that answers as irtt's does (packet.go, params.go).
fn irtt_server(manner: Manner) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    // The thread ends with the process.
    thread::spawn(move || {
        let token = [1, 2, 3, 4, 5, 6, 7, 8];
        let mut packet = [0; 2048];
        loop {
            let (length, from) = socket.recv_from(&mut packet).unwrap();
            assert_eq!(packet[..3], [0x14, 0xa7, 0x5b]);
            let mut answer = packet[..4].to_vec();
            match packet[3] {
                1 => {
                    // Version 1, then length and interval, as requested.
                    assert_eq!(packet[4..6], [1, 2], "{:?}", &packet[..length]);
                    answer[3] = if manner == Manner::Refuses {
                        1 | 2 | 4
                    } else {
                        1 | 2
                    };
                    answer.extend(token);
                    // A text (9), then an interval of 20 ms: zig-zag 40,000,000.
                    answer.extend([1, 2, 9, 2, b'a', b'b', 3, 0x80, 0xb4, 0x89, 0x13]);
                }
                0 => {
                    assert_eq!(packet[4..12], token);
                    let number = u32::from_le_bytes(packet[12..16].try_into().unwrap());
                    if manner == Manner::Lossy && number % 3 == 1 {
                        continue;
                    }
                    answer[3] = 2;
                    answer.extend(&packet[4..16]);
                }
                _ => {
                    assert_eq!(packet[3], 4);
                    continue;
                }
            }
            socket.send_to(&answer, from).unwrap();
        }
    });
    address
}

#[test]
fn an_irtt_server_returns_packets() {
    let mut irtt = Irtt::open(irtt_server(Manner::Lossy)).unwrap();
    let begin = Instant::now();
    let took: Vec<Echo> = (0..6)
        .map(|_| irtt.echo(0, Duration::from_millis(500)).unwrap())
        .collect();
    for (place, echo) in took.iter().enumerate() {
        // A busy machine may lose more.
        if place % 3 == 1 {
            assert_eq!(*echo, Echo::Lost, "{took:?}");
        }
    }
    assert!(
        took.iter().any(|echo| matches!(echo, Echo::After(_))),
        "{took:?}"
    );
    // Not faster than the server granted.
    assert!(begin.elapsed() >= Duration::from_millis(100));
}

#[test]
fn who_does_not_answer_or_refuses_is_named() {
    let refused = Irtt::open(irtt_server(Manner::Refuses)).unwrap_err();
    assert!(matches!(refused, RemoteError::Refused(_)), "{refused}");
    // Bound and closed again: no listener.
    let gone = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let silent = Irtt::open(gone).unwrap_err();
    assert!(matches!(silent, RemoteError::Silent(_)), "{silent}");
}

/// Starts a web server: `/large` never ends, `/small` does, `/moved` redirects.
fn web_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut line = String::new();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                reader.read_line(&mut line).unwrap();
                let mut rest = String::from("x");
                while !rest.trim().is_empty() {
                    rest.clear();
                    reader.read_line(&mut rest).unwrap();
                }
                let status = if line.contains("/moved") {
                    "301 Moved\r\nLocation: http://192.0.2.1/"
                } else {
                    "200 OK"
                };
                let _ = write!(stream, "HTTP/1.1 {status}\r\n\r\n");
                let block = vec![0; 65_536];
                while line.contains("/large") && stream.write_all(&block).is_ok() {}
            });
        }
    });
    address
}

/// A lost echo delays no other: a full queue drops some, and later ones measure its length.
#[test]
fn echoes_go_on_while_some_are_lost() {
    let server = web_server();
    let mut irtt = Irtt::open(irtt_server(Manner::Lossy)).unwrap();
    let load = Load::Bulk(Bulk::parse(&format!("http://{server}/large")).unwrap());
    let begin = Instant::now();
    let found = remote(&mut irtt, Some(&load), Duration::from_secs(1), &mut |_| ()).unwrap();
    let echoes = found.down.unwrap().echoes;
    assert!(echoes.all.len() >= 3, "{echoes:?}");
    assert!(echoes.lost() >= 1, "{echoes:?}");
    assert!(echoes.middle().is_some(), "{echoes:?}");
    // An echo that returns after the load proves that those before it are lost.
    assert!(
        begin.elapsed() < Duration::from_secs(8),
        "{:?}",
        begin.elapsed()
    );
}

#[test]
fn a_file_fills_the_line_downwards() {
    let server = web_server();
    let measured = |path: &str, time: u64| {
        let mut irtt = Irtt::open(irtt_server(Manner::Good)).unwrap();
        let load = Load::Bulk(Bulk::parse(&format!("http://{server}{path}")).unwrap());
        let time = Duration::from_millis(time);
        remote(&mut irtt, Some(&load), time, &mut |_| ())
    };
    let found = measured("/large", 400).unwrap();
    let down = found.down.unwrap();
    assert!(down.transfer.bytes > 1_000_000, "{down:?}");
    assert!(down.transfer.time >= Duration::from_millis(300), "{down:?}");
    assert_eq!((found.up, found.mtu, found.layer), (None, None, None));
    assert!(found.idle.least().is_some());
    let moved = measured("/moved", 400).unwrap_err().to_string();
    assert!(
        moved.contains("301 Moved") && moved.contains("nobody else"),
        "{moved}"
    );
    // Long enough for two hundred fetches on a busy machine.
    let small = measured("/small", 6_000).unwrap_err().to_string();
    assert!(small.contains("too short"), "{small}");
}

#[test]
fn urls_are_read_or_refused() {
    for fine in [
        "http://a.example/x",
        "http://[::1]:8080/",
        "http://192.0.2.1",
        "https://a.example/x",
    ] {
        Bulk::parse(fine).unwrap();
    }
    for wrong in [
        "",
        "a",
        "ftp://a/",
        "https:///x",
        "http:///x",
        "http://a:0/",
        "http://a/ b",
        "http://a b/",
    ] {
        assert!(Bulk::parse(wrong).is_err(), "{wrong}");
    }
}
