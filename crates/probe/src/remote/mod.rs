// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures a link with hosts that only reply: round trips on the idle line, the path MTU, and
//! the link layer as far as round trips show it. With a load on the line, it also measures
//! rates, and round trips under load.

pub(crate) mod bulk;
pub(crate) mod capture;
pub(crate) mod echo;
pub(crate) mod error;
pub(crate) mod iperf3;
pub(crate) mod irtt;
pub(crate) mod path;
pub(crate) mod transfer;

use crate::infer::Inference;
use crate::remote::bulk::Bulk;
use crate::remote::echo::{Answer, Reflector, Sent};
use crate::remote::error::RemoteError;
use crate::remote::path::{LEAST_MTU, Mtu, PATIENCE, layer, mtu};
use crate::remote::transfer::Transfer;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};
use weirgate_units::{Arrange as _, Direction, Size};

/// The number of echoes on the idle line, and the interval between them.
const IDLE: u32 = 20;
const GAP: Duration = Duration::from_millis(50);
/// The shortest wait for an answer: for a socket, a timeout of zero means no limit.
const LEAST_WAIT: Duration = Duration::from_millis(1);
/// The time after which an echo on a full line is lost: a modem's buffer may hold it for
/// seconds.
const LONG_PATIENCE: Duration = Duration::from_secs(8);

/// The load that fills a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Load {
    /// An iperf3 server, in both directions.
    Iperf3(SocketAddr),
    /// A file of a web server, downstream.
    Bulk(Bulk),
}

impl Load {
    /// Returns the directions in which it fills the line.
    #[must_use]
    pub fn directions(&self) -> &'static [Direction] {
        match self {
            Self::Iperf3(_) => &[Direction::Down, Direction::Up],
            Self::Bulk(_) => &[Direction::Down],
        }
    }

    fn fill(&self, direction: Direction, time: Duration) -> Result<Transfer, RemoteError> {
        match self {
            Self::Iperf3(server) => iperf3::fill(*server, direction, time),
            Self::Bulk(bulk) => bulk.fill(time),
        }
    }
}

/// Echoes at equal intervals.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Echoes {
    /// When each was sent, and its round-trip time; `None` if it was lost.
    pub all: Vec<(Duration, Option<Duration>)>,
}

impl Echoes {
    fn sorted(&self) -> Vec<Duration> {
        let mut times: Vec<Duration> = self.all.iter().filter_map(|one| one.1).collect();
        times.arrange();
        times
    }

    /// Returns the shortest round trip.
    #[must_use]
    pub fn least(&self) -> Option<Duration> {
        self.sorted().first().copied()
    }

    /// Returns the median.
    #[must_use]
    pub fn middle(&self) -> Option<Duration> {
        let times = self.sorted();
        times.get(times.len() / 2).copied()
    }

    /// Returns the 95th percentile.
    #[must_use]
    pub fn high(&self) -> Option<Duration> {
        let times = self.sorted();
        times
            .get((times.len() * 95).div_ceil(100).saturating_sub(1))
            .copied()
    }

    /// Returns the number of lost echoes.
    #[must_use]
    pub fn lost(&self) -> usize {
        self.all.iter().filter(|one| one.1.is_none()).count()
    }

    /// Sends echoes at equal intervals for a time, but at least one, whether or not earlier ones
    /// came back. Waiting for a lost one would miss changes of the queue.
    fn send(
        reflector: &mut dyn Reflector,
        time: Duration,
        patience: Duration,
    ) -> Result<Self, RemoteError> {
        let begin = Instant::now();
        let gap = GAP.max(reflector.interval());
        let small = reflector.small();
        let mut echoes = Self::default();
        // Maps outstanding packets to echoes; packets after the end map to none.
        let mut places: BTreeMap<u32, Option<usize>> = BTreeMap::new();
        let mut next = Duration::ZERO;
        loop {
            let now = begin.elapsed();
            let over = now >= time && !echoes.all.is_empty();
            let last = echoes.all.last().map_or(now, |last| last.0);
            if over && (now >= last + patience || !places.values().any(Option::is_some)) {
                return Ok(echoes);
            }
            if now >= next {
                next = now + gap;
                let place = (!over).then_some(echoes.all.len());
                if !over {
                    echoes.all.push((now, None));
                }
                if let Sent::Number(number) = reflector.send(small)? {
                    places.insert(number, place);
                }
            }
            let left = next.saturating_sub(begin.elapsed());
            let Answer::Back(number, took) = reflector.answer(left.max(LEAST_WAIT))? else {
                continue;
            };
            match places.remove(&number) {
                Some(Some(place)) => {
                    echoes.all[place].1 = (took < patience).then_some(took);
                }
                // Packets of one flow are not reordered. When one that was sent after the end
                // comes back, all others have come back or are lost.
                Some(None) => return Ok(echoes),
                None => {}
            }
        }
    }
}

