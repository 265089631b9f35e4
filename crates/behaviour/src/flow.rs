// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kind of a flow, by the sizes and rates of its packets in both directions.

/// The readings that a judgement is made from.
const SAMPLES: usize = 6;
/// The fewest readings, and the shortest time in milliseconds, that say something.
const LEAST_SAMPLES: usize = 3;
const LEAST_SPAN: u64 = 5_000;
/// Readings that follow sooner than this, in milliseconds, are left for the next one.
const LEAST_GAP: u64 = 900;
/// The readings in a row that must say the same before an undecided flow gets a kind, and those
/// before a flow loses its kind.
const ENTER: u8 = 2;
const LEAVE: u8 = 3;
/// A flow that is silent for this long, in milliseconds, loses its kind.
pub(crate) const SILENT: u64 = 120_000;

/// Packets a second of a call. Codecs put 10 to 60 ms into a packet: RFC 3551, section 4.2, has 20
/// ms by default, and Opus has frames of up to 60 ms (RFC 6716, section 2.1.4). RTCP on the same
/// port adds some (RFC 5761).
const CALL_RATES: (f64, f64) = (16.0, 110.0);
/// The largest mean size of a call's packets, in bytes of IP. G.711 in 40 ms has 360 bytes, and 380
/// over IPv6.
const CALL_SIZE: f64 = 400.0;
/// How many times larger the rate and the size of one direction of a call may be. Both ends mostly
/// have the same codec.
const CALL_LIKENESS: f64 = 1.5;
/// The largest standard deviation of a call's rate from reading to reading, as a part of its mean.
const CALL_VARIATION: f64 = 0.15;
/// Packets a second of games and other real-time programs. Servers send 20 to 128 times a second,
/// and clients as often (Feng et al., "Provisioning On-line Games", IMW 2002).
const REAL_TIME_RATES: (f64, f64) = (10.0, 150.0);
/// The largest mean size of their packets, in bytes of IP.
const REAL_TIME_SIZE: f64 = 500.0;
/// Packets a second of a terminal while somebody types: thesis S0 counts on a packet each 150 ms,
/// and people pause.
const TERMINAL_RATES: (f64, f64) = (0.2, 10.0);
/// The largest mean size of a terminal's packets, in bytes of IP: characters, and their echo with
/// some output.
const TERMINAL_SIZE: f64 = 300.0;
/// How many times more packets one direction of a terminal may have: each key is echoed.
const TERMINAL_LIKENESS: f64 = 3.0;
/// The least variance of a terminal's packets in a reading, as a part of their mean. A program that
/// sends by a timer has almost none, independent arrivals have 1, and people have more.
const TERMINAL_DISPERSION: f64 = 0.5;
/// The least mean size of a transfer's packets, in bytes of IP, in the direction of the data: more
/// than half of an Ethernet frame.
const BULK_SIZE: f64 = 800.0;
/// The largest mean size of packets in the other direction. An acknowledgement of TCP over IPv6 has
/// 60 to 100 bytes with its options, one of QUIC about as many.
const BULK_ANSWER: f64 = 150.0;
/// The fewest bytes of a transfer in all readings that are judged: beyond four initial windows of
/// TCP (RFC 6928), because a small answer is not a transfer (S0, section 4.6).
const BULK_BYTES: u64 = 65_536;

/// Counters of one direction of a flow, since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    /// Packets.
    pub packets: u64,
    /// Bytes of IP packets.
    pub bytes: u64,
}

/// What a flow is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Steady small packets, alike in both directions: a call.
    Call,
    /// Small packets all the time in both directions: a game, a call with silence suppression.
    RealTime,
    /// Sparse small packets in both directions, irregularly: a terminal or a chat. A program that
    /// asks one server again and again looks the same.
    Terminal,
    /// Large packets one way, and at most acknowledgements the other way: a transfer or a stream.
    Bulk,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Call, Self::RealTime, Self::Terminal, Self::Bulk];

    /// Returns its word in output, JSON and labels of metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::RealTime => "real-time",
            Self::Terminal => "terminal",
            Self::Bulk => "bulk",
        }
    }

    /// Returns whether somebody waits for each of its packets.
    pub fn is_interactive(self) -> bool {
        self != Self::Bulk
    }

    /// Judges one time of `ms` milliseconds by what passed in it, without knowing whether it was
    /// steady. So [`Kind::Call`] means that it may be a call, and [`Kind::Terminal`] is never
    /// returned. Less than a second says nothing.
    pub fn of_interval(ms: u64, passed: [Counted; 2]) -> Option<Self> {
        if ms < LEAST_GAP {
            return None;
        }
        let one = Sample::new(ms, passed);
        transfer(&[one]).or_else(|| constant(&[one]))
    }
}

