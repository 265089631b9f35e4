// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes a whole conversation of `weirgate probe` or `probe --serve` with a hostile peer: any
//! bytes as everything that the peer sends, in order. The first byte selects the kind of
//! conversation.
//!
//! Besides "no panic", this must hold: the conversation ends when the peer has sent everything, and
//! the measured values are consistent with what was sent.

mod bulk;

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use weirgate_probe::{
    Client, Datagrams, Direction, Doing, Irtt, Manner, Message, Play, Reflector, Sequence, Server,
    Stop, Stream, Talk, Train, converse, measure, play,
};

const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9);

/// The duration of a sequence: just long enough to begin.
const SHORT: Duration = Duration::from_millis(2);

pub fn run(data: &[u8]) {
    let Some((first, bytes)) = data.split_first() else {
        return;
    };
    match first {
        b'u' => trains(bytes, Direction::Up),
        b'd' => trains(bytes, Direction::Down),
        b's' => served(bytes),
        b'b' => bulk::run(bytes),
        b'e' => echoes(bytes),
        b'i' => iperf3(bytes, Direction::Up),
        b'j' => iperf3(bytes, Direction::Down),
        b'0'..=b'4' => sequence(first - b'0', bytes),
        _ => {}
    }
}

/// The datagrams of a peer, each after its length; [`AGAIN`] instead of a length restarts the
/// script. Values that the peer cannot know in advance (an echoed number, a train's number) are
/// filled in where the script has 0.
#[derive(Debug)]
struct Script {
    bytes: Vec<u8>,
    cursor: RefCell<Cursor>,
}

#[derive(Debug, Default)]
struct Cursor {
    at: usize,
    rounds: usize,
    asked: Option<Message>,
}

const AGAIN: u8 = 255;
/// How often a script may restart.
const ROUNDS: usize = 200;

impl Script {
    fn of(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.to_vec(),
            cursor: RefCell::default(),
        }
    }

    /// Returns the next datagram.
    fn next(&self) -> Option<Vec<u8>> {
        let mut cursor = self.cursor.borrow_mut();
        let mut length = *self.bytes.get(cursor.at)?;
        if length == AGAIN && cursor.rounds < ROUNDS {
            cursor.rounds += 1;
            cursor.at = 0;
            length = *self.bytes.first()?;
        }
        let begin = cursor.at + 1;
        cursor.at = (begin + usize::from(length)).min(self.bytes.len());
        Some(self.bytes[begin..cursor.at].to_vec())
    }
}

impl Datagrams for Script {
    fn send(&self, payload: &[u8]) -> io::Result<()> {
        self.cursor.borrow_mut().asked = Message::read(payload).ok().flatten();
        Ok(())
    }

    fn hear(&self, to: &mut [u8], _: Duration) -> io::Result<usize> {
        let bytes = self.next().ok_or(io::ErrorKind::UnexpectedEof)?;
        let bytes = match Message::read(&bytes) {
            Ok(Some(message)) => fitting(message, self.cursor.borrow().asked.as_ref()).bytes(),
            _ => bytes,
        };
        to[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn send_train(&self, train: &Train, _: Instant) -> io::Result<()> {
        assert!(train.check().is_ok(), "{train:?}");
        Ok(())
    }

    fn pause(&self, time: Duration) {
        assert!(time <= Duration::from_secs(1), "{time:?}");
    }
}

/// Fills in the number of the request that an answer belongs to.
fn fitting(mut answer: Message, asked: Option<&Message>) -> Message {
    let asked_id = match asked {
        Some(Message::Send { train, .. } | Message::Expect { train, .. }) => Some(train.id),
        Some(Message::Ask { id, .. }) => Some(*id),
        _ => None,
    };
    match (&mut answer, asked) {
        (Message::Welcome { nonce, .. }, Some(Message::Hello { nonce: own })) if *nonce == 0 => {
            *nonce = *own;
        }
        (
            Message::Ready { id }
            | Message::Report { id, .. }
            | Message::Data { id, .. }
            | Message::Refused { id },
            _,
        ) if *id == 0 => *id = asked_id.unwrap_or(0),
        _ => {}
    }
    answer
}

/// Measures one direction with a server.
fn trains(bytes: &[u8], direction: Direction) {
    let Ok(mut client) = Client::over(Box::new(Script::of(bytes)), PEER) else {
        return;
    };
    if let Ok(found) = client.train(direction, 100, 40, Duration::ZERO) {
        assert!(found.received <= 40);
    }
    if let Ok(measured) = measure(&mut client, direction, &mut |_| ()) {
        assert!(measured.ip_rate.as_bits_per_second() > 0);
    }
}

/// Fuzzes a client of a server, which knows the cookie.
fn served(bytes: &[u8]) {
    let Ok(mut server) = Server::bind((Ipv4Addr::LOCALHOST, 0).into()) else {
        return;
    };
    let script = Script::of(bytes);
    let mut own = None;
    while let Some(payload) = script.next() {
        let Ok(Some(mut message)) = Message::read(&payload) else {
            continue;
        };
        if let Message::Send { cookie, train } = &mut message {
            // A valid train would be sent for up to twelve seconds, so make it invalid.
            (*cookie, train.count) = (own.unwrap_or(*cookie), train.count.max(1 << 30));
        }
        if let Message::Expect { cookie, .. } | Message::Ask { cookie, .. } = &mut message {
            *cookie = own.unwrap_or(*cookie);
        }
        let answer = server.answer(&message, PEER, u64::from(payload.len() as u32) << 20);
        // A client may refuse a report about times that a client made up.
        if let Some(Message::Welcome { cookie, .. }) = answer {
            own = Some(cookie);
        }
    }
}

/// Fuzzes a conversation with an irtt server: its opening, two echoes and its end.
fn echoes(bytes: &[u8]) {
    let Ok(mut irtt) = Irtt::over(Box::new(Script::of(bytes)), PEER) else {
        return;
    };
    for _ in 0..2 {
        let _ = irtt.echo(60, Duration::from_secs(1));
    }
}

/// The peer's data on a connection; everything that is sent to the peer is accepted.
#[derive(Debug)]
struct Replies<'a>(&'a [u8]);

impl Read for Replies<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.0.read(to)
    }
}

