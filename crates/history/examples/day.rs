// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a day of 1,500 series costs, how far a history of the usual size reaches
//! with them, and how long a year takes to read. The series are of 300 hosts, 80 of
//! them active, and of 8 classes in both directions. They get a row a second, with
//! gauges as `watch` measures them. `make bench` runs it, and it fails where a goal
//! is missed. For the benchmark of `watch`, `day FILE --nearly` writes a file that
//! ends now and condenses sixteen quarters of an hour a quarter of a minute from now.
#![allow(clippy::print_stdout, reason = "the figures are its result")]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use weirgate_history::{History, Kind, STEPS, Storage};

/// The goals: bytes of a day as it came, years that steps reach back, milliseconds
/// for a year's graph of one class, microseconds of processor time for a row.
const DAY_BYTES: u64 = 60_000_000;
const YEARS: f64 = 5.0;
const YEAR_MS: u128 = 200;
const ROW_US: u128 = 10_000;
/// Of memory at most while a day is written, with all that is sealed and condensed
/// meanwhile, in kilobytes: this program's own included.
const PEAK_KB: u64 = 16_000;
/// What `weirgate watch` gives a history unless configured otherwise.
const SIZE: u64 = 512_000_000;
/// After so many days there are chunks of the longest steps; rows so far apart
/// make steps of a hundred rows each, in the time of a day by the second.
const LONG_DAYS: i64 = 70;
const LONG_ROW_MS: i64 = 60_000;

/// Seconds after which sixteen quarters of an hour are sealed, so that they are
/// condensed, less those that somebody else is to add.
const NEARLY: i64 = 16 * 900 - 15;

struct Plain(File);

impl Storage for Plain {
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(into, at)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    /// The benchmark is of the processor's work, not of the disk's.
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

/// Numbers that repeat from run to run (PCG, M. E. O'Neill 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        ((self.0 >> 33) * end) >> 31
    }
}

/// One who sends: pages, with pauses in between, or all the time.
struct Source {
    name: String,
    busy: bool,
    steady: bool,
    left: u64,
    rate: u64,
}

impl Source {
    /// Packets and bytes of a second.
    fn second(&mut self, random: &mut Random) -> (i64, i64) {
        if !self.busy {
            return (0, 0);
        }
        if self.left == 0 {
            self.left = 1 + random.below(if self.steady { 600 } else { 12 });
            let pause = !self.steady && random.below(3) > 0;
            self.rate = if pause { 0 } else { 1 + random.below(120) };
        }
        self.left -= 1;
        if self.rate == 0 {
            return (0, 0);
        }
        let packets = self.rate * (60 + random.below(80)) / 100;
        let bytes: u64 = packets * 60 + (0..packets / 8).map(|_| random.below(11_500)).sum::<u64>();
        (packets as i64, bytes as i64)
    }
}

fn sources() -> Vec<Source> {
    let source = |name: String, busy, steady| Source {
        name,
        busy,
        steady,
        left: 0,
        rate: 0,
    };
    let mut all = Vec::new();
    for host in 0..300 {
        for direction in ["down", "up"] {
            let name = format!("host=\"192.0.2.{host}\",direction=\"{direction}\"");
            all.push(source(name, host < 80, host < 10));
        }
    }
    for class in 0..8 {
        for direction in ["down", "up"] {
            all.push(source(
                format!("class=\"class{class}\",direction=\"{direction}\""),
                true,
                class > 2,
            ));
        }
    }
    all
}

/// All series, and what they are second by second.
struct House {
    sources: Vec<Source>,
    /// Two counters of each source.
    counters: Vec<[String; 2]>,
    /// Round trips of the hosts that are active, one series each way.
    trips: Vec<[String; 2]>,
    /// Of every class what is measured: see [`Self::second`].
    classes: Vec<[String; 7]>,
    /// A class's mean wait and round trip in microseconds, which wander.
    wandering: Vec<[u64; 2]>,
    random: Random,
}