/// What passed between two readings.
#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    ms: u32,
    packets: [u32; 2],
    bytes: [u32; 2],
}

impl Sample {
    fn new(ms: u64, passed: [Counted; 2]) -> Self {
        let short = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Self {
            ms: short(ms),
            packets: passed.map(|one| short(one.packets)),
            bytes: passed.map(|one| short(one.bytes)),
        }
    }

    fn is_silent(&self) -> bool {
        self.packets == [0, 0]
    }
}

/// One direction over several readings.
struct Way {
    bytes: u64,
    /// Packets a second.
    rate: f64,
    /// Mean bytes of a packet; 0 without packets.
    size: f64,
    /// The standard deviation of the rate from reading to reading, as a part of the mean.
    variation: f64,
    /// The variance of packets in a reading, as a part of the mean.
    dispersion: f64,
    /// The readings with a packet.
    active: usize,
}

impl Way {
    fn of(samples: &[Sample], way: usize) -> Self {
        let packets: u64 = samples.iter().map(|one| u64::from(one.packets[way])).sum();
        let bytes: u64 = samples.iter().map(|one| u64::from(one.bytes[way])).sum();
        let ms: u64 = samples.iter().map(|one| u64::from(one.ms)).sum();
        let count = samples.len().max(1) as f64;
        let rate = packets as f64 * 1000.0 / ms.max(1) as f64;
        let rates = samples.iter().map(|one| {
            let own = f64::from(one.packets[way]) * 1000.0 / f64::from(one.ms.max(1));
            (own - rate).powi(2)
        });
        let variance = rates.sum::<f64>() / count;
        let each = ms as f64 / 1000.0 / count;
        Self {
            bytes,
            rate,
            size: bytes as f64 / packets.max(1) as f64,
            variation: variance.sqrt() / rate.max(f64::MIN_POSITIVE),
            dispersion: variance * each / rate.max(f64::MIN_POSITIVE),
            active: samples.iter().filter(|one| one.packets[way] > 0).count(),
        }
    }
}

fn within(rate: f64, (least, most): (f64, f64)) -> bool {
    (least..=most).contains(&rate)
}

fn alike(one: f64, other: f64, times: f64) -> bool {
    one <= other * times && other <= one * times
}

/// Returns [`Kind::Bulk`] for a transfer, also one in pieces if half of the readings have one.
fn transfer(samples: &[Sample]) -> Option<Kind> {
    let ways = [Way::of(samples, 0), Way::of(samples, 1)];
    let is = |data: &Way, answers: &Way| {
        data.size >= BULK_SIZE
            && answers.size <= BULK_ANSWER
            && data.bytes >= BULK_BYTES
            && data.active * 2 >= samples.len()
    };
    (is(&ways[0], &ways[1]) || is(&ways[1], &ways[0])).then_some(Kind::Bulk)
}

/// Returns the kind of a flow that sends small packets all the time in both directions.
fn constant(samples: &[Sample]) -> Option<Kind> {
    let ways = [Way::of(samples, 0), Way::of(samples, 1)];
    let all = |is: &dyn Fn(&Way) -> bool| ways.iter().all(is);
    let [one, other] = &ways;
    let likeness = alike(one.rate, other.rate, CALL_LIKENESS)
        && alike(one.size, other.size, CALL_LIKENESS)
        && all(&|way| way.variation <= CALL_VARIATION);
    if likeness && all(&|way| within(way.rate, CALL_RATES) && way.size <= CALL_SIZE) {
        return Some(Kind::Call);
    }
    let constant = |way: &Way| {
        within(way.rate, REAL_TIME_RATES)
            && way.size <= REAL_TIME_SIZE
            && way.active == samples.len()
    };
    all(&constant).then_some(Kind::RealTime)
}

