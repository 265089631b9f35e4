// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A scripted sequence towards a serving end on loopback: the bytes and times of each flow, and the
//! reports of errors.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use rustix::net::{self, AddressFamily, SocketType};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;
use weirgate_probe::{
    BulkServer, Direction, Doing, Manner, Ping, Play, Sequence, Short, Stop, Stream, Wanted, play,
};

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
        direction: Direction::Down,
        bytes,
    };
    let up = Doing::Transfer {
        direction: Direction::Up,
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
    // This upload ends with the sequence; its received bytes are known at the end.
    let last = Doing::Transfer {
        direction: Direction::Up,
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
    let mut reports = 0;
    let played = play(
        &sequence(plays, 3000),
        server(),
        &Stop::default(),
        &mut |_, moved| {
            assert_eq!(moved.len(), 5);
            reports += 1;
            // A slow report makes the next one late.
            if reports == 1 {
                thread::sleep(MS(1700));
            }
        },
    );
    let played = played.unwrap();
    assert_eq!(reports, 3);
    for one in &played.transfers {
        assert_eq!(one.failed, None, "{one:?}");
    }
    let of = |play| played.transfers.iter().filter(move |one| one.play == play);
    let open = of(0).next().unwrap();
    assert!(open.bytes > 1_000_000 && open.begin >= MS(1000), "{open:?}");
    assert!(open.end >= MS(2000), "{open:?}");
    // The flows of the group begin one after the other, and all their bytes arrive.
    let begins: Vec<Duration> = of(1).map(|one| one.begin).collect();
    assert!(begins.len() == 3 && begins[2] >= MS(700), "{begins:?}");
    assert!(of(1).all(|one| one.bytes == 3_000_000));
    let ask = of(2).next().unwrap();
    assert!(ask.answers.len() > 2, "{ask:?}");
    assert_eq!(ask.bytes, ask.answers.len() as u64 * 20_000);
    assert!(of(3).map(|one| one.bytes).eq([1_000_000, 1_000_000]));
    assert!(of(4).next().unwrap().bytes > 100_000);
    // Bytes are counted by second. The open download has none in the first, and the last upload
    // none in the first two, although a report was late.
    assert_eq!(played.seconds[0][0], 0);
    assert_eq!(played.seconds[4][..2], [0, 0]);
    assert_eq!(played.seconds[3].iter().sum::<u64>(), 2_000_000);
}

#[test]
fn datagrams_short_flows_syns_and_echoes_run_too() {
    let stream = |ms, count| Stream {
        interval: MS(ms),
        payload: 172,
        count,
    };
    let datagrams = |direction, stream| Doing::Datagrams { direction, stream };
    let mut voice = flow("voice", datagrams(None, stream(20, None)), (0, 2000));
    voice.manner.dscp = 46;
    let short = |begin, bytes| Short {
        begin: MS(begin),
        end: MS(2500),
        bytes,
    };
    let flows = vec![vec![short(100, 30_000), short(110, 1), short(900, 5000)]];
    let direction = Direction::Down;
    let plays = vec![
        voice,
        flow(
            "down",
            datagrams(Some(Direction::Down), stream(5, Some(100))),
            (500, 2500),
        ),
        flow(
            "up",
            datagrams(Some(Direction::Up), stream(1, None)),
            (1000, 2000),
        ),
        flow("web", Doing::Short { direction, flows }, (0, 2500)),
        flow("storm", Doing::Syns(MS(25)), (0, 1000)),
    ];
    let ping = Ping {
        name: String::from("ask"),
        udp: true,
        interval: MS(50),
        size: 60,
        dscp: 0,
        runs: vec![(MS(0), MS(2000))],
    };
    let sequence = Sequence {
        plays,
        pings: vec![ping],
        length: MS(2500),
    };
    let played = play(&sequence, server(), &Stop::default(), &mut |_, _| ()).unwrap();
    for one in &played.transfers {
        assert_eq!(one.failed, None, "{one:?}");
    }
    let of = |play| played.transfers.iter().filter(move |one| one.play == play);
    let counted = |play| of(play).flat_map(|one| one.counted.iter());
    // A conversation sends one datagram each 20 ms for 2 s, in both directions.
    let directions: Vec<Direction> = counted(0).map(|one| one.direction).collect();
    assert_eq!(directions, [Direction::Up, Direction::Down]);
    for one in counted(0).chain(counted(1)).chain(counted(2)) {
        let received = one.received.unwrap();
        assert_eq!(received.count, one.sent, "{one:?}");
        assert_eq!(received.bytes, one.sent * 172, "{one:?}");
        let delays = received.delays.unwrap();
        assert!(delays.p50 <= delays.max && delays.max < MS(500), "{one:?}");
    }
    assert!(counted(0).all(|one| (80..=105).contains(&one.sent)));
    assert!(
        counted(1)
            .map(|one| (one.direction, one.sent))
            .eq([(Direction::Down, 100)])
    );
    let up = counted(2).next().unwrap();
    assert!((800..=1005).contains(&up.sent), "{up:?}");
    // On a busy machine, the second may begin before the first.
    let mut short: Vec<u64> = of(3).map(|one| one.bytes).collect();
    short.sort_unstable();
    assert_eq!(short, [1, 5000, 30_000]);
    let storm = counted(4).next().unwrap();
    assert!((35..=41).contains(&storm.sent), "{storm:?}");
    assert_eq!(storm.received, None);
    // The bytes by second include datagrams.
    assert_eq!(played.seconds[1].iter().sum::<u64>(), 100 * 172);
    let back = played.echoes.iter().filter(|one| one.took.is_some());
    assert!(played.echoes.len() == 40 && back.count() == 40);
}

/// A client cannot direct datagrams at another host. They go to the address of the connection, and
/// only after the word that was sent there has returned from it.
#[test]
fn datagrams_wait_for_the_word() {
    let address = server();
    let stream = TcpStream::connect(address).unwrap();
    let line = b"weirgate-load 2 datagrams down 1000000 100 - 0\n";
    (&stream).write_all(line).unwrap();
    let mut from = BufReader::new(&stream);
    let mut line = || {
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        line
    };
    assert_eq!(line(), "yes\n");
    let place = line();
    let (port, word) = place.trim_end().split_once(' ').unwrap();
    assert_eq!(word.len(), 32);
    let to = (address.ip(), port.parse().unwrap());
    let mut payload = [0; 200];
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(MS(400))).unwrap();
    socket.send_to(&[b'0'; 32], to).unwrap();
    socket.recv(&mut payload).unwrap_err();
    // The right word from another address has no effect.
    let other = UdpSocket::bind("127.0.0.2:0").unwrap();
    other.set_read_timeout(Some(MS(400))).unwrap();
    other.send_to(word.as_bytes(), to).unwrap();
    other.recv(&mut payload).unwrap_err();
    socket.send_to(word.as_bytes(), to).unwrap();
    assert_eq!(socket.recv(&mut payload).unwrap(), 100);
    // The datagrams stop when the connection ends.
    stream.shutdown(Shutdown::Both).unwrap();
    thread::sleep(MS(500));
    socket.set_nonblocking(true).unwrap();
    while socket.recv(&mut payload).is_ok() {}
    thread::sleep(MS(200));
    socket.recv(&mut payload).unwrap_err();
}

