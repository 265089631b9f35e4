// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A scripted sequence on real hosts: transfers and echoes that begin and end
//! when they are told to, towards one serving end.

use crate::client::Way;
use crate::echo::{Echo, Icmp, Reflector as _};
use crate::remote::RemoteError;
use crate::wanted::{Manner, Wanted};
use rustix::net::sockopt;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A connection is made within this time.
const PATIENCE: Duration = Duration::from_secs(10);
/// An echo that takes longer is lost: a modem's buffer may hold it for seconds.
const LOST: Duration = Duration::from_secs(8);
const BLOCK: usize = 65_536;

/// What a flow does while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doing {
    /// One transfer for each run: of so many bytes, or until the run ends.
    Transfer {
        /// Which way.
        way: Way,
        /// How many.
        bytes: Option<u64>,
    },
    /// Requests, one after the other.
    Requests {
        /// Bytes of a request.
        request: u64,
        /// Bytes of a response.
        response: u64,
        /// Pause after a response.
        think: Duration,
    },
}

/// A flow, or several equal ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Play {
    /// Its name.
    pub name: String,
    /// What it does.
    pub doing: Doing,
    /// How its packets are.
    pub manner: Manner,
    /// From when to when it runs, since the beginning.
    pub runs: Vec<(Duration, Duration)>,
    /// How many at once.
    pub count: u16,
    /// How long after the one before each begins.
    pub stagger: Duration,
}

/// Echoes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ping {
    /// Its name.
    pub name: String,
    /// How often.
    pub interval: Duration,
    /// Bytes of the IP packet.
    pub size: u32,
    /// Its code point.
    pub dscp: u8,
    /// When it runs.
    pub runs: Vec<(Duration, Duration)>,
}

/// A sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    /// Flows.
    pub plays: Vec<Play>,
    /// Echoes.
    pub pings: Vec<Ping>,
    /// How long all of it takes.
    pub length: Duration,
}

/// A transfer, or the requests of one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transferred {
    /// Which flow.
    pub play: usize,
    /// Which of its equal ones, from 0.
    pub member: u16,
    /// When it began, since the beginning.
    pub begin: Duration,
    /// When it ended.
    pub end: Duration,
    /// Bytes of data that arrived: of requests, of the responses.
    pub bytes: u64,
    /// How long each request took until its response was whole.
    pub answers: Vec<Duration>,
    /// Why it ended, where that was not by plan.
    pub failed: Option<String>,
}

/// One echo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pinged {
    /// Of which [`Ping`].
    pub ping: usize,
    /// When it was sent.
    pub at: Duration,
    /// How long it took; `None` of those that were lost.
    pub took: Option<Duration>,
}

/// What a sequence did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Played {
    /// Transfers, as they ended.
    pub transfers: Vec<Transferred>,
    /// Bytes of data of each flow by the second: downwards as they arrived,
    /// upwards as they were given to the kernel.
    pub seconds: Vec<Vec<u64>>,
    /// Echoes, in order of time.
    pub echoes: Vec<Pinged>,
}

/// Stops everybody at once.
#[derive(Debug, Default)]
pub struct Stop {
    over: Mutex<bool>,
    told: Condvar,
    open: Mutex<Vec<TcpStream>>,
}