impl Write for Replies<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Talk for Replies<'_> {
    fn wait(&mut self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }
}

fn iperf3(bytes: &[u8], direction: Direction) {
    let sent = 1 << 40;
    let time = Duration::from_secs(10);
    if let Ok(Some(transfer)) = converse(Replies(bytes), PEER, direction, (sent, time)) {
        assert!(transfer.bytes <= sent + (1 << 20) && transfer.time >= time / 2);
    }
}

/// A server of sequences on this machine that sends the next text to each client, and closes the
/// connection.
struct Liar {
    port: u16,
    texts: Sender<Vec<u8>>,
}

impl Liar {
    fn new() -> io::Result<Self> {
        // Listen on all addresses of this machine, because each has separate client ports.
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        let port = listener.local_addr()?.port();
        let (texts, heard) = mpsc::channel::<Vec<u8>>();
        thread::spawn(move || {
            let mut text = Vec::new();
            for stream in listener.incoming().flatten() {
                text = heard.try_iter().last().unwrap_or(text);
                let _ = says(&stream, &text);
            }
        });
        Ok(Self { port, texts })
    }
}

fn says(mut stream: &TcpStream, text: &[u8]) -> io::Result<()> {
    // Read the request, which is a line.
    let mut byte = [0];
    while stream.read(&mut byte)? == 1 && byte != *b"\n" {}
    stream.write_all(text)
}

/// Fuzzes one flow of a sequence.
fn sequence(kind: u8, bytes: &[u8]) {
    static LIAR: LazyLock<Option<Mutex<Liar>>> = LazyLock::new(|| Liar::new().ok().map(Mutex::new));
    static PLACE: AtomicU16 = AtomicU16::new(0);
    let Some(liar) = &*LIAR else { return };
    let liar = liar.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = liar.texts.send(bytes.to_vec());
    let [high, low] = PLACE.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let server = SocketAddr::new(Ipv4Addr::new(127, 1, high, low).into(), liar.port);
    let stream = Stream {
        interval: Duration::from_millis(1),
        payload: 60,
        count: Some(2),
    };
    let transfer = |direction| Doing::Transfer {
        direction,
        bytes: Some(1_000),
    };
    let doing = match kind {
        0 => transfer(Direction::Down),
        1 => transfer(Direction::Up),
        2 => Doing::Requests {
            request: 10,
            response: 10,
            think: Duration::ZERO,
        },
        3 => Doing::Syns(Duration::from_millis(1)),
        // Where datagrams come, a second of silence ends them: too long for each input.
        _ => Doing::Datagrams {
            direction: Some(Direction::Up),
            stream,
        },
    };
    let sequence = Sequence {
        plays: vec![Play {
            name: String::from("one"),
            doing,
            manner: Manner::default(),
            runs: vec![(Duration::ZERO, SHORT)],
            count: 1,
            stagger: Duration::ZERO,
        }],
        pings: Vec::new(),
        length: SHORT,
    };
    let begin = Instant::now();
    let played = play(&sequence, server, &Stop::default(), &mut |_, _| ());
    assert!(begin.elapsed() < Duration::from_secs(20), "it does not end");
    for transferred in played.into_iter().flat_map(|played| played.transfers) {
        assert!(transferred.bytes <= 1 << 20);
        let shown = transferred.failed.unwrap_or_default();
        assert!(!shown.chars().any(char::is_control), "{shown:?}");
    }
}
