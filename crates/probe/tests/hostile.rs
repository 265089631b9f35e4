// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Peers that report impossible numbers: each is an error that names peer, field, value and bound.
//! None makes a client panic or wait.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod near;

use near::Near;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};
use weirgate_probe::{
    COOKIE, Client, DatagramReport, Direction, Doing, Irtt, Load, Manner, Message, Play, Seen,
    Sequence, Stop, Stream, granted, measure, play, remote,
};

/// Starts a serving end that answers the packets of a train, or a question, with `answer`.
fn train_server(answer: impl Fn(Message) -> Option<Message> + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut payload = [0; 2048];
        loop {
            let (length, from) = socket.recv_from(&mut payload).unwrap();
            let answered = match Message::read(&payload[..length]).unwrap() {
                Some(Message::Hello { nonce }) => Some(Message::Welcome {
                    nonce,
                    cookie: [0; COOKIE],
                }),
                Some(Message::Expect { train, .. }) => Some(Message::Ready { id: train.id }),
                Some(other) => answer(other),
                None => None,
            };
            if let Some(answered) = answered {
                socket.send_to(&answered.bytes(), from).unwrap();
            }
        }
    });
    address
}

#[test]
fn a_packet_that_is_none_of_the_train_is_named() {
    for index in [u32::MAX, 40] {
        let server = train_server(move |message| match message {
            Message::Send { train, .. } => Some(Message::Data {
                id: train.id,
                index,
                sent_ns: u64::MAX,
            }),
            _ => None,
        });
        let mut client = Client::greet(server).unwrap();
        let error = client.train(Direction::Down, 100, 40, Duration::ZERO);
        let error = error.unwrap_err().to_string();
        let expected = format!(
            "{server} sends a number that is out of range: `index` is {index}, but has to be 0 to 39"
        );
        assert_eq!(error, expected);
    }
}

#[test]
fn a_gap_that_would_take_minutes_ends_a_measurement() {
    for (gap_ns, bound) in [(1e12, "1 to 12000000000"), (1e10, "0 to 250000000")] {
        let server = train_server(move |message| match message {
            Message::Ask { id, .. } => Some(Message::Report {
                id,
                seen: Seen {
                    received: 40,
                    gap_ns,
                    ..Seen::default()
                },
            }),
            _ => None,
        });
        let mut client = Client::greet(server).unwrap();
        let begin = Instant::now();
        let error = measure(&mut client, Direction::Up, &mut |_| ()).unwrap_err();
        assert!(begin.elapsed() < Duration::from_mins(1));
        let error = error.to_string();
        assert!(error.starts_with(&server.to_string()), "{error}");
        assert!(
            error.contains("`gap_ns`") && error.ends_with(bound),
            "{error}"
        );
    }
}

/// Starts an iperf3 server (iperf_api.c) that accepts four connections and reports `result`.
fn iperf3_server(result: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        loop {
            let (mut control, _) = listener.accept().unwrap();
            let _ = iperf3_test(&listener, &mut control, result);
        }
    });
    address
}

fn iperf3_test(
    listener: &TcpListener,
    control: &mut TcpStream,
    result: &str,
) -> std::io::Result<()> {
    let text = |control: &mut TcpStream| {
        let mut length = [0; 4];
        control.read_exact(&mut length)?;
        control.read_exact(&mut vec![0; u32::from_be_bytes(length) as usize])
    };
    control.read_exact(&mut [0; 37])?;
    control.write_all(&[9])?;
    text(control)?;
    control.write_all(&[10])?;
    let streams: Vec<TcpStream> = (0..4).map(|_| listener.accept().unwrap().0).collect();
    for mut stream in streams {
        thread::spawn(move || {
            let block = vec![0; 65_536];
            // The direction does not matter: it both reads and writes.
            let mut reader = stream.try_clone().unwrap();
            thread::spawn(move || while matches!(reader.read(&mut [0; 8_192]), Ok(1..)) {});
            while stream.write_all(&block).is_ok() {}
        });
    }
    control.write_all(&[1, 2])?;
    control.read_exact(&mut [0])?;
    control.write_all(&[13])?;
    text(control)?;
    control.write_all(&(result.len() as u32).to_be_bytes())?;
    control.write_all(result.as_bytes())?;
    control.write_all(&[14])?;
    control.read_exact(&mut [0])
}

