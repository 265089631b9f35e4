// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A scripted sequence on real hosts: transfers and echoes that begin and end
//! when they are told to, towards one serving end.

mod connected;
pub(crate) mod datagram;
mod pinger;
mod runner;
pub(crate) mod serve;
pub(crate) mod wanted;

use crate::remote::RemoteError;
use crate::sequence::datagram::Received;
use crate::sequence::pinger::Pinger;
use crate::sequence::runner::Runner;
use crate::sequence::wanted::{Manner, Stream};
use crate::train::client::Way;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

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
    /// Short transfers, of which many may run at once: those of each of the
    /// equal flows, in order of time.
    Short {
        /// Which way.
        way: Way,
        /// When each begins and how many bytes it has.
        flows: Vec<Vec<Short>>,
    },
    /// Datagrams.
    Datagrams {
        /// Which way; both where none is said.
        way: Option<Way>,
        /// What they are.
        stream: Stream,
    },
    /// SYNs that nobody answers, so far apart.
    Syns(Duration),
}

/// A short transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Short {
    /// When it begins, since the beginning of all.
    pub begin: Duration,
    /// When it is given up.
    pub end: Duration,
    /// Bytes of data.
    pub bytes: u64,
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
    /// By datagrams, which the serving end returns; else by ICMP.
    pub udp: bool,
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
    /// Of datagrams and SYNs, what became of them each way.
    pub counted: Vec<Counted>,
    /// How long each request took until its response was whole.
    pub answers: Vec<Duration>,
    /// Why it ended, where that was not by plan.
    pub failed: Option<String>,
}

/// Datagrams or SYNs that went one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Which way.
    pub way: Way,
    /// How many were sent.
    pub sent: u64,
    /// What arrived; nothing is known of SYNs.
    pub received: Option<Received>,
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

    /// Has a connection shut then.
    pub(crate) fn shuts(&self, stream: &TcpStream) {
        if let Ok(other) = stream.try_clone() {
            lock(&self.open).push(other);
        }
    }

    /// Whether it was stopped.
    pub fn stopped(&self) -> bool {
        *lock(&self.over)
    }

    /// Waits until a time; false where it was stopped before.
    pub(crate) fn until(&self, time: Instant) -> bool {
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

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
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
        runner::tried(play, server)?;
    }
    let pings: Vec<Pinger> = sequence
        .pings
        .iter()
        .map(|ping| Pinger::open(ping, server))
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
                    let one = Runner {
                        play,
                        number,
                        member,
                        server,
                        begin,
                        stop,
                        moved,
                    };
                    one.all(transfers);
                });
            }
        }
        for (number, (ping, pinger)) in sequence.pings.iter().zip(pings).enumerate() {
            let echoes = &echoes;
            scope.spawn(move || {
                let done = pinger.ping(number, ping, begin, stop);
                lock(echoes).extend(done);
            });
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
