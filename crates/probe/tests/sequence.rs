// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A scripted sequence towards a serving end on loopback: what each flow moved,
//! when, and what is said where something is wrong.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;
use weirgate_probe::{BulkServer, Doing, Manner, Play, Sequence, Stop, Way, play};

const MS: fn(u64) -> Duration = Duration::from_millis;

fn server() -> SocketAddr {
    let server = BulkServer::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = server.address().unwrap();
    thread::spawn(move || server.run());
    address
}

fn flow(name: &str, doing: Doing, run: (u64, u64)) -> Play {
    Play {
        name: name.to_owned(),
        doing,
        manner: Manner::default(),
        runs: vec![(MS(run.0), MS(run.1))],
        count: 1,
        stagger: Duration::ZERO,
    }
}

fn sequence(plays: Vec<Play>, length: u64) -> Sequence {
    Sequence {
        plays,
        pings: Vec::new(),
        length: MS(length),
    }
}

#[test]
fn downloads_uploads_and_requests_run_when_they_are_told_to() {
    let down = |bytes| Doing::Transfer {
        way: Way::Down,
        bytes,
    };
    let up = Doing::Transfer {
        way: Way::Up,
        bytes: Some(3_000_000),
    };
    let ask = Doing::Requests {
        request: 100,
        response: 20_000,
        think: MS(50),
    };
    let mut group = flow("group", up, (500, 3000));
    group.count = 3;
    group.stagger = MS(100);
    group.manner.dscp = 10;
    // It ends with the sequence, and what arrived is known.
    let last = Doing::Transfer {
        way: Way::Up,
        bytes: None,
    };
    let mut twice = flow("twice", down(Some(1_000_000)), (0, 900));
    twice.runs.push((MS(1500), MS(2900)));
    let plays = vec![
        flow("open", down(None), (1000, 2000)),
        group,
        flow("ask", ask, (0, 1000)),
        twice,
        flow("last", last, (2500, 3000)),
    ];
    let mut told = 0;
    let played = play(
        &sequence(plays, 3000),
        server(),
        &Stop::default(),
        &mut |_, moved| {
            assert_eq!(moved.len(), 5);
            told += 1;
        },
    );
    let played = played.unwrap();
    assert_eq!(told, 3);
    for one in &played.transfers {
        assert_eq!(one.failed, None, "{one:?}");
    }
    let of = |play| played.transfers.iter().filter(move |one| one.play == play);
    let open = of(0).next().unwrap();
    assert!(open.bytes > 1_000_000 && open.begin >= MS(1000), "{open:?}");
    assert!(open.end >= MS(2000), "{open:?}");
    // Each of the group begins after the one before, and all of it arrives.
    let begins: Vec<Duration> = of(1).map(|one| one.begin).collect();
    assert!(begins.len() == 3 && begins[2] >= MS(700), "{begins:?}");
    assert!(of(1).all(|one| one.bytes == 3_000_000));
    let ask = of(2).next().unwrap();
    assert!(ask.answers.len() > 2, "{ask:?}");
    assert_eq!(ask.bytes, ask.answers.len() as u64 * 20_000);
    assert!(of(3).map(|one| one.bytes).eq([1_000_000, 1_000_000]));
    assert!(of(4).next().unwrap().bytes > 100_000);
    // By the second: the open download moved nothing in the first.
    assert_eq!(played.seconds[0][0], 0);
    assert_eq!(played.seconds[3].iter().sum::<u64>(), 2_000_000);
}

#[test]
fn what_is_wrong_shows_before_anything_begins() {
    let up = Doing::Transfer {
        way: Way::Up,
        bytes: None,
    };
    let mut odd = flow("odd", up.clone(), (0, 1000));
    odd.manner.congestion = Some(String::from("no_such_one"));
    let run = |sequence: &Sequence, server| {
        let failed = play(sequence, server, &Stop::default(), &mut |_, _| ());
        failed.unwrap_err().to_string()
    };
    let text = run(&sequence(vec![odd], 1000), server());
    assert!(text.contains("no_such_one"), "{text}");
    let plain = sequence(vec![flow("up", up, (0, 1000))], 1000);
    let gone = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = gone.local_addr().unwrap();
    drop(gone);
    let text = run(&plain, address);
    assert!(text.contains("probe --serve"), "{text}");
    // Something else listens there.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    thread::spawn(move || {
        for stream in other.incoming() {
            let _ = stream.unwrap().write_all(b"220 mail\r\n");
        }
    });
    let text = run(&plain, address);
    assert!(text.contains("is no `weirgate probe --serve`"), "{text}");
}

#[test]
fn the_serving_end_answers_nonsense_and_goes_on() {
    let address = server();
    for line in [
        "GET / HTTP/1.1\r\n",
        "weirgate-load 1 send 1 99 - -\n",
        "\n",
    ] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(line.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("no: "), "{answer}");
    }
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(b"weirgate-load 1 send 70000 0 - -\n")
        .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(answer.len(), 70_004);
    // A stopped sequence ends at once.
    let stop = Stop::default();
    stop.stop();
    let down = Doing::Transfer {
        way: Way::Down,
        bytes: None,
    };
    let long = sequence(vec![flow("down", down, (0, 60_000))], 60_000);
    let played = play(&long, address, &stop, &mut |_, _| ()).unwrap();
    assert!(played.transfers.is_empty());
}
