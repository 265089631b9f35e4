// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate-lab probe --sequence`: runs an experiment of the lab between real hosts, and stores
//! set-up, capture, logs and results of the run in one folder.

mod ended;
mod script;

use clap::Args;
use ended::Ended;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weirgate_campaign::load;
use weirgate_console::exit::{Failure, Outcome};
use weirgate_console::measurement::{Found, Log, PORT, RunFolder, captured, print_found, resolve};
use weirgate_console::output;
use weirgate_experiment::{Experiment, Phase};
use weirgate_probe::{Played, Sequence, Stop, play};
use weirgate_watch::{Legend, Looker};

/// What to play, and with whom.
#[derive(Args)]
pub struct Arguments {
    /// Play the traffic and probes of this experiment between this machine, which acts as its
    /// hosts, and the host of --to, which acts as its servers.
    #[arg(long, value_name = "FILE")]
    sequence: PathBuf,
    /// The host where `weirgate probe --serve` runs.
    #[arg(long, value_name = "HOST[:PORT]")]
    to: String,
    /// Store the run's files in this folder; without it, in a new one here.
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the sequence and prints the results.
pub fn run(arguments: &Arguments) -> Outcome {
    let server = resolve(&arguments.to, PORT)?;
    let found = play_file(&arguments.sequence, server, arguments.write.as_deref())?;
    print_found(&found, arguments.json)
}

/// Runs the experiment in a file towards a server. Everything is stored in `folder`; without one,
/// in a new folder that is named after the experiment and the time.
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
    // Keep the log of a failed run, too.
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

/// Returns every readable counter of this machine's devices, queues and classes, one a line.
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

/// Runs the sequence, with a capture if that is permitted, until it ends or the user presses
/// Ctrl-C.
fn watched(
    sequence: &Sequence,
    experiment: &Experiment,
    server: SocketAddr,
    kept: &RunFolder,
    log: &mut Log,
) -> Result<Played, weirgate_probe::RemoteError> {
    let stop = Stop::default();
    let length = format!("of {} s", sequence.length.as_secs());
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
                // A terminal gets a line of progress every second, a log every tenth.
                let second = at.as_secs();
                if now != phase || second.is_multiple_of(10) || second < 3 {
                    let name = now.clone().unwrap_or_default();
                    log.note(&format!("{second} {length} {name}: {}", rates.join(", ")));
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