/// The measurement of a full line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The data that passed the line.
    pub transfer: Transfer,
    /// The round trips at the same time.
    pub echoes: Echoes,
}

impl Loaded {
    /// Returns the delay under load: the 95th percentile, minus the shortest round trip on the
    /// idle line.
    #[must_use]
    pub fn waited(&self, idle: &Echoes) -> Option<Duration> {
        Some(self.echoes.high()?.saturating_sub(idle.least()?))
    }

    /// Returns the corresponding bytes at the measured rate, which is a lower bound of the
    /// buffer.
    #[must_use]
    pub fn buffer(&self, idle: &Echoes) -> Option<Size> {
        let bytes = self.waited(idle)?.as_secs_f64() * self.transfer.rate().as_kbit() * 125.0;
        Some(Size::bytes(bytes.round() as u64))
    }
}

/// The results of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Remote {
    /// Round trips on the idle line.
    pub idle: Echoes,
    /// The path MTU; `None` if the host's answers do not reveal it.
    pub mtu: Option<Mtu>,
    /// The link layer of both directions in sequence; `None` if it is unknown.
    pub layer: Option<Inference>,
    /// The line under upstream load.
    pub up: Option<Loaded>,
    /// The line under downstream load.
    pub down: Option<Loaded>,
}

/// The progress of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Round trips on the idle line.
    Idle,
    /// The path MTU.
    Mtu,
    /// Round trips by size: the rounds done, and the total.
    Sizes(usize, usize),
    /// Fills the line.
    Load(Direction),
}

/// Performs a measurement; each load fills the line for `time` in each direction.
pub fn remote(
    reflector: &mut (dyn Reflector + Send),
    load: Option<&Load>,
    time: Duration,
    progress: &mut dyn FnMut(Stage),
) -> Result<Remote, RemoteError> {
    progress(Stage::Idle);
    let idle = Echoes::send(reflector, GAP * IDLE, PATIENCE)?;
    if idle.least().is_none() {
        return Err(RemoteError::Silent(
            "the host that is to return echoes".to_owned(),
        ));
    }
    let mut found = Remote {
        idle,
        mtu: None,
        layer: None,
        up: None,
        down: None,
    };
    if let Some(largest) = reflector.largest() {
        progress(Stage::Mtu);
        let patience = patience(&found.idle);
        found.mtu = mtu(reflector, largest, patience)?;
        let most = found.mtu.map_or(LEAST_MTU, |mtu| mtu.bytes);
        found.layer = Some(layer(reflector, most, patience, &mut |done, all| {
            progress(Stage::Sizes(done, all));
        })?);
    }
    for direction in load.into_iter().flat_map(Load::directions) {
        progress(Stage::Load(*direction));
        let loaded = load
            .map(|load| loaded(reflector, load, *direction, time))
            .transpose()?;
        match direction {
            Direction::Up => found.up = loaded,
            Direction::Down => found.down = loaded,
        }
    }
    Ok(found)
}

/// Returns the time after which an echo on the idle line is lost, relative to the others.
fn patience(idle: &Echoes) -> Duration {
    let usual = idle.high().unwrap_or(PATIENCE);
    (usual * 4 + Duration::from_millis(200)).min(PATIENCE)
}

fn loaded(
    reflector: &mut (dyn Reflector + Send),
    load: &Load,
    direction: Direction,
    time: Duration,
) -> Result<Loaded, RemoteError> {
    thread::scope(|scope| {
        let filling = scope.spawn(|| load.fill(direction, time));
        let echoes = Echoes::send(reflector, time, LONG_PATIENCE);
        let failed = || RemoteError::Socket(io::Error::other("a thread ended"));
        let transfer = filling.join().map_err(|_| failed())??;
        let mut echoes = echoes?;
        // Ignore echoes from before the line was full.
        echoes.all.retain(|(at, _)| *at >= time / 4);
        Ok(Loaded { transfer, echoes })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echoes_are_summed_up() {
        let ms = Duration::from_millis;
        let all = (1..=100).map(|number| (ms(number), (number > 10).then(|| ms(number))));
        let echoes = Echoes { all: all.collect() };
        assert_eq!(echoes.lost(), 10);
        assert_eq!(echoes.least(), Some(ms(11)));
        assert_eq!(echoes.high(), Some(ms(96)));
        assert_eq!(Echoes::default().high(), None);
        let loaded = Loaded {
            transfer: Transfer {
                bytes: 125_000,
                time: Duration::from_secs(1),
            },
            echoes: echoes.clone(),
        };
        assert_eq!(loaded.waited(&echoes), Some(ms(85)));
        assert_eq!(loaded.buffer(&echoes), Some(Size::bytes(10_625)));
    }
}
