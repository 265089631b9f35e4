// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The results of a sequence: its phases as text or JSON, and every flow, transfer and echo as CSV.

use serde_json::{Value, json};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;
use weirgate_experiment::{Experiment, Phase};
use weirgate_measure::stats::Sorted;
use weirgate_probe::{Counted, Direction, Doing, Played, Sequence, Transferred};

/// A sequence with its results.
pub struct Ended<'a> {
    pub experiment: &'a Experiment,
    pub sequence: &'a Sequence,
    pub played: &'a Played,
    pub server: SocketAddr,
}

/// A time interval with its name, in seconds.
struct Stretch {
    name: String,
    from: f64,
    to: f64,
}

/// Round trips of an interval, in microseconds.
struct Trips {
    sent: usize,
    lost: usize,
    times: Sorted,
}

impl Trips {
    fn json(&self) -> Value {
        let ms = |us: Option<u64>| us.map(|us| us as f64 / 1e3);
        json!({
            "sent": self.sent,
            "lost": self.lost,
            "min_ms": ms(self.times.min()),
            "mean_ms": self.times.mean().map(|us| us / 1e3),
            "p50_ms": ms(self.times.per_mille(500)),
            "p95_ms": ms(self.times.per_mille(950)),
            "p99_ms": ms(self.times.per_mille(990)),
            "max_ms": ms(self.times.max()),
        })
    }
}

/// Returns how many datagrams were lost; `None` if that is unknown.
fn lost(one: &Counted) -> Option<u64> {
    Some(one.sent.saturating_sub(one.received?.count))
}

/// Describes the fate of datagrams or SYNs.
fn arrived(one: &Counted) -> String {
    let (direction, sent) = (one.direction.name(), one.sent);
    let Some(received) = one.received else {
        return format!("{direction}: {sent} SYNs");
    };
    let lost = lost(one).unwrap_or(0);
    let mut text = format!("{direction}: {lost} of {sent} datagrams lost");
    if let Some(delays) = received.delays {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let _ = write!(
            text,
            "; later than the fastest by {:.1} ms (half), {:.1} ms (95 %), {:.1} ms (all)",
            ms(delays.p50),
            ms(delays.p95),
            ms(delays.max)
        );
    }
    text
}

/// Returns the same as JSON.
fn counted(one: &Counted) -> Value {
    let delays = one.received.and_then(|received| received.delays);
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    json!({
        "way": one.direction.name(),
        "sent": one.sent,
        "received": one.received.map(|received| received.count),
        "lost": lost(one),
        "late_ms": delays.map(|delays| json!({
            "p50": ms(delays.p50),
            "p95": ms(delays.p95),
            "p99": ms(delays.p99),
            "max": ms(delays.max),
        })),
    })
}

