// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a day of 1,500 series costs, and how long a year takes to read: 300
//! hosts, 80 of them active, and 8 classes both ways, a row a second. `make
//! bench` runs it; it fails where a goal is missed.
#![allow(clippy::print_stdout, reason = "the figures are its result")]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::process::ExitCode;
use std::time::Instant;
use weirgate_history::{History, Kind, Storage};

/// The goals: bytes of a day as it came, milliseconds for a year's graph of one
/// class, microseconds of processor time for a row.
const DAY_BYTES: u64 = 60_000_000;
const YEAR_MS: u128 = 200;
const ROW_US: u128 = 10_000;

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
        for way in ["down", "up"] {
            let name = format!("host=\"192.0.2.{host}\",direction=\"{way}\"");
            all.push(source(name, host < 80, host < 10));
        }
    }
    for class in 0..8 {
        for way in ["down", "up"] {
            all.push(source(
                format!("class=\"class{class}\",direction=\"{way}\""),
                true,
                class > 2,
            ));
        }
    }
    all
}

fn main() -> ExitCode {
    let path = std::env::args()
        .nth(1)
        .unwrap_or_else(|| String::from("day.history"));
    match run(&path) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(path: &str) -> Result<bool, Box<dyn std::error::Error>> {
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)?;
    let mut history = History::open(Plain(file), 192 << 20)?;
    let mut random = Random(7);
    let mut sources = sources();
    let names: Vec<[String; 2]> = sources
        .iter()
        .map(|one| ["packets", "bytes"].map(|what| format!("{what}{{{}}}", one.name)))
        .collect();
    let backlogs: Vec<String> = names[600..]
        .iter()
        .flat_map(|name| (0..8).map(move |which| format!("gauge{which}{}", name[0])))
        .collect();
    let series = names.len() * 2 + backlogs.len();
    let mut spent = 0;
    for second in 1..=86_400_i64 {
        let mut values = Vec::with_capacity(series);
        for (source, name) in sources.iter_mut().zip(&names) {
            let (packets, bytes) = source.second(&mut random);
            values.push((&*name[0], Kind::Counter, packets));
            values.push((&*name[1], Kind::Counter, bytes));
        }
        for (place, name) in backlogs.iter().enumerate() {
            let value = if place % 8 < 2 { random.below(60) } else { 0 };
            values.push((&**name, Kind::Gauge, value as i64));
        }
        let started = Instant::now();
        history.append(second * 1000, 1000, values)?;
        if second % 5 == 0 {
            history.commit()?;
        }
        spent += started.elapsed().as_nanos();
    }
    let status = history.status();
    let day: u64 = history.bytes_of_rows();
    let row = spent / 86_400 / 1000;
    println!(
        "{series} series: a day is {:.1} MB as it came; a row takes {row} us",
        day as f64 / 1e6
    );
    println!("reaches {:?}", status.spans);
    let year = year(&format!("{path}.year"))?;
    println!("a year of a class's 6 series is read in {year} ms");
    Ok(day <= DAY_BYTES && year <= YEAR_MS && row <= ROW_US)
}

/// A year of half hours, which has at least as many numbers as one of steps of
/// two hours: milliseconds to read six series of it.
fn year(path: &str) -> Result<u128, Box<dyn std::error::Error>> {
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)?;
    let mut history = History::open(Plain(file), 192 << 20)?;
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
