// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fills a line with an iperf3 server, by four TCP connections in one direction at a time
//! (software.es.net/iperf). The states and messages are those of its iperf_api.h and
//! iperf_api.c.

use crate::bound::{OutOfRange, within};
use crate::patient::{Patient, Talk};
use crate::remote::error::RemoteError;
use crate::remote::transfer::{Transfer, count};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weirgate_units::Direction;

/// The default port of iperf3 servers.
pub const IPERF3_PORT: u16 = 5201;

/// The number of concurrent connections.
const STREAMS: usize = 4;
/// The size of a write in bytes.
const BLOCK: usize = 131_072;
/// The timeout for an answer of a server, and its largest size.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often to try to start a test, and the pause between attempts.
const TRIES: u32 = 8;
const PAUSE: Duration = Duration::from_millis(300);
const LONGEST: u32 = 1 << 20;

const TEST_START: i8 = 1;
const TEST_RUNNING: i8 = 2;
const TEST_END: i8 = 4;
const PARAM_EXCHANGE: i8 = 9;
const CREATE_STREAMS: i8 = 10;
const EXCHANGE_RESULTS: i8 = 13;
const DISPLAY_RESULTS: i8 = 14;
const IPERF_DONE: i8 = 16;
const ACCESS_DENIED: i8 = -1;

/// The control connection of a test, which carries all messages.
struct Control<S> {
    stream: S,
    server: SocketAddr,
}

impl<S: Talk> Control<S> {
    /// Reads the next state of the server, which must be this one.
    fn expect(&mut self, state: i8) -> Result<(), RemoteError> {
        let mut byte = [0];
        self.read(&mut byte)?;
        match i8::from_le_bytes(byte) {
            code if code == state => Ok(()),
            ACCESS_DENIED => Err(RemoteError::Refused(format!(
                "the iperf3 server {} (it is busy with another test)",
                self.server
            ))),
            code => Err(RemoteError::Strange(format!(
                "the iperf3 server {} says {code} where {state} is to come",
                self.server
            ))),
        }
    }

    /// Reads exactly this many bytes, within a time.
    fn read(&mut self, to: &mut [u8]) -> Result<(), RemoteError> {
        self.stream.wait(Some(PATIENCE))?;
        let server = || format!("the iperf3 server {}", self.server);
        self.stream
            .read_exact(to)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => RemoteError::Refused(server()),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    RemoteError::Silent(server())
                }
                _ => error.into(),
            })
    }

    fn say(&mut self, state: i8) -> io::Result<()> {
        self.stream.write_all(&state.to_le_bytes())
    }

    fn tell(&mut self, value: &Value) -> io::Result<()> {
        let text = value.to_string();
        self.stream.write_all(&(text.len() as u32).to_be_bytes())?;
        self.stream.write_all(text.as_bytes())
    }

    fn hear(&mut self) -> Result<Vec<u8>, RemoteError> {
        let mut length = [0; 4];
        self.read(&mut length)?;
        let length = within(
            "length of the result",
            u32::from_be_bytes(length),
            0..=LONGEST,
        );
        let length = length.map_err(self.named())?;
        let mut text = vec![0; length as usize];
        self.read(&mut text)?;
        Ok(text)
    }

    /// Returns a function that makes an error which names the server.
    fn named(&self) -> impl FnOnce(OutOfRange) -> RemoteError + use<S> {
        RemoteError::out_of_range(format!("the iperf3 server {}", self.server))
    }
}

/// Connects to a server.
fn connect(server: SocketAddr) -> Result<TcpStream, RemoteError> {
    let stream = TcpStream::connect_timeout(&server, PATIENCE);
    stream.map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::TimedOut => {
            RemoteError::Silent(format!("the iperf3 server {server}"))
        }
        _ => error.into(),
    })
}

