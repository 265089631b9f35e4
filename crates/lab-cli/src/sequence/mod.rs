// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate-lab probe --sequence`: plays an experiment of the lab on real hosts, and
//! keeps set-up, capture, logs and results of the run in one folder.

mod script;

use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weirgate_campaign::load;
use weirgate_console::exit::Failure;
use weirgate_console::exit::Outcome;
use weirgate_console::measurement::{Found, Log, PORT, RunFolder, captured, named, resolve, told};
use weirgate_console::output;
use weirgate_experiment::{Experiment, Phase};
use weirgate_measure::stats::Sorted;
use weirgate_probe::{Counted, Doing, Played, Sequence, Stop, Transferred, Way, play};
use weirgate_watch::{Legend, Looker};

/// What to play, and with whom.
#[derive(Args)]
pub struct Arguments {
    /// Play the traffic and probes of this experiment between this machine, which is its hosts,
    /// and the host of --to, which is its servers.
    #[arg(long, value_name = "FILE")]
    sequence: PathBuf,
    /// The host where `weirgate probe --serve` runs.
    #[arg(long, value_name = "HOST[:PORT]")]
    to: String,
    /// Keep what belongs to the run in this folder, else in a new one here.
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Plays it and prints what was found.
pub fn run(arguments: &Arguments) -> Outcome {
    let server = resolve(&arguments.to, PORT)?;
    let found = play_file(&arguments.sequence, server, arguments.write.as_deref())?;
    told(&found, arguments.json)
}

/// Plays the experiment of a file towards a serving end. `folder` is where all
/// of it is kept; without one, a new one is made here, named after the experiment
/// and the time.
fn play_file(file: &Path, server: SocketAddr, folder: Option<&Path>) -> Result<Found, Failure> {
    let (text, experiment) = load(file, &[])?;
    let sequence = script::sequence(file, &text, &experiment, server.is_ipv4())?;
    let named = folder.map_or_else(|| fallback(&experiment), Path::to_owned);
    let kept = RunFolder::make(&named)?;
    kept.file("experiment.toml", &text)?;
    kept.file("counters-before.txt", &counters())?;
    let mut log = Log::default();
    log.note(&format!(
        "{}: {} flows and {} probes to {server} for {} s; the folder is {}",
        experiment.name,
        sequence.plays.len(),
        sequence.pings.len(),
        sequence.length.as_secs(),
        named.display()
    ));
    if experiment.arms.iter().any(|arm| arm.policy.is_some()) {
        log.note("arms are of the lab: what is applied here now is what is measured");
    }
    if experiment.traffic.iter().any(|one| one.port.is_some()) {
        log.note("ports are those of the serving end, not the experiment's: rules see those");
    }
    let played = watched(&sequence, &experiment, server, &kept, &mut log);
    // What was asked and said is kept of a run that failed, too.
    kept.file("counters-after.txt", &counters())?;
    let played = played.inspect_err(|error| {
        log.note(&format!("it failed: {error}"));
        let _ = kept.file("log.txt", log.text());
    });
    let played = played.map_err(|error| Failure::Input(format!("weirgate: {error}")))?;
    let result = Ended {
        experiment: &experiment,
        sequence: &sequence,
        played: &played,
        server,
    };
    kept.file("flows.csv", &result.flows())?;
    kept.file("transfers.csv", &result.transfers())?;
    kept.file("log.txt", log.text())?;
    let found = Found {
        text: result.text(),
        json: result.json(),
        echoes: Some(result.echoes()),
    };
    kept.file("echoes.csv", &result.echoes())?;
    kept.result(&found.text, &found.json)?;
    output::note(&format!("weirgate: all of it is in {}", named.display()));
    Ok(found)
}

fn fallback(experiment: &Experiment) -> PathBuf {
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = time.map_or(0, |time| time.as_secs());
    PathBuf::from(format!("{}-{seconds}", experiment.name))
}

/// Every counter of this machine's devices, queues and classes, one a line, as
/// far as anybody may read them.
fn counters() -> String {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        return String::new();
    };
    runtime.block_on(async {
        let looked = match Looker::open(Legend::default()) {
            Ok(mut looker) => looker.look().await,
            Err(error) => Err(error),
        };
        match looked {
            Ok((objects, _)) => objects.iter().fold(String::new(), |mut text, object| {
                for (number, value) in &object.numbers {
                    let metric = number.metric();
                    let (sort, labels) = (object.sort.word(), object.label_text());
                    let _ = writeln!(text, "{sort}_{}{labels} {value}", metric.name);
                }
                text
            }),
            Err(error) => format!("# they could not be read: {error}\n"),
        }
    })
}

