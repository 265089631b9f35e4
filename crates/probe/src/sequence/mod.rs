// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plays a scripted sequence on real hosts: transfers and echoes that start and end at
//! configured times, towards one server.

mod connected;
pub(crate) mod datagram;
mod moved;
pub(crate) mod outcome;
mod pinger;
pub(crate) mod plan;
mod runner;
pub(crate) mod serve;
mod skip;
pub(crate) mod stop;
pub(crate) mod wanted;

use crate::remote::error::RemoteError;
use crate::sequence::moved::Moved;
use crate::sequence::outcome::{Pinged, Played, Transferred};
use crate::sequence::pinger::Pinger;
use crate::sequence::plan::Sequence;
use crate::sequence::runner::Runner;
use crate::sequence::stop::{Stop, lock};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use weirgate_units::Arrange as _;

/// Plays a sequence towards a server. `progress` is called each second with the elapsed time and
/// the bytes that each flow has moved. The server is asked about every flow before the start, so
/// that mistakes are found immediately.
pub fn play(
    sequence: &Sequence,
    server: SocketAddr,
    stop: &Stop,
    progress: &mut dyn FnMut(Duration, &[u64]),
) -> Result<Played, RemoteError> {
    for play in &sequence.plays {
        // Ask for each manner once, because the server may not support it.
        runner::tried(play, server)?;
    }
    let pings: Vec<Pinger> = sequence
        .pings
        .iter()
        .map(|ping| Pinger::open(ping, server))
        .collect::<Result<_, _>>()?;
    let transfers = Mutex::new(Vec::new());
    let echoes = Mutex::new(Vec::new());
    let begin = Instant::now();
    let plays = sequence.plays.iter();
    let moved: Vec<Moved> = plays.map(|_| Moved::new(begin, sequence.length)).collect();
    let mut passed = 0;
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
        for second in 1.. {
            let at = Duration::from_secs(second).min(sequence.length);
            if !stop.until(begin + at) {
                break;
            }
            passed += 1;
            let now: Vec<u64> = moved.iter().map(Moved::sum).collect();
            progress(begin.elapsed(), &now);
            if at == sequence.length {
                break;
            }
        }
        // All runs have ended; for uploads, the server still reports how much arrived.
    });
    let mut transfers = transfers
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    transfers.arrange_by_key(|one: &Transferred| (one.begin, one.play, one.member));
    let mut echoes = echoes.into_inner().unwrap_or_else(PoisonError::into_inner);
    echoes.arrange_by_key(|one: &Pinged| (one.at, one.ping));
    Ok(Played {
        transfers,
        seconds: moved.iter().map(|one| one.first(passed)).collect(),
        echoes,
    })
}
