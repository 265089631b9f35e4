// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The serving end on loopback: who gets what.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use weirgate_probe::{COOKIE, Client, Direction, Message, Server, Train};

fn server() -> SocketAddr {
    let server = Server::bind("127.0.0.1:0".parse().expect("a socket")).expect("a socket");
    let address = server.address().expect("a socket");
    std::thread::spawn(move || server.run());
    address
}

fn socket(server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(server).expect("a socket");
    socket
}

fn send(socket: &UdpSocket, message: &Message) {
    socket.send(&message.bytes()).expect("a socket");
}

/// What comes next; a greeting is answered whatever was sent before it, so
/// that its answer shows that nothing else came.
fn next(socket: &UdpSocket) -> Message {
    let mut payload = [0; 2048];
    socket
        .set_read_timeout(Some(Duration::from_mins(1)))
        .expect("a socket");
    let length = socket.recv(&mut payload).expect("a socket");
    let read = Message::read(&payload[..length]);
    read.expect("it is in range").expect("it is a message")
}

const TRAIN: Train = Train {
    id: 7,
    payload: 100,
    count: 50,
    gap_ns: 10_000,
};

/// One that takes ten seconds.
const LONG: Train = Train {
    count: 100,
    gap_ns: 100_000_000,
    ..TRAIN
};

/// As many packets as the default receive buffer of Linux holds (`rmem_default` is 212,992 bytes,
/// and each small packet is charged 1,280), so that none is lost however late the receiver runs.
const COUNT: u32 = 150;

#[test]
fn trains_go_both_ways() {
    let mut client = Client::greet(server()).expect("a socket");
    assert!(client.round_trip().expect("a socket") < Duration::from_mins(1));
    for direction in [Direction::Up, Direction::Down] {
        let seen = client
            .train(direction, 200, COUNT, Duration::from_micros(100))
            .expect("a socket");
        assert_eq!(seen.received, COUNT, "{direction:?}");
        assert!(seen.gap_ns > 0.0, "{direction:?}: {seen:?}");
    }
}

#[test]
fn without_a_cookie_there_is_only_a_greeting() {
    let server = server();
    let one = socket(server);
    let wrong = [9; COOKIE];
    for message in [
        Message::Send {
            cookie: wrong,
            train: TRAIN,
        },
        Message::Expect {
            cookie: wrong,
            train: TRAIN,
        },
        Message::Ask {
            cookie: wrong,
            id: 7,
        },
        Message::Data {
            id: 7,
            index: 0,
            sent_ns: 0,
        },
        Message::Hello { nonce: 1 },
    ] {
        send(&one, &message);
    }
    let Message::Welcome { nonce: 1, cookie } = next(&one) else {
        panic!("no welcome");
    };
    // The cookie is of this address and no other.
    let other = socket(server);
    send(
        &other,
        &Message::Send {
            cookie,
            train: TRAIN,
        },
    );
    send(&other, &Message::Hello { nonce: 2 });
    assert!(matches!(next(&other), Message::Welcome { nonce: 2, .. }));
    send(
        &one,
        &Message::Send {
            cookie,
            train: TRAIN,
        },
    );
    assert!(matches!(
        next(&one),
        Message::Data {
            id: 7,
            index: 0,
            ..
        }
    ));
}

#[test]
fn too_much_is_refused() {
    let one = socket(server());
    send(&one, &Message::Hello { nonce: 1 });
    let Message::Welcome { cookie, .. } = next(&one) else {
        panic!("no welcome");
    };
    for train in [
        Train {
            count: u32::MAX,
            ..TRAIN
        },
        Train {
            payload: u16::MAX,
            ..TRAIN
        },
        Train {
            payload: 3,
            ..TRAIN
        },
        Train {
            gap_ns: u64::MAX,
            ..TRAIN
        },
        Train {
            gap_ns: 1_000_000_000,
            ..TRAIN
        },
        Train { count: 1, ..TRAIN },
    ] {
        send(&one, &Message::Send { cookie, train });
        assert_eq!(next(&one), Message::Refused { id: 7 }, "{train:?}");
        send(&one, &Message::Expect { cookie, train });
        assert_eq!(next(&one), Message::Refused { id: 7 }, "{train:?}");
    }
    // Two long trains to a network at a time; a third is refused.
    for id in 0..3 {
        send(
            &one,
            &Message::Send {
                cookie,
                train: Train { id, ..LONG },
            },
        );
    }
    let refused = (0..10_000)
        .map(|_| next(&one))
        .find(|message| matches!(message, Message::Refused { .. }));
    assert_eq!(refused, Some(Message::Refused { id: 2 }));
}