/// Starts a test: makes its control connection and its data connections. Between two tests, a
/// server reopens its listening socket, so a failure may be temporary.
fn begin(
    server: SocketAddr,
    direction: Direction,
    time: Duration,
) -> Result<(Control<Patient>, Vec<TcpStream>), RemoteError> {
    let mut tries = 0;
    loop {
        tries += 1;
        match begun(server, direction, time) {
            Err(RemoteError::Socket(_) | RemoteError::Silent(_) | RemoteError::Refused(_))
                if tries < TRIES =>
            {
                thread::sleep(PAUSE);
            }
            other => return other,
        }
    }
}

fn begun(
    server: SocketAddr,
    direction: Direction,
    time: Duration,
) -> Result<(Control<Patient>, Vec<TcpStream>), RemoteError> {
    let cookie = cookie()?;
    let stream = connect(server)?;
    stream.set_nodelay(true)?;
    (&stream).write_all(&cookie)?;
    let stream = Patient::new(stream);
    let mut control = Control { stream, server };
    agreed(&mut control, direction, time)?;
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        let mut stream = connect(server)?;
        stream.write_all(&cookie)?;
        streams.push(stream);
    }
    started(&mut control)?;
    Ok((control, streams))
}

/// Sends the parameters of the test; the data connections follow.
fn agreed(
    control: &mut Control<impl Talk>,
    direction: Direction,
    time: Duration,
) -> Result<(), RemoteError> {
    control.expect(PARAM_EXCHANGE)?;
    let mut asked = json!({
        "tcp": true,
        "omit": 0,
        // The server stops by itself some time after this.
        "time": time.as_secs() + 1,
        "num": 0,
        "blockcount": 0,
        "parallel": STREAMS,
        "len": BLOCK,
        "pacing_timer": 1000,
        "client_version": "3.12",
    });
    if direction == Direction::Down {
        // Its mere presence reverses the direction, whatever its value (get_parameters).
        asked["reverse"] = true.into();
    }
    control.tell(&asked)?;
    control.expect(CREATE_STREAMS)
}

fn started(control: &mut Control<impl Talk>) -> Result<(), RemoteError> {
    control.expect(TEST_START)?;
    control.expect(TEST_RUNNING)
}

/// Performs the dialogue on the control connection of a test that sent this many bytes in this
/// time. Returns the server's count of received bytes.
pub fn converse(
    stream: impl Talk,
    server: SocketAddr,
    direction: Direction,
    (sent, time): (u64, Duration),
) -> Result<Option<Transfer>, RemoteError> {
    let mut control = Control { stream, server };
    agreed(&mut control, direction, time)?;
    started(&mut control)?;
    ended(&mut control, &AtomicU64::new(sent), time, direction)
}

/// Fills the line in one direction for a time.
pub(crate) fn fill(
    server: SocketAddr,
    direction: Direction,
    time: Duration,
) -> Result<Transfer, RemoteError> {
    let (mut control, streams) = begin(server, direction, time)?;
    let counted = AtomicU64::new(0);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let workers: Vec<_> = streams
            .iter()
            .map(|stream| scope.spawn(|| work(stream, direction, &counted, &over)))
            .collect();
        let begin = Instant::now();
        let transfer = count(time, &counted);
        // Continue reading, so that the server is not blocked.
        over.store(direction == Direction::Up, Ordering::Relaxed);
        let result = ended(&mut control, &counted, begin.elapsed(), direction);
        for stream in &streams {
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(workers);
        let theirs = result?;
        // Written bytes may still be queued here, so use the server's count.
        Ok(match direction {
            Direction::Down => transfer,
            Direction::Up => theirs.unwrap_or(transfer),
        })
    })
}

/// Reads, or writes until it is over; ends when the connection does.
fn work(mut stream: &TcpStream, direction: Direction, counted: &AtomicU64, over: &AtomicBool) {
    let mut block = vec![0; BLOCK];
    while !over.load(Ordering::Relaxed) {
        let done = match direction {
            Direction::Down => stream.read(&mut block),
            Direction::Up => stream.write(&block),
        };
        match done {
            Ok(bytes @ 1..) => counted.fetch_add(bytes as u64, Ordering::Relaxed),
            _ => return,
        };
    }
}