/// Returns [`Kind::Terminal`] for sparse small packets. Readings without packets are pauses.
fn sparse(samples: &[Sample]) -> Option<Kind> {
    let ways = [Way::of(samples, 0), Way::of(samples, 1)];
    let active = samples.iter().filter(|one| !one.is_silent());
    let active: Vec<Sample> = active.copied().collect();
    if active.len() < 2 || ways.iter().all(|way| way.dispersion < TERMINAL_DISPERSION) {
        return None;
    }
    let ways = [Way::of(&active, 0), Way::of(&active, 1)];
    let [one, other] = &ways;
    let small = |way: &Way| within(way.rate, TERMINAL_RATES) && way.size <= TERMINAL_SIZE;
    let both = ways.iter().all(small) && alike(one.rate, other.rate, TERMINAL_LIKENESS);
    both.then_some(Kind::Terminal)
}

/// Judges one flow.
#[derive(Debug, Clone, Default)]
pub struct FlowJudge {
    /// The time and the counters of the last reading.
    last: Option<(u64, [Counted; 2])>,
    samples: [Sample; SAMPLES],
    filled: usize,
    kind: Option<Kind>,
    /// What recent readings said instead, and how many of them in a row.
    instead: (Option<Kind>, u8),
    /// The milliseconds without a packet.
    silent: u64,
}

impl FlowJudge {
    /// Takes a reading: a time in milliseconds that only increases, and the counters of both
    /// directions. Counters that decreased are those of another flow, and begin anew.
    pub fn read(&mut self, ms: u64, counted: [Counted; 2]) {
        let Some((then, before)) = self.last else {
            self.last = Some((ms, counted));
            return;
        };
        let since = |way: usize| {
            let (now, then): (Counted, Counted) = (counted[way], before[way]);
            Some(Counted {
                packets: now.packets.checked_sub(then.packets)?,
                bytes: now.bytes.checked_sub(then.bytes)?,
            })
        };
        let (Some(one), Some(other)) = (since(0), since(1)) else {
            *self = Self {
                last: Some((ms, counted)),
                ..Self::default()
            };
            return;
        };
        let passed = ms.saturating_sub(then);
        if passed < LEAST_GAP {
            return;
        }
        self.last = Some((ms, counted));
        let sample = Sample::new(passed, [one, other]);
        let recent = &self.samples[..self.filled];
        let resumes =
            recent.len() >= LEAST_SAMPLES && recent[..LEAST_SAMPLES].iter().all(Sample::is_silent);
        if resumes && !sample.is_silent() {
            // What was before the pause would make it look unsteady.
            self.filled = 0;
        }
        self.samples.rotate_right(1);
        self.samples[0] = sample;
        self.filled = (self.filled + 1).min(SAMPLES);
        if sample.is_silent() {
            self.silent = self.silent.saturating_add(passed);
        } else {
            self.silent = 0;
        }
        self.judge();
    }

    /// Returns the kind of the flow; `None` while it is undecided.
    pub fn kind(&self) -> Option<Kind> {
        self.kind
    }

    /// Returns whether the flow was silent for so long that nothing is known of it.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent >= SILENT
    }

    fn judge(&mut self) {
        if self.is_silent() {
            self.kind = None;
            self.instead = (None, 0);
            return;
        }
        let samples = &self.samples[..self.filled];
        let span: u64 = samples.iter().map(|one| u64::from(one.ms)).sum();
        let known = samples.len() >= LEAST_SAMPLES && span >= LEAST_SPAN;
        // Silence says nothing: whoever is put on hold still has a call.
        if !known || samples[0].is_silent() {
            return;
        }
        let found = transfer(samples)
            .or_else(|| constant(samples))
            .or_else(|| sparse(samples));
        if found == self.kind {
            self.instead = (found, 0);
            return;
        }
        let (before, count) = self.instead;
        let count = if before == found { count + 1 } else { 1 };
        self.instead = (found, count);
        let needed = if self.kind.is_none() { ENTER } else { LEAVE };
        if count >= needed {
            self.kind = found;
            self.instead = (found, 0);
        }
    }
}