/// A socket at an address of this machine, and the cookie that it has.
fn greeted(address: &str, server: SocketAddr) -> (UdpSocket, [u8; COOKIE]) {
    let socket = UdpSocket::bind((address, 0)).expect("a socket");
    socket.connect(server).expect("a socket");
    send(&socket, &Message::Hello { nonce: 3 });
    match next(&socket) {
        Message::Welcome { cookie, .. } => (socket, cookie),
        other => panic!("no welcome: {other:?}"),
    }
}

#[test]
fn one_network_does_not_take_all_trains_that_are_sent() {
    let server = server();
    let (crowd, cookie) = greeted("127.0.0.1", server);
    for id in 0..8 {
        let train = Train { id, ..LONG };
        send(&crowd, &Message::Send { cookie, train });
    }
    let (other, cookie) = greeted("127.0.1.1", server);
    let train = TRAIN;
    send(&other, &Message::Send { cookie, train });
    let first = next(&other);
    assert!(matches!(first, Message::Data { id: 7, .. }), "{first:?}");
}

#[test]
fn one_network_does_not_evict_trains_of_another() {
    let server = server();
    let (other, own) = greeted("127.0.1.1", server);
    let train = TRAIN;
    send(&other, &Message::Expect { cookie: own, train });
    assert_eq!(next(&other), Message::Ready { id: 7 });
    for _ in 0..20 {
        let (crowd, cookie) = greeted("127.0.0.1", server);
        send(&crowd, &Message::Expect { cookie, train });
        assert_eq!(next(&crowd), Message::Ready { id: 7 });
    }
    send(&other, &Message::Ask { cookie: own, id: 7 });
    send(&other, &Message::Hello { nonce: 4 });
    let first = next(&other);
    assert!(matches!(first, Message::Report { id: 7, .. }), "{first:?}");
}

/// The time of a server's answers to a hundred questions about a train with this many packets.
fn questions_take(count: u32) -> Duration {
    let mut server = Server::bind("127.0.0.1:0".parse().expect("a socket")).expect("a socket");
    let from = "192.0.2.1:9".parse().expect("an address");
    let mut answer = |message| server.answer(&message, from, 5);
    let Some(Message::Welcome { cookie, .. }) = answer(Message::Hello { nonce: 1 }) else {
        panic!("no welcome");
    };
    let train = Train {
        payload: 21,
        count,
        gap_ns: 0,
        ..TRAIN
    };
    let ready = answer(Message::Expect { cookie, train });
    assert_eq!(ready, Some(Message::Ready { id: 7 }));
    let data = |index| Message::Data {
        id: 7,
        index,
        sent_ns: 1,
    };
    for index in 0..count {
        answer(data(index));
    }
    let ask = || Message::Ask { cookie, id: 7 };
    let first = answer(ask());
    let begin = Instant::now();
    for _ in 0..100 {
        // A repeated packet is no reason to evaluate the train again.
        answer(data(0));
        assert_eq!(answer(ask()), first);
    }
    begin.elapsed()
}

#[test]
fn a_question_costs_no_more_after_a_long_train() {
    let least = |count| (0..5).map(|_| questions_take(count)).min();
    let (short, long) = (least(2), least(65_536));
    println!("2 packets {short:?}, 65,536 packets {long:?}");
    assert!(long < short.map(|short| short * 20), "{short:?}, {long:?}");
}

#[test]
fn an_equal_train_after_a_report_is_a_new_one() {
    let server = server();
    let (one, cookie) = greeted("127.0.0.1", server);
    let train = TRAIN;
    for index in [0, 1] {
        send(&one, &Message::Expect { cookie, train });
        assert_eq!(next(&one), Message::Ready { id: 7 });
        for index in 0..=index {
            send(
                &one,
                &Message::Data {
                    id: 7,
                    index,
                    sent_ns: 1,
                },
            );
        }
        send(&one, &Message::Ask { cookie, id: 7 });
        let Message::Report { seen, .. } = next(&one) else {
            panic!("no report");
        };
        assert_eq!(seen.received, index + 1);
    }
}
