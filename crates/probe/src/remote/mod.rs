// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A link measured with hosts that merely answer: round trips on the idle line,
//! the largest packet, the link layer as far as round trips show it; and, where
//! something fills the line, rates and round trips meanwhile.

pub(crate) mod bulk;
pub(crate) mod capture;
pub(crate) mod echo;
pub(crate) mod iperf3;
pub(crate) mod irtt;

use crate::infer::{Inference, Timed, Timing, infer, sizes};
use crate::remote::bulk::Bulk;
use crate::remote::echo::{Echo, Reflector};
use crate::train::client::Way;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weirgate_units::{Rate, Size};

/// Echoes on the idle line, and the time between two.
const IDLE: u32 = 20;
const GAP: Duration = Duration::from_millis(50);
/// Until an echo on an idle line is lost, and on a full one: a modem's buffer
/// may hold it for seconds.
const PATIENCE: Duration = Duration::from_secs(2);
const LONG_PATIENCE: Duration = Duration::from_secs(8);
/// How often each size is sent to find the link layer.
const ROUNDS: usize = 15;
/// The least error of a round trip, in seconds: clocks are read to a microsecond.
const CLOCK_S: f64 = 2e-6;
/// How often a size is tried that does not come back: it may be chance.
const TRIES: u32 = 3;
/// The smallest packet that every link takes (RFC 791 section 3.2 asks for 68,
/// and hosts for 576), and the largest that is tried.
const LEAST_MTU: u32 = 576;
const MOST_MTU: u32 = 9216;

/// Why a measurement ended.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The kernel lets nobody send echoes here.
    #[error(
        "ICMP echoes are not allowed here; let your group send them (as root: \
         `sysctl net.ipv4.ping_group_range=\"0 2147483647\"`), or name an irtt server with --irtt"
    )]
    Forbidden,
    /// It does not answer.
    #[error("{0} does not answer")]
    Silent(String),
    /// It does not want to.
    #[error("{0} refuses")]
    Refused(String),
    /// It answers something else than the protocol has.
    #[error("{0}")]
    Strange(String),
    /// A socket failed.
    #[error("the socket failed: {0}")]
    Socket(#[from] io::Error),
}

impl From<rustix::io::Errno> for RemoteError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Socket(error.into())
    }
}

/// What fills a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Load {
    /// An iperf3 server, both ways.
    Iperf3(SocketAddr),
    /// A file of a web server, downwards.
    Bulk(Bulk),
}

impl Load {
    /// The ways in which it fills the line.
    #[must_use]
    pub fn ways(&self) -> &'static [Way] {
        match self {
            Self::Iperf3(_) => &[Way::Down, Way::Up],
            Self::Bulk(_) => &[Way::Down],
        }
    }

    fn fill(&self, way: Way, time: Duration) -> Result<Transfer, RemoteError> {
        match self {
            Self::Iperf3(server) => iperf3::fill(*server, way, time),
            Self::Bulk(bulk) => bulk.fill(time),
        }
    }
}

/// What came through a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Bytes of the connections' data.
    pub bytes: u64,
    /// In this time.
    pub time: Duration,
}

impl Transfer {
    /// Its rate, in bytes of data.
    #[must_use]
    pub fn rate(&self) -> Rate {
        let bits = self.bytes as f64 * 8.0 / self.time.as_secs_f64().max(1e-9);
        Rate::bits_per_second(bits.round() as u64)
    }
}

/// What is counted in the last three quarters of a time: TCP begins slowly.
pub(crate) fn count(time: Duration, counted: &AtomicU64) -> Transfer {
    thread::sleep(time / 4);
    let (before, begin) = (counted.load(Ordering::Relaxed), Instant::now());
    thread::sleep(time.saturating_sub(time / 4));
    Transfer {
        bytes: counted.load(Ordering::Relaxed) - before,
        time: begin.elapsed(),
    }
}

/// Echoes one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Echoes {
    /// When each was sent, and how long it took; `None` of those that were lost.
    pub all: Vec<(Duration, Option<Duration>)>,
}