impl House {
    fn new() -> Self {
        let sources = sources();
        let named = |what: &str, name: &str| format!("{what}{{{name}}}");
        let counters = sources
            .iter()
            .map(|one| ["packets", "bytes"].map(|what| named(what, &one.name)));
        let trips = (0..80).map(|host| {
            ["rtt_inside", "rtt_outside"]
                .map(|what| named(what, &format!("host=\"192.0.2.{host}\"")))
        });
        let measured = [
            "waited",
            "wait",
            "wait_95th",
            "rtt",
            "rtt_95th",
            "backlog",
            "drops",
        ];
        let classes = sources[600..]
            .iter()
            .map(|one| measured.map(|what| named(what, &one.name)));
        Self {
            counters: counters.collect(),
            trips: trips.collect(),
            classes: classes.collect(),
            wandering: vec![[8_000, 40_000]; sources.len() - 600],
            sources,
            random: Random(7),
        }
    }

    /// What a second has. A class's waits are in microseconds added up, and as mean
    /// and greatest, as they are measured: no two are alike. What
    /// sends nothing has neither waits nor round trips.
    fn second(&mut self) -> Vec<(&str, Kind, i64)> {
        let random = &mut self.random;
        let mut values = Vec::with_capacity(1504);
        let mut sent = Vec::with_capacity(self.sources.len());
        for (source, name) in self.sources.iter_mut().zip(&self.counters) {
            let (packets, bytes) = source.second(random);
            sent.push(packets);
            values.push((&*name[0], Kind::Counter, packets));
            values.push((&*name[1], Kind::Counter, bytes));
        }
        for (host, name) in self.trips.iter().enumerate() {
            for (direction, name) in name.iter().enumerate() {
                if sent[2 * host + direction] > 0 {
                    let trip = 2_000 + 18_000 * direction as u64;
                    let trip = trip + random.below(trip / 2);
                    values.push((&**name, Kind::Gauge, trip as i64));
                }
            }
        }
        for (class, name) in self.classes.iter().enumerate() {
            let packets = sent[600 + class];
            let [wait, trip] = &mut self.wandering[class];
            for (value, mean) in [(&mut *wait, 8_000_u64), (&mut *trip, 40_000)] {
                // A tenth of the way back to the mean, and up to a fifth of it off.
                *value = (*value * 9 + mean) / 10 + random.below(mean / 5) - mean / 10;
            }
            let high = |value: u64, random: &mut Random| value * 2 + random.below(value / 2);
            let waited = packets * (*wait as i64) + random.below(1 + packets as u64) as i64;
            values.push((
                &name[0],
                Kind::Counter,
                if packets > 0 { waited } else { 0 },
            ));
            if packets > 0 {
                values.push((&name[1], Kind::Gauge, *wait as i64));
                values.push((&name[2], Kind::Gauge, high(*wait, random) as i64));
                values.push((&name[3], Kind::Gauge, *trip as i64));
                values.push((&name[4], Kind::Gauge, high(*trip, random) as i64));
            }
            let backlog = if packets > 60 {
                random.below(60_000)
            } else {
                0
            };
            values.push((&name[5], Kind::Gauge, backlog as i64));
            let drops = if backlog > 50_000 { random.below(4) } else { 0 };
            values.push((&name[6], Kind::Counter, drops as i64));
        }
        values
    }
}