impl Stop {
    /// Ends what runs.
    pub fn stop(&self) {
        *lock(&self.over) = true;
        self.told.notify_all();
        for stream in lock(&self.open).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Whether it was stopped.
    pub fn stopped(&self) -> bool {
        *lock(&self.over)
    }

    /// Waits until a time; false where it was stopped before.
    fn until(&self, time: Instant) -> bool {
        let mut over = lock(&self.over);
        while !*over {
            let left = time.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let waited = self.told.wait_timeout(over, left);
            over = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Plays a sequence towards a serving end. `progress` is told each second how
/// far it is and how many bytes each flow has moved. Before anything begins the
/// serving end is asked, so that a mistake shows at once.
pub fn play(
    sequence: &Sequence,
    server: SocketAddr,
    stop: &Stop,
    progress: &mut dyn FnMut(Duration, &[u64]),
) -> Result<Played, RemoteError> {
    for play in &sequence.plays {
        // Each manner is asked for once: it may not be had there.
        drop(Connected::open(server, &play.wanted())?);
    }
    let pings: Vec<Icmp> = sequence
        .pings
        .iter()
        .map(|ping| Icmp::open_with(server.ip(), ping.dscp))
        .collect::<Result<_, _>>()?;
    let moved: Vec<AtomicU64> = sequence.plays.iter().map(|_| AtomicU64::new(0)).collect();
    let transfers = Mutex::new(Vec::new());
    let echoes = Mutex::new(Vec::new());
    let mut seconds = vec![Vec::new(); moved.len()];
    let begin = Instant::now();
    thread::scope(|scope| {
        for (number, play) in sequence.plays.iter().enumerate() {
            for member in 0..play.count {
                let (transfers, moved) = (&transfers, &moved[number]);
                scope.spawn(move || {
                    let mut one = Runner {
                        play,
                        number,
                        member,
                        server,
                        begin,
                        stop,
                        moved,
                    };
                    for run in &play.runs {
                        if let Some(done) = one.run(*run) {
                            lock(transfers).push(done);
                        }
                    }
                });
            }
        }
        for (number, (ping, icmp)) in sequence.pings.iter().zip(pings).enumerate() {
            let echoes = &echoes;
            scope.spawn(move || pinged(number, ping, icmp, begin, stop, echoes));
        }
        let mut before = vec![0; moved.len()];
        for second in 1.. {
            let at = Duration::from_secs(second).min(sequence.length);
            if !stop.until(begin + at) {
                break;
            }
            let now: Vec<u64> = moved
                .iter()
                .map(|one| one.load(Ordering::Relaxed))
                .collect();
            for (rows, (now, before)) in seconds.iter_mut().zip(now.iter().zip(&before)) {
                rows.push(now - before);
            }
            before.clone_from(&now);
            progress(begin.elapsed(), &now);
            if at == sequence.length {
                break;
            }
        }
        // All runs have ended; of uploads the other end still says how much came.
    });
    let mut transfers = transfers
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    transfers.sort_by_key(|one: &Transferred| (one.begin, one.play, one.member));
    let mut echoes = echoes.into_inner().unwrap_or_else(PoisonError::into_inner);
    echoes.sort_by_key(|one: &Pinged| (one.at, one.ping));
    Ok(Played {
        transfers,
        seconds,
        echoes,
    })
}

impl Play {
    fn wanted(&self) -> Wanted {
        let manner = self.manner.clone();
        match self.doing {
            Doing::Transfer {
                way: Way::Down,
                bytes,
            } => Wanted::Send { bytes, manner },
            Doing::Transfer { way: Way::Up, .. } => Wanted::Take { manner },
            Doing::Requests {
                request, response, ..
            } => Wanted::Answer {
                request,
                response,
                manner,
            },
        }
    }
}

/// A connection that the serving end has agreed to.
struct Connected {
    stream: TcpStream,
    from: BufReader<TcpStream>,
}

impl Connected {
    fn open(server: SocketAddr, wanted: &Wanted) -> Result<Self, RemoteError> {
        let stream = TcpStream::connect_timeout(&server, PATIENCE).map_err(|error| {
            RemoteError::Strange(format!(
                "{server} takes no TCP connection ({error}); does `weirgate probe --serve` run \
                 there, and does a firewall let TCP through?"
            ))
        })?;
        wanted
            .prepare(&stream, true)
            .map_err(RemoteError::Strange)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        (&stream).write_all(wanted.to_string().as_bytes())?;
        let mut from = BufReader::with_capacity(BLOCK, stream.try_clone()?);
        let mut line = String::new();
        (&mut from).take(400).read_line(&mut line)?;
        match line.trim_end().split_once(": ") {
            None if line == "yes\n" => {}
            Some(("no", why)) => {
                let shown: String = why.chars().take(200).collect();
                return Err(RemoteError::Refused(format!(
                    "{server} ({})",
                    shown.escape_debug()
                )));
            }
            _ => {
                return Err(RemoteError::Strange(format!(
                    "{server} is no `weirgate probe --serve` of this version"
                )));
            }
        }
        // What follows may take long, and is ended by its run.
        stream.set_read_timeout(None)?;
        Ok(Self { stream, from })
    }
}

/// One of several equal flows.
struct Runner<'a> {
    play: &'a Play,
    number: usize,
    member: u16,
    server: SocketAddr,
    begin: Instant,
    stop: &'a Stop,
    moved: &'a AtomicU64,
}

impl Runner<'_> {
    /// One run; nothing where it was stopped before it began.
    fn run(&mut self, (from, to): (Duration, Duration)) -> Option<Transferred> {
        let start = from + self.play.stagger * u32::from(self.member);
        if start >= to || !self.stop.until(self.begin + start) {
            return None;
        }
        let mut done = Transferred {
            play: self.number,
            member: self.member,
            begin: self.begin.elapsed(),
            end: Duration::ZERO,
            bytes: 0,
            answers: Vec::new(),
            failed: None,
        };
        let failed = match Connected::open(self.server, &self.play.wanted()) {
            Err(error) => Some(error.to_string()),
            Ok(connected) => self.moves(connected, self.begin + to, &mut done),
        };
        done.end = self.begin.elapsed();
        done.failed = failed;
        Some(done)
    }

    /// Moves bytes until the run ends, which a thread of its own sees to: reads
    /// and writes may wait for longer.
    fn moves(&self, connected: Connected, end: Instant, done: &mut Transferred) -> Option<String> {
        let Connected { stream, mut from } = connected;
        let Ok(kept) = stream.try_clone() else {
            return Some(String::from("too many open files"));
        };
        let ended = AtomicBool::new(false);
        let up = matches!(self.play.doing, Doing::Transfer { way: Way::Up, .. });
        let result = thread::scope(|scope| {
            let (finished, finish) = std::sync::mpsc::channel::<()>();
            let ended = &ended;
            scope.spawn(move || {
                let left = end.saturating_duration_since(Instant::now());
                let told = finish.recv_timeout(left.min(Duration::from_hours(24)));
                if told == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                    ended.store(true, Ordering::SeqCst);
                    // Of an upload, what is on the way may still arrive.
                    let how = if up { Shutdown::Write } else { Shutdown::Both };
                    let _ = kept.shutdown(how);
                }
            });
            if let Ok(other) = stream.try_clone() {
                lock(&self.stop.open).push(other);
            }
            let result = match self.play.doing {
                Doing::Transfer {
                    way: Way::Down,
                    bytes,
                } => self.down(&mut from, bytes, done),
                Doing::Transfer {
                    way: Way::Up,
                    bytes,
                } => self.up(&stream, &mut from, bytes, done),
                Doing::Requests {
                    request,
                    response,
                    think,
                } => self.requests(&stream, &mut from, (request, response, think), end, done),
            };
            drop(finished);
            result
        });
        let planned = ended.load(Ordering::SeqCst) || self.stop.stopped();
        result
            .err()
            .filter(|_| !planned)
            .map(|error| error.to_string())
    }

    fn down(
        &self,
        from: &mut BufReader<TcpStream>,
        bytes: Option<u64>,
        done: &mut Transferred,
    ) -> io::Result<()> {
        let mut block = vec![0; BLOCK];
        loop {
            let read = from.read(&mut block)?;
            if read == 0 {
                let whole = bytes.is_some_and(|bytes| done.bytes >= bytes);
                return if whole {
                    Ok(())
                } else {
                    Err(io::Error::other("the serving end ended it"))
                };
            }
            done.bytes += read as u64;
            self.moved.fetch_add(read as u64, Ordering::Relaxed);
        }
    }

    fn up(
        &self,
        mut to: &TcpStream,
        from: &mut BufReader<TcpStream>,
        bytes: Option<u64>,
        done: &mut Transferred,
    ) -> io::Result<()> {
        let block = vec![0; BLOCK];
        let mut left = bytes.unwrap_or(u64::MAX);
        // A write ends with an error when the run does.
        while left > 0 {
            let part = left.min(BLOCK as u64) as usize;
            let Ok(written) = to.write(&block[..part]) else {
                break;
            };
            left -= written as u64;
            self.moved.fetch_add(written as u64, Ordering::Relaxed);
        }
        let _ = to.shutdown(Shutdown::Write);
        to.set_read_timeout(Some(Duration::from_secs(30)))?;
        // What counts is what arrived.
        let mut line = String::new();
        from.take(40).read_line(&mut line)?;
        done.bytes = line
            .trim()
            .parse()
            .map_err(|_| io::Error::other("the serving end did not say how much arrived"))?;
        if bytes.is_some() && left > 0 {
            return Err(io::Error::other("the connection ended before all was sent"));
        }
        Ok(())
    }

    fn requests(
        &self,
        mut to: &TcpStream,
        from: &mut BufReader<TcpStream>,
        (request, response, think): (u64, u64, Duration),
        end: Instant,
        done: &mut Transferred,
    ) -> io::Result<()> {
        let block = vec![0; BLOCK];
        loop {
            let asked = Instant::now();
            let mut left = request.max(1);
            while left > 0 {
                let part = left.min(BLOCK as u64) as usize;
                to.write_all(&block[..part])?;
                left -= part as u64;
            }
            let came = io::copy(&mut from.by_ref().take(response), &mut io::sink())?;
            if came < response {
                return Err(io::Error::other("the serving end ended it"));
            }
            done.bytes += came;
            self.moved.fetch_add(came, Ordering::Relaxed);
            done.answers.push(asked.elapsed());
            let next = Instant::now() + think;
            if next >= end || !self.stop.until(next) {
                return Ok(());
            }
        }
    }
}

fn pinged(
    number: usize,
    ping: &Ping,
    mut icmp: Icmp,
    begin: Instant,
    stop: &Stop,
    echoes: &Mutex<Vec<Pinged>>,
) {
    for (from, to) in &ping.runs {
        let mut at = *from;
        while at < *to {
            if !stop.until(begin + at) {
                return;
            }
            let sent = begin.elapsed();
            let took = match icmp.echo(ping.size, LOST) {
                Ok(Echo::After(took)) => Some(took),
                Ok(Echo::Lost | Echo::TooLong) | Err(_) => None,
            };
            lock(echoes).push(Pinged {
                ping: number,
                at: sent,
                took,
            });
            // One that took longer than its turn is not made up for.
            while at <= begin.elapsed() {
                at += ping.interval;
            }
        }
    }
}

/// Sets the code point of a socket for echoes.
pub(crate) fn mark(
    socket: &std::os::fd::OwnedFd,
    v4: bool,
    dscp: u8,
) -> Result<(), rustix::io::Errno> {
    if dscp == 0 {
        Ok(())
    } else if v4 {
        sockopt::set_ip_tos(socket, dscp << 2)
    } else {
        sockopt::set_ipv6_tclass(socket, u32::from(dscp) << 2)
    }
}