impl Echoes {
    fn sorted(&self) -> Vec<Duration> {
        let mut times: Vec<Duration> = self.all.iter().filter_map(|one| one.1).collect();
        times.sort_unstable();
        times
    }

    /// The shortest.
    #[must_use]
    pub fn least(&self) -> Option<Duration> {
        self.sorted().first().copied()
    }

    /// The one that half of them did not exceed.
    #[must_use]
    pub fn middle(&self) -> Option<Duration> {
        let times = self.sorted();
        times.get(times.len() / 2).copied()
    }

    /// The one that 95 of 100 did not exceed.
    #[must_use]
    pub fn high(&self) -> Option<Duration> {
        let times = self.sorted();
        times
            .get((times.len() * 95).div_ceil(100).saturating_sub(1))
            .copied()
    }

    /// How many were lost.
    #[must_use]
    pub fn lost(&self) -> usize {
        self.all.iter().filter(|one| one.1.is_none()).count()
    }

    /// Sends for a time, and at least one.
    fn send(
        reflector: &mut dyn Reflector,
        time: Duration,
        patience: Duration,
    ) -> Result<Self, RemoteError> {
        let begin = Instant::now();
        let mut echoes = Self::default();
        loop {
            let at = begin.elapsed();
            let small = reflector.small();
            let took = match reflector.echo(small, patience)? {
                Echo::After(took) => Some(took),
                Echo::Lost | Echo::TooLong => None,
            };
            echoes.all.push((at, took));
            let next = at + GAP;
            if next.max(begin.elapsed()) >= time {
                return Ok(echoes);
            }
            thread::sleep(next.saturating_sub(begin.elapsed()));
        }
    }
}

/// The largest packet that comes through there and back, in IP bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mtu {
    /// It comes through.
    pub bytes: u32,
    /// No larger one does; else none was tried.
    pub exact: bool,
}

/// A full line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// What came through.
    pub transfer: Transfer,
    /// Round trips meanwhile.
    pub echoes: Echoes,
}

impl Loaded {
    /// How much longer a packet took than on the idle line: the one that 95 of
    /// 100 did not exceed, less the shortest.
    #[must_use]
    pub fn waited(&self, idle: &Echoes) -> Option<Duration> {
        Some(self.echoes.high()?.saturating_sub(idle.least()?))
    }

    /// What waited then, in bytes at the rate that came through: what the buffer
    /// holds at least.
    #[must_use]
    pub fn buffer(&self, idle: &Echoes) -> Option<Size> {
        let bytes = self.waited(idle)?.as_secs_f64() * self.transfer.rate().as_kbit() * 125.0;
        Some(Size::bytes(bytes.round() as u64))
    }
}

/// What was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Remote {
    /// Round trips on the idle line.
    pub idle: Echoes,
    /// The largest packet; `None` where the host's answers cannot tell.
    pub mtu: Option<Mtu>,
    /// The link layer, both ways one after the other; `None` alike.
    pub layer: Option<Inference>,
    /// The line full upwards.
    pub up: Option<Loaded>,
    /// The line full downwards.
    pub down: Option<Loaded>,
}

/// What a measurement is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Round trips on the idle line.
    Idle,
    /// The largest packet.
    Mtu,
    /// Round trips by size: how many rounds are done of how many.
    Sizes(usize, usize),
    /// Fills the line.
    Load(Way),
}

/// Measures; each load fills the line for `time` each way.
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
        found.layer = Some(layer(reflector, most, patience, progress)?);
    }
    for way in load.into_iter().flat_map(Load::ways) {
        progress(Stage::Load(*way));
        let loaded = load
            .map(|load| loaded(reflector, load, *way, time))
            .transpose()?;
        match way {
            Way::Up => found.up = loaded,
            Way::Down => found.down = loaded,
        }
    }
    Ok(found)
}

/// On the idle line, what takes so much longer than the rest is lost.
fn patience(idle: &Echoes) -> Duration {
    let usual = idle.high().unwrap_or(PATIENCE);
    (usual * 4 + Duration::from_millis(200)).min(PATIENCE)
}