fn main() -> ExitCode {
    let path = std::env::args()
        .nth(1)
        .unwrap_or_else(|| String::from("day.history"));
    let nearly = std::env::args()
        .nth(2)
        .is_some_and(|word| word == "--nearly");
    match if nearly {
        self::nearly(&path)
    } else {
        run(&path)
    } {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(path: &str) -> Result<bool, Box<dyn std::error::Error>> {
    let (history, spent) = filled(path, 86_400_000, 86_400, 1000)?;
    let row = spent / 86_400 / 1000;
    let (day, _) = history.bytes_of(0).unwrap_or_default();
    println!(
        "{} series: a day is {:.1} MB as it came; a row takes {row} us",
        history.series(0, i64::MAX)?.len(),
        day as f64 / 1e6
    );
    drop(history);
    let peak = peak_kb()?;
    println!("{:.1} MB of memory at most", peak as f64 / 1e3);
    let rows = LONG_DAYS * 86_400_000 / LONG_ROW_MS;
    let (history, _) = filled(
        &format!("{path}.long"),
        rows * LONG_ROW_MS,
        rows,
        LONG_ROW_MS,
    )?;
    let last = STEPS.len() - 1;
    let (bytes, room) = history.bytes_of(last).unwrap_or_default();
    let (from, to) = history.status().spans[last].unwrap_or_default();
    let year = 365.25 * 86_400_000.0;
    let years = room as f64 / bytes.max(1) as f64 * (to - from) as f64 / year;
    println!(
        "a file of {} MB: {:.1} days of steps of two hours are {:.0} kB, so it reaches {years:.1} years back",
        SIZE / 1_000_000,
        (to - from) as f64 / 86_400_000.0,
        bytes as f64 / 1e3
    );
    let (whole, room) = (day as f64, history.bytes_of(0).unwrap_or_default().1 as f64);
    println!("and {:.1} days by the second", room / whole);
    let year = year_of(&format!("{path}.year"))?;
    println!("a year of a class's 6 series is read in {year} ms");
    Ok(day <= DAY_BYTES && years >= YEARS && year <= YEAR_MS && row <= ROW_US && peak <= PEAK_KB)
}

fn nearly(path: &str) -> Result<bool, Box<dyn std::error::Error>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64;
    filled(path, now, NEARLY, 1000)?;
    Ok(true)
}

/// The most memory that this process had so far (proc_pid_status(5), `VmHWM`).
fn peak_kb() -> io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
    number.ok_or_else(|| io::Error::other("/proc/self/status has no VmHWM"))
}

fn file(path: &str) -> io::Result<Plain> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true);
    Ok(Plain(options.open(path)?))
}

/// A history until then of so many rows, so far apart, and the nanoseconds that it
/// took to append them.
fn filled(
    path: &str,
    until: i64,
    rows: i64,
    apart: i64,
) -> Result<(History<Plain>, u128), Box<dyn std::error::Error>> {
    let mut history = History::open(file(path)?, SIZE)?;
    let mut all = House::new();
    let mut spent = 0;
    for row in 1..=rows {
        let values = all.second();
        let started = Instant::now();
        history.append(until - (rows - row) * apart, apart, values)?;
        if row % 5 == 0 {
            history.commit()?;
        }
        spent += started.elapsed().as_nanos();
    }
    history.commit()?;
    Ok((history, spent))
}

/// A year of half hours, which has at least as many numbers as one of steps of
/// two hours: milliseconds to read six series of it.
fn year_of(path: &str) -> Result<u128, Box<dyn std::error::Error>> {
    let mut history = History::open(file(path)?, SIZE)?;
    let mut random = Random(9);
    let names: Vec<String> = (0..1500).map(|number| format!("series{number}")).collect();
    for row in 1..=365 * 48_i64 {
        let values = names.iter().map(|name| {
            let value = random.below(100_000);
            (
                &**name,
                Kind::Counter,
                if value < 27_000 { value as i64 } else { 0 },
            )
        });
        let values: Vec<_> = values.collect();
        history.append(row * 1_800_000, 1_800_000, values)?;
        if row % 100 == 0 {
            history.commit()?;
        }
    }
    let wanted: Vec<&str> = names[100..106].iter().map(|name| &**name).collect();
    let started = Instant::now();
    let read = history.read(&wanted, 0, 365 * 86_400_000, 7_200_000)?;
    let took = started.elapsed().as_millis();
    println!(
        "{} points",
        read.iter().map(|one| one.points.len()).sum::<usize>()
    );
    Ok(took)
}
