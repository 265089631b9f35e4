// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The delay of a line, idle and under load, with a host where `weirgate probe --serve` runs. This
//! is a short measurement for a first policy; `weirgate probe` measures better.

use crate::whole::probe::device;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;
use weirgate_console::exit::{Failure, wrong};
use weirgate_console::measurement::{PORT, resolve};
use weirgate_console::output;
use weirgate_linklayer::LinkLayer;
use weirgate_probe::{Direction, Doing, Manner, Ping, Play, Played, Sequence, Stop, play};
use weirgate_state::DeviceName;
use weirgate_units::Arrange as _;
use weirgate_units::Rate;

/// The time between two echoes, and the bytes of each.
const GAP: Duration = Duration::from_millis(50);
const ECHO: u32 = 84;
/// The number of parallel transfers: a single one may not fill a long line.
const TRANSFERS: u16 = 4;
/// The times for which the line is idle, and under load in each direction. Between the two loads,
/// the queue of the first drains.
const IDLE: Duration = Duration::from_secs(2);
const FULL: Duration = Duration::from_secs(6);
const DRAINS: Duration = Duration::from_secs(1);
/// The start of a load, which is left out because the line is not full yet.
const BEGINS: Duration = Duration::from_millis(1500);
/// The length of IP and TCP headers with timestamps (RFC 7323), in bytes.
const HEADERS: u32 = 52;

/// The measurement of one direction under load.
#[derive(Debug, Clone, Copy)]
pub struct Full {
    /// The 95th percentile of round trips, or `None` if no echo returned.
    pub high: Option<Duration>,
    /// The rate of TCP payload.
    pub rate: Rate,
}

/// The result of the measurement.
#[derive(Debug, Clone)]
pub struct Delay {
    /// The median round trip on the idle line.
    pub idle: Option<Duration>,
    /// The line under upstream load.
    pub up: Full,
    /// The line under downstream load.
    pub down: Full,
}

impl Delay {
    /// Measures for some 16 s. Fails if the host is reached through another device than the link's.
    pub fn measure(host: &str, link: &DeviceName) -> Result<Self, Failure> {
        let server = resolve(host, PORT)?;
        let address = server.ip();
        if let Some(other) = device::towards(address).filter(|one| one != link.as_str()) {
            return Err(wrong(format!(
                "{host} is reached through {other}, not through {link}: add a route to it, such as \
                 `ip route add {address} via GATEWAY dev {link}`, or give the rates with `--up` \
                 and `--down`"
            )));
        }
        output::note(&format!(
            "weirgate: measures with {server}: idle, downloads, uploads; {} s",
            sequence().length.as_secs()
        ));
        let sequence = sequence();
        let played = play(&sequence, server, &Stop::default(), &mut |_, _| ());
        let played = played.map_err(|error| wrong(format!("{host}: {error}")))?;
        let failed = played.transfers.iter().find_map(|one| one.failed.as_ref());
        if let Some(why) = failed {
            return Err(wrong(format!("{host}: a transfer ended: {why}")));
        }
        Ok(Self::of(&sequence, &played))
    }

    fn of(sequence: &Sequence, played: &Played) -> Self {
        let full = |number: usize| {
            let (from, to) = sequence.plays[number].runs[0];
            let own = || played.transfers.iter().filter(|one| one.play == number);
            // Count all transfers together: after one has ended, the others are faster.
            let ends = own().map(|one| one.end).max();
            let begins = own().map(|one| one.begin).min();
            let time = ends
                .zip(begins)
                .map(|(end, begin)| end.saturating_sub(begin));
            let bytes: u64 = own().map(|one| one.bytes).sum();
            let bits = bytes as f64 * 8.0 / time.map_or(f64::MAX, |time| time.as_secs_f64());
            Full {
                high: among(played, from + BEGINS, to, 95),
                rate: Rate::bits_per_second(bits.round() as u64),
            }
        };
        Self {
            idle: among(played, Duration::ZERO, IDLE, 50),
            down: full(0),
            up: full(1),
        }
    }

    /// Returns the result as JSON. Times are in milliseconds, rates in bits per second.
    pub fn json(&self) -> Value {
        let ms = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e3);
        json!({
            "idle_ms": ms(self.idle),
            "uploads_ms": ms(self.up.high),
            "downloads_ms": ms(self.down.high),
            "up_data_bit_s": self.up.rate.as_bits_per_second(),
            "down_data_bit_s": self.down.rate.as_bits_per_second(),
        })
    }
}