fn comes(
    reflector: &mut dyn Reflector,
    size: u32,
    patience: Duration,
) -> Result<bool, RemoteError> {
    for _ in 0..TRIES {
        match reflector.echo(size, patience)? {
            Echo::After(_) => return Ok(true),
            Echo::TooLong => return Ok(false),
            Echo::Lost => {}
        }
    }
    Ok(false)
}

/// The largest packet that comes through to a host and back; `None` where it does not
/// answer, or only small ones.
pub fn largest_packet(reflector: &mut dyn Reflector) -> Result<Option<Mtu>, RemoteError> {
    let small = reflector.small();
    let Some(largest) = reflector.largest() else {
        return Ok(None);
    };
    if !comes(reflector, small, PATIENCE)? {
        return Ok(None);
    }
    mtu(reflector, largest, PATIENCE)
}

/// The largest packet, by halving what is left.
fn mtu(
    reflector: &mut dyn Reflector,
    largest: u32,
    patience: Duration,
) -> Result<Option<Mtu>, RemoteError> {
    let most = largest.min(MOST_MTU);
    if comes(reflector, most, patience)? {
        return Ok(Some(Mtu {
            bytes: most,
            exact: most == largest,
        }));
    }
    let (mut good, mut bad) = (LEAST_MTU, most);
    if !comes(reflector, good, patience)? {
        return Ok(None);
    }
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if comes(reflector, middle, patience)? {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Ok(Some(Mtu {
        bytes: good,
        exact: true,
    }))
}

/// The link layer by the shortest round trip of each size. The sizes take turns,
/// so that what else is on the line meets all alike.
fn layer(
    reflector: &mut dyn Reflector,
    most: u32,
    patience: Duration,
    progress: &mut dyn FnMut(Stage),
) -> Result<Inference, RemoteError> {
    let sizes: Vec<u32> = sizes().filter(|size| *size <= most).collect();
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); sizes.len()];
    for round in 0..ROUNDS {
        progress(Stage::Sizes(round, ROUNDS));
        for (size, times) in sizes.iter().zip(&mut times) {
            if let Echo::After(took) = reflector.echo(*size, patience)? {
                times.push(took);
            }
        }
    }
    Ok(infer(&shortest(&sizes, &mut times), Timing::RoundTrip))
}

/// The shortest round trip of each size that came back three times. It is as sure as
/// the next ones are near: of all sizes together, because what varies is the way's
/// and not a size's, and three that are near by chance say little.
fn shortest(sizes: &[u32], times: &mut [Vec<Duration>]) -> Vec<Timed> {
    let measured = sizes.iter().zip(times).filter_map(|(size, times)| {
        times.sort_unstable();
        let (first, third) = (times.first()?, times.get(2)?);
        Some((*size, first.as_secs_f64(), third.as_secs_f64()))
    });
    let measured: Vec<(u32, f64, f64)> = measured.collect();
    let squares: f64 = measured.iter().map(|one| (one.2 - one.1).powi(2)).sum();
    let error = (squares / measured.len().max(1) as f64).sqrt().max(CLOCK_S);
    let one = |(size, time, _)| Timed { size, time, error };
    measured.into_iter().map(one).collect()
}

