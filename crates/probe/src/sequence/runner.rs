// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs one of several equal flows of a scripted sequence.

use crate::bound::within;
use crate::patient::{Patient, Talk as _};
use crate::remote::error::RemoteError;
use crate::sequence::connected::{Connected, LAST_WORD, Session};
use crate::sequence::datagram;
use crate::sequence::moved::Moved;
use crate::sequence::outcome::{Counted, Transferred};
use crate::sequence::plan::{Doing, Play};
use crate::sequence::skip::skip;
use crate::sequence::stop::{Stop, lock};
use crate::sequence::wanted::{Exchange, Stream, Wanted};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use weirgate_units::Direction;

const BLOCK: usize = 65_536;

/// The work of a TCP connection.
#[derive(Clone, Copy)]
enum Moving {
    Down(Option<u64>),
    Up(Option<u64>),
    /// The sizes of requests and responses, and the pause after each.
    Requests(u64, u64, Duration),
}

impl Moving {
    fn transfer(direction: Direction, bytes: Option<u64>) -> Self {
        match direction {
            Direction::Down => Self::Down(bytes),
            Direction::Up => Self::Up(bytes),
        }
    }

    fn wanted(self, play: &Play) -> Wanted {
        let manner = play.manner.clone();
        match self {
            Self::Down(bytes) => Wanted::Send { bytes, manner },
            Self::Up(_) => Wanted::Take { manner },
            Self::Requests(request, response, _) => Wanted::Answer {
                request,
                response,
                manner,
            },
        }
    }
}

/// Asks the server once for everything that a flow will need.
pub(crate) fn tried(play: &Play, server: SocketAddr) -> Result<(), RemoteError> {
    let dscp = play.manner.dscp;
    match play.doing {
        Doing::Transfer { direction, bytes } => {
            Connected::open(server, &Moving::transfer(direction, bytes).wanted(play)).map(drop)
        }
        Doing::Short { direction, .. } => {
            Connected::open(server, &Moving::transfer(direction, None).wanted(play)).map(drop)
        }
        Doing::Requests {
            request,
            response,
            think,
        } => {
            let moving = Moving::Requests(request, response, think);
            Connected::open(server, &moving.wanted(play)).map(drop)
        }
        Doing::Datagrams { direction, stream } => {
            Session::open(server, exchange(direction, stream), dscp).map(drop)
        }
        Doing::Syns(_) => Connected::open(server, &Wanted::Silence)?
            .port(server)
            .map(drop),
    }
}

fn exchange(direction: Option<Direction>, stream: Stream) -> Exchange {
    match direction {
        Some(Direction::Down) => Exchange::Down(stream),
        Some(Direction::Up) => Exchange::Up,
        None => Exchange::Both(stream),
    }
}

/// One of several equal flows.
#[derive(Clone, Copy)]
pub(crate) struct Runner<'a> {
    pub(crate) play: &'a Play,
    pub(crate) number: usize,
    pub(crate) member: u16,
    pub(crate) server: SocketAddr,
    pub(crate) begin: Instant,
    pub(crate) stop: &'a Stop,
    pub(crate) moved: &'a Moved,
}