/// Plays it, with a capture where that is allowed, until it ends or somebody
/// presses Ctrl-C.
fn watched(
    sequence: &Sequence,
    experiment: &Experiment,
    server: SocketAddr,
    kept: &RunFolder,
    log: &mut Log,
) -> Result<Played, weirgate_probe::RemoteError> {
    let stop = Stop::default();
    let told = format!("of {} s", sequence.length.as_secs());
    captured(Some(kept), server.ip(), log, |log| {
        std::thread::scope(|scope| {
            let stop = &stop;
            let (ended, end) = tokio::sync::oneshot::channel::<()>();
            scope.spawn(move || interrupted(stop, end));
            let mut before: Vec<u64> = vec![0; sequence.plays.len()];
            let mut phase = None;
            let mut progress = |at: Duration, moved: &[u64]| {
                let now = phase_at(experiment, at).map(|phase| phase.name.clone());
                let rates = sequence.plays.iter().zip(moved.iter().zip(&before));
                let rates: Vec<String> = rates
                    .filter(|(_, (now, before))| now > before)
                    .map(|(play, (now, before))| {
                        format!("{} {} kbit/s", play.name, (now - before) / 125)
                    })
                    .collect();
                before.copy_from_slice(moved);
                // A line a second on a terminal is the progress; of a log, each tenth.
                let second = at.as_secs();
                if now != phase || second.is_multiple_of(10) || second < 3 {
                    let name = now.clone().unwrap_or_default();
                    log.note(&format!("{second} {told} {name}: {}", rates.join(", ")));
                }
                phase = now;
            };
            let played = play(sequence, server, stop, &mut progress);
            drop(ended);
            played
        })
    })
}

/// Stops the sequence at Ctrl-C, unless it ends before.
fn interrupted(stop: &Stop, end: tokio::sync::oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => stop.stop(),
            _ = end => {}
        }
    });
}

fn phase_at(experiment: &Experiment, at: Duration) -> Option<&Phase> {
    let at = at.as_nanos();
    let mut phases = experiment.phases.iter();
    phases.find(|phase| {
        u128::from(phase.start.as_nanos()) <= at && at < u128::from(phase.end.as_nanos())
    })
}

/// What came of it.
struct Ended<'a> {
    experiment: &'a Experiment,
    sequence: &'a Sequence,
    played: &'a Played,
    server: SocketAddr,
}

/// A stretch of time that is summed up, in seconds.
struct Stretch {
    name: String,
    from: f64,
    to: f64,
}

/// Round trips of a stretch, in microseconds.
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

/// Datagrams that did not arrive; nothing where that is not known.
fn lost(one: &Counted) -> Option<u64> {
    Some(one.sent.saturating_sub(one.received?.count))
}

/// What became of datagrams or SYNs, for people.
fn arrived(one: &Counted) -> String {
    let (way, sent) = (named(one.way), one.sent);
    let Some(received) = one.received else {
        return format!("{way}: {sent} SYNs");
    };
    let lost = lost(one).unwrap_or(0);
    let mut text = format!("{way}: {lost} of {sent} datagrams lost");
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

/// The same for programs.
fn counted(one: &Counted) -> Value {
    let delays = one.received.and_then(|received| received.delays);
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    json!({
        "way": named(one.way),
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
    /// The phases, each without the time in which it settles.
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

    /// Mean rate of a flow's data in bits by the second, by whole seconds.
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

    fn text(&self) -> String {
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
                let said = arrived(counted);
                let _ = writeln!(text, "\n{name} {} from {from:.1} s, {said}", one.member + 1);
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

    /// How long short flows took.
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

    fn json(&self) -> Value {
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

    /// Bytes of each flow by the second.
    fn flows(&self) -> String {
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

    fn transfers(&self) -> String {
        let mut text = String::from(
            "flow,member,begin_s,end_s,bytes,requests,sent_up,lost_up,sent_down,lost_down,failed\r\n",
        );
        for one in &self.played.transfers {
            let failed = one.failed.as_deref().unwrap_or("").replace('"', "'");
            let of = |way| {
                let one = one.counted.iter().find(|one| one.way == way);
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
                of(Way::Up),
                of(Way::Down),
            );
        }
        text
    }

    fn echoes(&self) -> String {
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