/// Ends a test, and returns the server's count of received bytes.
fn ended(
    control: &mut Control<impl Talk>,
    counted: &AtomicU64,
    time: Duration,
    direction: Direction,
) -> Result<Option<Transfer>, RemoteError> {
    control.say(TEST_END)?;
    control.expect(EXCHANGE_RESULTS)?;
    // The second of several streams has the number 3 (iperf_add_stream).
    let numbers = (0..STREAMS).map(|place| if place == 0 { 1 } else { place + 2 });
    let bytes = counted.load(Ordering::Relaxed) / STREAMS as u64;
    let streams: Vec<Value> = numbers
        .map(|number| {
            json!({
                "id": number, "bytes": bytes, "retransmits": -1, "jitter": 0, "errors": 0,
                "packets": 0, "start_time": 0, "end_time": time.as_secs_f64(),
            })
        })
        .collect();
    control.tell(&json!({
        "cpu_util_total": 0.0, "cpu_util_user": 0.0, "cpu_util_system": 0.0,
        "sender_has_retransmits": -1, "streams": streams,
    }))?;
    let theirs = control.hear()?;
    control.expect(DISPLAY_RESULTS)?;
    control.say(IPERF_DONE)?;
    // The server closes the connection when it has finished, and accepts another test soon
    // after.
    let _ = control.stream.read(&mut [0]);
    if direction == Direction::Down {
        return Ok(None);
    }
    // A write in progress may have passed a part of its block to the kernel.
    let sent = counted.load(Ordering::Relaxed) + (STREAMS * BLOCK) as u64;
    let results: Results = serde_json::from_slice(&theirs).map_err(|_| {
        RemoteError::Strange(format!(
            "the iperf3 server {} sends a result that is not of iperf3",
            control.server
        ))
    })?;
    results.received(sent, time).map_err(control.named())
}

/// The report of a server about a test.
#[derive(Debug, Deserialize)]
pub struct Results {
    #[serde(default)]
    streams: Vec<OfStream>,
}

/// Numbers come from cJSON, which uses floating point for all of them.
#[derive(Debug, Deserialize)]
struct OfStream {
    bytes: f64,
    end_time: Option<f64>,
}

impl Results {
    /// Returns the bytes that the server received in a test which sent at most `sent` bytes in
    /// this time; `None` if it reports no time or no bytes.
    pub fn received(&self, sent: u64, time: Duration) -> Result<Option<Transfer>, OutOfRange> {
        let (mut bytes, mut longest) = (0.0, 0.0_f64);
        let time = time.as_secs_f64();
        let latest = time + 2.0 * PATIENCE.as_secs_f64();
        within("number of streams", self.streams.len(), 0..=STREAMS)?;
        for stream in &self.streams {
            bytes += within("bytes", stream.bytes, 0.0..=sent as f64)?;
            if let Some(end) = stream.end_time.filter(|end| *end != 0.0) {
                longest = longest.max(within("end_time", end, time / 2.0..=latest)?);
            }
        }
        let bytes = within("bytes of all streams", bytes, 0.0..=sent as f64)?;
        Ok((bytes > 0.0 && longest > 0.0).then(|| Transfer {
            bytes: bytes as u64,
            time: Duration::from_secs_f64(longest),
        }))
    }
}

/// Returns a random identifier of the test: 36 letters and a zero.
fn cookie() -> io::Result<[u8; 37]> {
    let mut bytes = [0; 37];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    for byte in &mut bytes {
        *byte = b"abcdefghijklmnopqrstuvwxyz234567"[usize::from(*byte % 32)];
    }
    bytes[36] = 0;
    Ok(bytes)
}