impl Ended<'_> {
    /// Returns the phases, each without its settling time.
    fn stretches(&self) -> Vec<Stretch> {
        let seconds = |span: weirgate_units::Span| span.as_nanos() as f64 / 1e9;
        let settle = seconds(self.experiment.settle);
        let phases = self.experiment.phases.iter();
        let stretch = |phase: &Phase| Stretch {
            name: phase.name.clone(),
            from: (seconds(phase.start) + settle).min(seconds(phase.end)),
            to: seconds(phase.end),
        };
        phases.map(stretch).collect()
    }

    /// Returns the mean rate of a flow's data in bit/s, over whole seconds.
    fn rate(&self, play: usize, stretch: &Stretch) -> Option<f64> {
        let rows = self.played.seconds.get(play)?;
        let (from, to) = (stretch.from.ceil() as usize, stretch.to.floor() as usize);
        let rows = rows.get(from..to.min(rows.len()))?;
        let sum: u64 = rows.iter().sum();
        (!rows.is_empty()).then(|| sum as f64 * 8.0 / rows.len() as f64)
    }

    fn trips(&self, ping: usize, stretch: &Stretch) -> Trips {
        let own = self.played.echoes.iter().filter(|one| {
            let at = one.at.as_secs_f64();
            one.ping == ping && (stretch.from..stretch.to).contains(&at)
        });
        let times: Vec<Option<u64>> = own
            .map(|one| one.took.map(|took| took.as_micros() as u64))
            .collect();
        Trips {
            sent: times.len(),
            lost: times.iter().filter(|one| one.is_none()).count(),
            times: Sorted::new(times.into_iter().flatten().collect()),
        }
    }

    fn failed(&self) -> impl Iterator<Item = (&Transferred, &String)> {
        let all = self.played.transfers.iter();
        all.filter_map(|one| Some((one, one.failed.as_ref()?)))
    }

    pub fn text(&self) -> String {
        let mut text = format!(
            "{}: {}\ntowards {}, data in kbit/s, round trips in ms\n",
            self.experiment.name, self.experiment.title, self.server
        );
        for stretch in self.stretches() {
            let _ = writeln!(
                text,
                "\n{} ({:.0} to {:.0} s)",
                stretch.name, stretch.from, stretch.to
            );
            for (number, play) in self.sequence.plays.iter().enumerate() {
                let rate = self.rate(number, &stretch).map_or_else(
                    || String::from("not known"),
                    |rate| format!("{:.0}", rate / 1e3),
                );
                let _ = writeln!(text, "  {:<20} {rate:>9}", play.name);
            }
            for (number, ping) in self.sequence.pings.iter().enumerate() {
                let trips = self.trips(number, &stretch);
                let ms = |us: Option<u64>| {
                    us.map_or_else(|| String::from("-"), |us| format!("{:.1}", us as f64 / 1e3))
                };
                let _ = writeln!(
                    text,
                    "  {:<20} half within {}, 95 % within {}, all within {}; {} of {} lost",
                    ping.name,
                    ms(trips.times.per_mille(500)),
                    ms(trips.times.per_mille(950)),
                    ms(trips.times.max()),
                    trips.lost,
                    trips.sent
                );
            }
        }
        for one in &self.played.transfers {
            for counted in &one.counted {
                let (name, from) = (self.name(one.play), one.begin.as_secs_f64());
                let packets = arrived(counted);
                let _ = writeln!(
                    text,
                    "\n{name} {} from {from:.1} s, {packets}",
                    one.member + 1
                );
            }
        }
        text.push_str(&self.shorts());
        for (one, why) in self.failed() {
            let name = self.name(one.play);
            let at = one.begin.as_secs_f64();
            let _ = writeln!(text, "\n{name} {} at {at:.1} s: {why}", one.member + 1);
        }
        text
    }

    /// Returns the durations of short flows.
    fn shorts(&self) -> String {
        let mut text = String::new();
        for (number, play) in self.sequence.plays.iter().enumerate() {
            if !matches!(play.doing, Doing::Short { .. }) {
                continue;
            }
            let own = || {
                self.played
                    .transfers
                    .iter()
                    .filter(|one| one.play == number)
            };
            let whole = own().filter(|one| one.failed.is_none());
            let took = whole.map(|one| one.end.saturating_sub(one.begin).as_micros() as u64);
            let took = Sorted::new(took.collect());
            let ms = |us: Option<u64>| {
                us.map_or_else(|| String::from("-"), |us| format!("{:.1}", us as f64 / 1e3))
            };
            let _ = writeln!(
                text,
                "\n{}: {} begun, {} failed; half took {} ms at most, 95 % {} ms",
                play.name,
                own().count(),
                own().count() - took.len(),
                ms(took.per_mille(500)),
                ms(took.per_mille(950)),
            );
        }
        text
    }

    fn name(&self, play: usize) -> &str {
        self.sequence.plays.get(play).map_or("", |play| &play.name)
    }

    pub fn json(&self) -> Value {
        let phase = |stretch: Stretch| {
            let flows = self.sequence.plays.iter().enumerate();
            let flows = flows.map(|(number, play)| {
                let rate = self.rate(number, &stretch);
                (play.name.clone(), json!({ "data_rate_bits": rate }))
            });
            let probes = self.sequence.pings.iter().enumerate();
            let probes = probes
                .map(|(number, ping)| (ping.name.clone(), self.trips(number, &stretch).json()));
            json!({
                "name": stretch.name,
                "from_s": stretch.from,
                "to_s": stretch.to,
                "flows": flows.collect::<serde_json::Map<_, _>>(),
                "probes": probes.collect::<serde_json::Map<_, _>>(),
            })
        };
        let transfer = |one: &Transferred| {
            let answers = one.answers.iter().map(|one| one.as_micros() as u64);
            let answers = Sorted::new(answers.collect());
            json!({
                "flow": self.name(one.play),
                "member": one.member + 1,
                "begin_s": one.begin.as_secs_f64(),
                "end_s": one.end.as_secs_f64(),
                "bytes": one.bytes,
                "requests": answers.len(),
                "answer_mean_ms": answers.mean().map(|us| us / 1e3),
                "counted": one.counted.iter().map(counted).collect::<Vec<_>>(),
                "failed": one.failed,
            })
        };
        json!({
            "experiment": self.experiment.name,
            "server": self.server.to_string(),
            "phases": self.stretches().into_iter().map(phase).collect::<Vec<_>>(),
            "transfers": self.played.transfers.iter().map(transfer).collect::<Vec<_>>(),
        })
    }

    /// Returns the bytes of each flow by second.
    pub fn flows(&self) -> String {
        let names: Vec<&str> = self.sequence.plays.iter().map(|play| &*play.name).collect();
        let mut text = format!("second,{}\r\n", names.join(","));
        let length = self.played.seconds.iter().map(Vec::len).max().unwrap_or(0);
        for second in 0..length {
            let _ = write!(text, "{second}");
            for rows in &self.played.seconds {
                let _ = write!(text, ",{}", rows.get(second).copied().unwrap_or(0));
            }
            text.push_str("\r\n");
        }
        text
    }

    pub fn transfers(&self) -> String {
        let mut text = String::from(
            "flow,member,begin_s,end_s,bytes,requests,sent_up,lost_up,sent_down,lost_down,failed\r\n",
        );
        for one in &self.played.transfers {
            let failed = one.failed.as_deref().unwrap_or("").replace('"', "'");
            let of = |direction| {
                let one = one.counted.iter().find(|one| one.direction == direction);
                let number =
                    |number: Option<u64>| number.map_or_else(String::new, |n| n.to_string());
                format!(
                    "{},{}",
                    number(one.map(|one| one.sent)),
                    number(one.and_then(lost))
                )
            };
            let _ = write!(
                text,
                "{},{},{:.6},{:.6},{},{},{},{},\"{failed}\"\r\n",
                self.name(one.play),
                one.member + 1,
                one.begin.as_secs_f64(),
                one.end.as_secs_f64(),
                one.bytes,
                one.answers.len(),
                of(Direction::Up),
                of(Direction::Down),
            );
        }
        text
    }

    pub fn echoes(&self) -> String {
        let mut text = String::from("probe,sent_s,took_ms\r\n");
        for one in &self.played.echoes {
            let name = self
                .sequence
                .pings
                .get(one.ping)
                .map_or("", |ping| &ping.name);
            let took = one.took.map_or_else(String::new, |took| {
                format!("{:.3}", took.as_secs_f64() * 1e3)
            });
            let _ = write!(text, "{name},{:.6},{took}\r\n", one.at.as_secs_f64());
        }
        text
    }
}