impl Runner<'_> {
    /// Performs all runs.
    pub(crate) fn all(&self, transfers: &Mutex<Vec<Transferred>>) {
        if let Doing::Short { direction, flows } = &self.play.doing {
            let own = flows.get(usize::from(self.member));
            thread::scope(|scope| {
                for short in own.into_iter().flatten() {
                    if !self.stop.until(self.begin + short.begin) {
                        break;
                    }
                    let moving = Moving::transfer(*direction, Some(short.bytes));
                    scope.spawn(move || {
                        let done = self.one(|done| self.tcp(moving, self.begin + short.end, done));
                        lock(transfers).push(done);
                    });
                }
            });
            return;
        }
        for (from, to) in &self.play.runs {
            let start = *from + self.play.stagger * u32::from(self.member);
            if start < *to && self.stop.until(self.begin + start) {
                let done = self.one(|done| self.run(self.begin + *to, done));
                lock(transfers).push(done);
            }
        }
    }

    fn one(
        &self,
        run: impl FnOnce(&mut Transferred) -> Result<Option<String>, RemoteError>,
    ) -> Transferred {
        let mut done = Transferred {
            play: self.number,
            member: self.member,
            begin: self.begin.elapsed(),
            end: Duration::ZERO,
            bytes: 0,
            counted: Vec::new(),
            answers: Vec::new(),
            failed: None,
        };
        let failed = run(&mut done);
        done.end = self.begin.elapsed();
        done.failed = failed.unwrap_or_else(|error| Some(error.to_string()));
        done
    }

    /// Performs one run, until a time.
    fn run(&self, end: Instant, done: &mut Transferred) -> Result<Option<String>, RemoteError> {
        match self.play.doing {
            Doing::Transfer { direction, bytes } => {
                self.tcp(Moving::transfer(direction, bytes), end, done)
            }
            Doing::Requests {
                request,
                response,
                think,
            } => self.tcp(Moving::Requests(request, response, think), end, done),
            Doing::Datagrams { direction, stream } => self.datagrams(direction, stream, end, done),
            Doing::Syns(interval) => self.syns(interval, end, done),
            // Short transfers have their own times.
            Doing::Short { .. } => Ok(None),
        }
    }

    fn datagrams(
        &self,
        direction: Option<Direction>,
        stream: Stream,
        end: Instant,
        done: &mut Transferred,
    ) -> Result<Option<String>, RemoteError> {
        let exchange = exchange(direction, stream);
        let mut session = Session::open(self.server, exchange, self.play.manner.dscp)?;
        let socket = session.socket.try_clone()?;
        // When to stop sending, and when to stop receiving.
        let (silent, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let (silent, over) = (&silent, &over);
        let count = |bytes: u64| {
            self.moved.add(bytes);
        };
        thread::scope(|scope| {
            let sends = direction != Some(Direction::Down);
            let sending =
                sends.then(|| scope.spawn(|| datagram::send(&socket, &stream, silent, count)));
            let takes = direction != Some(Direction::Up);
            let listening = takes.then(|| {
                scope.spawn(|| {
                    datagram::receive(&socket, over, &[], |payload| count(payload.len() as u64))
                })
            });
            self.stop.until(end);
            silent.store(true, Ordering::Relaxed);
            let sent = sending.map(thread::ScopedJoinHandle::join).transpose();
            let report = session.end();
            over.store(true, Ordering::Relaxed);
            let received = listening.map(thread::ScopedJoinHandle::join).transpose();
            let joined = |error| RemoteError::Strange(format!("a thread failed: {error:?}"));
            let report = report?;
            let named = || RemoteError::out_of_range(self.server.to_string());
            if let Some(sent) = sent.map_err(joined)? {
                let sent = sent?;
                let received = report.received.check_of(sent, stream.payload);
                let received = received.map_err(named())?;
                done.bytes += received.bytes;
                done.counted.push(Counted {
                    direction: Direction::Up,
                    sent,
                    received: Some(received),
                });
            }
            if let Some(received) = received.map_err(joined)? {
                let (direction, received) = (Direction::Down, received?.check().map_err(named())?);
                done.bytes += received.bytes;
                done.counted.push(Counted {
                    direction,
                    sent: report.sent,
                    received: Some(received),
                });
            }
            Ok(None)
        })
    }

    fn syns(
        &self,
        interval: Duration,
        end: Instant,
        done: &mut Transferred,
    ) -> Result<Option<String>, RemoteError> {
        let mut connected = Connected::open(self.server, &Wanted::Silence)?;
        let (port, _) = connected.port(self.server)?;
        let to = SocketAddr::new(self.server.ip(), port);
        let (mut sent, mut due) = (0, Instant::now());
        while due < end && self.stop.until(due) {
            syn(to, self.play.manner.dscp)?;
            sent += 1;
            due += interval;
        }
        done.counted.push(Counted {
            direction: Direction::Up,
            sent,
            received: None,
        });
        Ok(None)
    }

    /// Moves bytes until the run ends. A separate thread ends it, because reads and writes may
    /// block for longer.
    fn tcp(
        &self,
        moving: Moving,
        end: Instant,
        done: &mut Transferred,
    ) -> Result<Option<String>, RemoteError> {
        let connected = Connected::open(self.server, &moving.wanted(self.play))?;
        let Connected { stream, mut from } = connected;
        let kept = Arc::new(stream.try_clone()?);
        self.stop.shuts(&kept);
        let ended = AtomicBool::new(false);
        let up = matches!(moving, Moving::Up(_));
        let result = thread::scope(|scope| {
            let (finished, finish) = std::sync::mpsc::channel::<()>();
            let ended = &ended;
            scope.spawn(move || {
                let left = end.saturating_duration_since(Instant::now());
                let finished = finish.recv_timeout(left.min(Duration::from_hours(24)));
                if finished == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                    ended.store(true, Ordering::SeqCst);
                    // At the end of an upload, data in flight may still arrive.
                    let how = if up { Shutdown::Write } else { Shutdown::Both };
                    let _ = kept.shutdown(how);
                }
            });
            let result = match moving {
                Moving::Down(bytes) => self.down(&mut from, bytes, done),
                Moving::Up(bytes) => self.up(&stream, &mut from, bytes, done),
                Moving::Requests(request, response, think) => {
                    self.requests(&stream, &mut from, (request, response, think), end, done)
                }
            };
            drop(finished);
            result
        });
        let planned = ended.load(Ordering::SeqCst) || self.stop.stopped();
        let failed = result.err().filter(|_| !planned);
        Ok(failed.map(|error| error.to_string()))
    }

    fn down(
        &self,
        from: &mut BufReader<Patient>,
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
            self.moved.add(read as u64);
        }
    }

    fn up(
        &self,
        mut to: &TcpStream,
        from: &mut BufReader<Patient>,
        bytes: Option<u64>,
        done: &mut Transferred,
    ) -> io::Result<()> {
        let block = vec![0; BLOCK];
        let all = bytes.unwrap_or(u64::MAX);
        let mut left = all;
        // A write fails when the run ends.
        while left > 0 {
            let part = left.min(BLOCK as u64) as usize;
            let Ok(written) = to.write(&block[..part]) else {
                break;
            };
            left -= written as u64;
            self.moved.add(written as u64);
        }
        let _ = to.shutdown(Shutdown::Write);
        from.get_mut().wait(Some(LAST_WORD))?;
        // The number of bytes that arrived counts.
        let mut line = String::new();
        from.take(40).read_line(&mut line)?;
        let arrived = line
            .trim()
            .parse()
            .map_err(|_| io::Error::other("the serving end did not say how much arrived"))?;
        done.bytes = within("bytes received", arrived, 0..=all - left)
            .map_err(RemoteError::out_of_range(self.server.to_string()))
            .map_err(io::Error::other)?;
        if bytes.is_some() && left > 0 {
            return Err(io::Error::other("the connection ended before all was sent"));
        }
        Ok(())
    }

    fn requests(
        &self,
        mut to: &TcpStream,
        from: &mut BufReader<Patient>,
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
            let came = skip(from, response)?;
            if came < response {
                return Err(io::Error::other("the serving end ended it"));
            }
            done.bytes += came;
            self.moved.add(came);
            done.answers.push(asked.elapsed());
            let next = Instant::now() + think;
            if next >= end || !self.stop.until(next) {
                return Ok(());
            }
        }
    }
}

/// Sends one SYN. The connection is given up immediately, so that the kernel does not repeat it.
fn syn(to: SocketAddr, dscp: u8) -> Result<(), RemoteError> {
    let family = match to.ip() {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    crate::sequence::wanted::mark(&socket, to.ip(), dscp)?;
    match net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::NOBUFS | Errno::AGAIN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