fn loaded(
    reflector: &mut (dyn Reflector + Send),
    load: &Load,
    way: Way,
    time: Duration,
) -> Result<Loaded, RemoteError> {
    thread::scope(|scope| {
        let filling = scope.spawn(|| load.fill(way, time));
        let echoes = Echoes::send(reflector, time, LONG_PATIENCE);
        let failed = || RemoteError::Socket(io::Error::other("a thread ended"));
        let transfer = filling.join().map_err(|_| failed())??;
        let mut echoes = echoes?;
        // What came before the line was full says nothing of a full one.
        echoes.all.retain(|(at, _)| *at >= time / 4);
        Ok(Loaded { transfer, echoes })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infer::Cut;
    use weirgate_linklayer::{Framing, LinkLayer};

    /// A host behind a line of one kind, whose time is reckoned, not lived through.
    struct Line {
        layer: LinkLayer,
        bits: f64,
        mtu: u32,
        /// Adds so many nanoseconds at most, differently each time.
        noise: u64,
        state: u64,
    }

    impl Reflector for Line {
        fn echo(&mut self, size: u32, _patience: Duration) -> Result<Echo, RemoteError> {
            if size > self.mtu {
                return Ok(Echo::Lost);
            }
            self.state = self
                .state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let noise = (self.state >> 33) % self.noise.max(1);
            let wire = f64::from(self.layer.wire_bytes(size)) * 8.0 / self.bits;
            let took = 0.011 + 2.0 * wire + noise as f64 * 1e-9;
            Ok(Echo::After(Duration::from_secs_f64(took)))
        }

        fn largest(&self) -> Option<u32> {
            Some(1500)
        }

        fn small(&self) -> u32 {
            64
        }
    }

    fn line(framing: Framing, overhead: i32, noise: u64) -> Line {
        Line {
            layer: LinkLayer::custom(overhead, 0, framing).unwrap(),
            bits: 1e6,
            mtu: 1492,
            noise,
            state: 7,
        }
    }

    fn found(line: &mut Line) -> (Option<Mtu>, Inference) {
        let most = mtu(line, 1500, Duration::ZERO).unwrap();
        (
            most,
            layer(line, 1492, Duration::ZERO, &mut |_| ()).unwrap(),
        )
    }

    #[test]
    fn the_largest_packet_and_cells_are_found_and_never_wrongly() {
        let (most, layer) = found(&mut line(Framing::Atm, 28, 3_000));
        assert_eq!(
            most,
            Some(Mtu {
                bytes: 1492,
                exact: true
            })
        );
        assert_eq!(layer.cut, Some(Cut::Cells));
        assert_eq!(layer.overhead(), Some(28));
        let (_, layer) = found(&mut line(Framing::None, 22, 3_000));
        assert_eq!(layer.cut, Some(Cut::Bytes));
    }

    /// How long something else on the way takes, differently each time: evenly, as
    /// queues do, as retransmissions do, as a busy host does.
    fn noise(kind: usize, size: f64, random: &mut impl FnMut() -> f64) -> f64 {
        match kind {
            0 => size * (random() + random()),
            1 => -size * random().max(1e-12).ln(),
            2 => size * (f64::from(u8::from(random() < 0.8)) + random() / 20.0),
            _ => (size * 5.0 + size * ((0..12).map(|_| random()).sum::<f64>() - 6.0)).max(0.0),
        }
    }

    /// Whatever is said must be right, however large the noise is beside a cell's
    /// time.
    #[test]
    fn noise_is_never_taken_for_cells_or_bytes() {
        let mut state = 11_u64;
        let mut random = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let sizes: Vec<u32> = sizes().collect();
        let (mut all, mut said) = (0, 0);
        for round in 0..12_000_usize {
            let framing = [Framing::Atm, Framing::None][round % 2];
            let overhead = 8 + (round % 41) as i32;
            let layer = LinkLayer::custom(overhead, 0, framing).unwrap();
            let [up, down] = [[128e3, 1024e3], [512e3, 2e6], [2e6, 20e6]][round / 2 % 3];
            let of = [1e-5, 1e-4, 1e-3, 5e-3, 2e-2][round / 6 % 5];
            let mut times: Vec<Vec<Duration>> = Vec::new();
            for size in &sizes {
                let line = f64::from(layer.wire_bytes(*size)) * 8.0 * (1.0 / up + 1.0 / down);
                let mut echo = || line + noise(round / 30 % 4, of, &mut random);
                times.push(
                    (0..ROUNDS)
                        .map(|_| Duration::from_secs_f64(echo()))
                        .collect(),
                );
            }
            let found = infer(&shortest(&sizes, &mut times), Timing::RoundTrip).cut;
            let right = match framing {
                Framing::Atm => Cut::Cells,
                _ => Cut::Bytes,
            };
            assert!(
                found.is_none_or(|found| found == right),
                "round {round}: {found:?}"
            );
            all += 1;
            said += usize::from(found.is_some());
        }
        assert!(said > all / 3, "{said} of {all}");
    }

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