/// Returns the given percentile of the round trips of echoes within a time.
fn among(played: &Played, from: Duration, to: Duration, of_100: usize) -> Option<Duration> {
    let echoes = played.echoes.iter();
    let mut times: Vec<Duration> = echoes
        .filter(|one| (from..to).contains(&one.at))
        .filter_map(|one| one.took)
        .collect();
    times.arrange();
    let place = (times.len() * of_100).div_ceil(100).saturating_sub(1);
    times.get(place).copied()
}

/// Returns the sequence: echoes all the time, downloads, then uploads.
fn sequence() -> Sequence {
    let down = (IDLE, IDLE + FULL);
    let up = (down.1 + DRAINS, down.1 + DRAINS + FULL);
    let load = |name: &str, direction, run| Play {
        name: name.to_owned(),
        doing: Doing::Transfer {
            direction,
            bytes: None,
        },
        manner: Manner::default(),
        runs: vec![run],
        count: TRANSFERS,
        stagger: Duration::ZERO,
    };
    Sequence {
        plays: vec![
            load("down", Direction::Down, down),
            load("up", Direction::Up, up),
        ],
        pings: vec![Ping {
            name: "echo".to_owned(),
            udp: true,
            interval: GAP,
            size: ECHO,
            dscp: 0,
            runs: vec![(Duration::ZERO, up.1)],
        }],
        length: up.1,
    }
}

/// Returns the rate on the wire of a rate of TCP payload, in packets of `mtu` bytes.
pub fn on_the_wire(data: Rate, layer: LinkLayer, mtu: u32) -> Rate {
    let data_bytes = f64::from(mtu.saturating_sub(HEADERS).max(1));
    let wire = f64::from(layer.wire_bytes(mtu)) / data_bytes;
    let bits = data.as_bits_per_second() as f64 * wire;
    // Policies have rates in whole kbit/s.
    Rate::kbit((bits / 1e3) as u64)
}

/// Returns the delays as a table.
pub fn table(before: &Delay, after: Option<&Delay>) -> String {
    let mut text = format!(
        "\nRound trips   {:>10} {:>10} {:>10}\n",
        "idle", "uploads", "downloads"
    );
    let ms = |time: Option<Duration>| {
        time.map_or_else(
            || "no reply".to_owned(),
            |time| format!("{:.1} ms", time.as_secs_f64() * 1e3),
        )
    };
    for (title, delay) in [("before", Some(before)), ("after", after)] {
        let Some(delay) = delay else { continue };
        let _ = writeln!(
            text,
            "{title:<13} {:>10} {:>10} {:>10}",
            ms(delay.idle),
            ms(delay.up.high),
            ms(delay.down.high)
        );
    }
    text.push_str("Idle is the median; under load 95 of 100 took no longer.\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_probe::{Pinged, Transferred};

    #[test]
    fn echoes_belong_to_what_filled_the_line_then() {
        let ms = Duration::from_millis;
        let echo = |at: u64, took: u64| Pinged {
            ping: 0,
            at: ms(at),
            took: (took > 0).then(|| ms(took)),
        };
        let transfer = |play, begin: u64, end: u64, bytes| Transferred {
            play,
            member: 0,
            begin: ms(begin),
            end: ms(end),
            bytes,
            counted: Vec::new(),
            answers: Vec::new(),
            failed: None,
        };
        let played = Played {
            transfers: vec![
                transfer(0, 2000, 8000, 7_500_000),
                transfer(1, 9000, 15_000, 750_000),
            ],
            seconds: Vec::new(),
            // The echo at 2500 arrives while the queue still grows.
            echoes: vec![
                echo(0, 20),
                echo(50, 21),
                echo(1900, 22),
                echo(2500, 900),
                echo(4000, 150),
                echo(5000, 0),
                echo(12_000, 300),
            ],
        };
        let delay = Delay::of(&sequence(), &played);
        assert_eq!(delay.idle, Some(ms(21)));
        assert_eq!(
            (delay.down.high, delay.up.high),
            (Some(ms(150)), Some(ms(300)))
        );
        assert_eq!(
            (delay.down.rate, delay.up.rate),
            (Rate::kbit(10_000), Rate::kbit(1000))
        );
        let text = table(&delay, Some(&delay));
        assert!(
            text.contains("before           21.0 ms   300.0 ms   150.0 ms\n"),
            "{text}"
        );
    }

    #[test]
    fn the_wire_takes_more_than_tcp_has() {
        let layer = LinkLayer::named("ethernet").expect("a name");
        // 1448 bytes of payload take 1538 bytes on the wire.
        let wire = on_the_wire(Rate::kbit(14_480), layer, 1500);
        assert_eq!(wire, Rate::kbit(15_380));
    }
}