#[test]
fn what_is_wrong_shows_before_anything_begins() {
    let up = Doing::Transfer {
        direction: Direction::Up,
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
    // Another kind of server listens there.
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
        "weirgate-load 2 send 1 99 - - -\n",
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
        .write_all(b"weirgate-load 2 send 70000 0 - - -\n")
        .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(answer.len(), 70_004);
    // A stopped sequence ends at once.
    let stop = Stop::default();
    stop.stop();
    let down = Doing::Transfer {
        direction: Direction::Down,
        bytes: None,
    };
    let long = sequence(vec![flow("down", down, (0, 60_000))], 60_000);
    let played = play(&long, address, &stop, &mut |_, _| ()).unwrap();
    assert!(played.transfers.is_empty());
}

/// Opens a connection from an address of this machine.
fn connected(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    net::bind(&socket, &SocketAddr::from((from, 0))).unwrap();
    net::connect(&socket, &to).unwrap();
    TcpStream::from(socket)
}

#[test]
fn one_network_does_not_take_every_place() {
    let server = server();
    let line = |mut stream: &TcpStream| {
        let mut line = String::new();
        let wanted = Wanted::Send {
            bytes: Some(10),
            manner: Manner::default(),
        };
        stream.write_all(wanted.to_string().as_bytes()).unwrap();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line
    };
    let crowd: Vec<TcpStream> = (0..300)
        .map(|_| connected([127, 0, 0, 1], server))
        .collect();
    let last = crowd.last().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let mut refused = String::new();
    BufReader::new(last).read_line(&mut refused).unwrap();
    assert_eq!(refused, "no: too many ask at a time\n");
    assert_eq!(line(&connected([127, 0, 1, 1], server)), "yes\n");
}