#[test]
fn more_bytes_than_were_sent_to_an_iperf3_server_are_named() {
    for (result, field) in [
        (
            r#"{"streams": [{"bytes": 18446744073709551615, "end_time": 1},
                {"bytes": 18446744073709551615, "end_time": 1}]}"#,
            "`bytes` is 18446744073709552000",
        ),
        (
            r#"{"streams": [{"bytes": 5, "end_time": 1e300}]}"#,
            "`end_time` is 1",
        ),
        (
            r#"{"streams": [{"bytes": 1},{"bytes": 1},{"bytes": 1},{"bytes": 1},{"bytes": 1}]}"#,
            "`number of streams` is 5",
        ),
        (
            r#"{"streams": [{"bytes": -5, "end_time": 1}]}"#,
            "`bytes` is -5",
        ),
        (r#"{"streams": [{"bytes": "5"}]}"#, "not of iperf3"),
    ] {
        let server = iperf3_server(result);
        let load = Load::Iperf3(server);
        let found = remote(
            &mut Near::new(Duration::from_millis(1)),
            Some(&load),
            Duration::from_millis(400),
            &mut |_| (),
        );
        let error = found.unwrap_err().to_string();
        assert!(
            error.contains(&format!("the iperf3 server {server}")),
            "{error}"
        );
        assert!(error.contains(field), "{error}");
    }
}

#[test]
fn an_interval_that_is_none_is_named() {
    // Folded: -1 ns, 2 s.
    for (params, value) in [
        (&[3, 1][..], "-1"),
        (&[3, 0x80, 0xd0, 0xac, 0xf3, 0x0e], "2000000000"),
    ] {
        let error = granted(params).unwrap_err();
        assert_eq!(error.value, value);
        assert_eq!(error.bound, "0 to 1000000000");
    }
    assert_eq!(granted(&[9, 200, 1, 2]), Ok(None));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = socket.local_addr().unwrap();
    thread::spawn(move || {
        let (_, from) = socket.recv_from(&mut [0; 100]).unwrap();
        let answer = [&[0x14, 0xa7, 0x5b, 3][..], &[1; 8], &[3, 1]].concat();
        socket.send_to(&answer, from).unwrap();
    });
    let error = Irtt::open(server).unwrap_err().to_string();
    assert!(
        error.contains(&format!("the irtt server {server}")),
        "{error}"
    );
}

/// Starts a serving end of sequences that agrees to everything and then sends `word`.
fn bulk_server(word: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let _ = stream.write_all(b"yes\n");
                if word.is_empty() {
                    // A line without an end.
                    let _ = stream.write_all(b"9 word\n");
                    while stream.write_all(&[b'x'; 8_192]).is_ok() {}
                    return;
                }
                let _ = std::io::copy(&mut stream, &mut std::io::sink());
                let _ = stream.write_all(word.as_bytes());
            });
        }
    });
    address
}

fn sequence(doing: Doing) -> Sequence {
    let run = (Duration::ZERO, Duration::from_millis(300));
    Sequence {
        plays: vec![Play {
            name: String::from("one"),
            doing,
            manner: Manner::default(),
            runs: vec![run],
            count: 1,
            stagger: Duration::ZERO,
        }],
        pings: Vec::new(),
        length: run.1,
    }
}

#[test]
fn more_bytes_than_were_sent_to_a_serving_end_are_named() {
    let server = bulk_server("18446744073709551615\n");
    let upload = sequence(Doing::Transfer {
        direction: Direction::Up,
        bytes: Some(1000),
    });
    let played = play(&upload, server, &Stop::default(), &mut |_, _| ()).unwrap();
    let failed = played.transfers[0].failed.clone().unwrap();
    let expected = "`bytes received` is 18446744073709551615, but has to be 0 to 1000";
    assert!(failed.contains(expected), "{failed}");
    assert!(failed.contains(&server.to_string()), "{failed}");
}

#[test]
fn a_line_without_an_end_ends() {
    let stream = Stream {
        interval: Duration::from_millis(20),
        payload: 100,
        count: None,
    };
    let datagrams = sequence(Doing::Datagrams {
        direction: None,
        stream,
    });
    let begin = Instant::now();
    let server = bulk_server("");
    play(&datagrams, server, &Stop::default(), &mut |_, _| ()).unwrap_err();
    assert!(begin.elapsed() < Duration::from_secs(30));
}

#[test]
fn what_a_serving_end_received_is_bounded() {
    assert!(DatagramReport::read("5 4 400 1 2 3 4\n").unwrap().is_some());
    assert_eq!(DatagramReport::read("5 4\n"), Ok(None));
    assert_eq!(DatagramReport::read("5 4 x\n"), Ok(None));
    for (line, field) in [
        ("18446744073709551615 0 0", "datagrams sent"),
        ("0 18446744073709551615 0", "datagrams received"),
        ("0 0 18446744073709551615", "bytes received"),
        ("0 0 0 0 0 0 18446744073709551615", "delay in us"),
    ] {
        assert_eq!(DatagramReport::read(line).unwrap_err().field, field);
    }
}
