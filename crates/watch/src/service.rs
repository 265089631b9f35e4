// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The service: looks every second, keeps the history, tells who listens.

use crate::WatchError;
use crate::differ::Change;
use crate::door::Door;
use crate::http;
use crate::legend::Legend;
use crate::line::LineNow;
use crate::metrics::Own;
use crate::object::series;
use crate::passing::Untimed;
use crate::probe::Target;
use crate::reading::Readers;
use crate::send::{Outlets, Sending};
use crate::steps::Steps;
use crate::storage::FileStorage;
use crate::tls::Tls;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{Semaphore, watch};
use weirgate_history::{Event, History, HistoryError, Kind, Status};

/// What is committed is at most this old: a power cut costs no more than five
/// seconds, with the time that the disk takes.
const COMMIT: Duration = Duration::from_secs(3);
/// What changed no longer ago may have changed twice within one tick of the clock
/// that files are dated by.
const NEW: Duration = Duration::from_secs(1);

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// An address of this machine.
    Address(SocketAddr),
    /// A Unix socket.
    Socket(PathBuf),
}

/// What a service is to do.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen; nowhere is allowed.
    pub listen: Vec<Listen>,
    /// A proxy with authentication stands before it: any address will do, and
    /// any name of this machine.
    pub behind_proxy: bool,
    /// The certificate to show at addresses.
    pub tls: Option<Tls>,
    /// The file of those who may look; without one, whoever can connect.
    pub access: Option<PathBuf>,
    /// Whom to send numbers to.
    pub sending: Sending,
    /// The history's file.
    pub history: PathBuf,
    /// How many bytes it may grow to, where it is made.
    pub size: u64,
    /// How often to look.
    pub every: Duration,
    /// Whom to probe.
    pub probes: Vec<Target>,
    /// What the legend was made from: where one of these changes, it is asked
    /// for again.
    pub sources: Vec<PathBuf>,
}

/// What was seen at the last look.
#[derive(Debug, Default)]
pub struct Seen {
    /// When, in milliseconds of Unix time.
    pub time: i64,
    /// Objects and what changed.
    pub changes: Vec<Change>,
    /// [`now`](crate::now()) as text.
    pub json: String,
    /// Why the history cannot be written, as long as it cannot.
    pub failing: Option<String>,
}

/// What requests are answered from.
pub(crate) struct Shared {
    pub(crate) seen: watch::Receiver<Arc<Seen>>,
    pub(crate) history: Arc<Mutex<History<FileStorage>>>,
    pub(crate) legend: Mutex<Arc<Legend>>,
    pub(crate) refused: Mutex<Option<String>>,
    pub(crate) blind: Mutex<Option<String>>,
    pub(crate) untimed: Mutex<Option<Untimed>>,
    /// How the history was when it was last written to, and the times that it
    /// knows: whoever asks for these waits for no disk.
    pub(crate) kept: Mutex<Kept>,
    pub(crate) every: Duration,
    pub(crate) readers: Readers,
    pub(crate) behind_proxy: bool,
    pub(crate) door: Arc<Door>,
    pub(crate) outlets: Mutex<Outlets>,
    /// Places of those who are told each look.
    pub(crate) live: Arc<Semaphore>,
}

/// How a history is, and the time of its first and last row.
type Kept = (Status, Option<(i64, i64)>);

fn kept(history: &History<FileStorage>) -> Kept {
    (history.status(), history.span())
}

impl Shared {
    /// Numbers of watch itself.
    pub(crate) fn own(&self, failing: bool) -> Vec<Own> {
        let (history, _) = lock(&self.kept).clone();
        let mut own = vec![
            Own::one(
                "weirgate_history_series",
                "Series that the history has now.",
                false,
                history.series as u64,
            ),
            Own::one(
                "weirgate_history_lost",
                "Rows and events that the history lost since the start.",
                true,
                history.lost,
            ),
            Own::one(
                "weirgate_history_left_out",
                "Values that the history had no room for since the start.",
                true,
                history.refused,
            ),
            Own::one(
                "weirgate_history_failing",
                "1 while the history's file cannot be written.",
                false,
                u64::from(failing),
            ),
        ];
        if let Some(untimed) = *lock(&self.untimed) {
            own.extend([
                Own::one(
                    "weirgate_packets_untimed",
                    "Packets that left a queue and were not seen to come, so that their wait is not known.",
                    true,
                    untimed.packets,
                ),
                Own::one(
                    "weirgate_times_left_out",
                    "Waits and round trips for which there was no room: more classes send than there are places.",
                    true,
                    untimed.left_out,
                ),
            ]);
        }
        if self.door.asks() {
            own.push(Own::one(
                "weirgate_access_refused",
                "Requests that showed a wrong password or token.",
                true,
                self.door.refused(),
            ));
        }
        own.extend(lock(&self.outlets).own());
        own
    }
}

/// Serves until `stop` is done. `again` makes the legend anew, where it can;
/// `lines` tells before each look what `[track]` has the line to be;
/// `ready` is told where it listens, once it does; `told` gets what an
/// administrator should know. Needs a tokio runtime.
pub async fn serve(
    config: Config,
    legend: Legend,
    again: impl Fn() -> Option<Legend>,
    lines: impl Fn() -> Vec<LineNow>,
    stop: impl Future<Output = ()>,
    ready: impl FnOnce(&[SocketAddr]),
    told: impl Fn(&str),
) -> Result<(), WatchError> {
    for place in &config.listen {
        if let Listen::Address(address) = place
            && !address.ip().is_loopback()
            && !config.behind_proxy
        {
            let missing = match (&config.tls, &config.access) {
                (Some(_), Some(_)) => continue,
                (Some(_), None) => "who may look is not said",
                (None, Some(_)) => "there is no TLS",
                (None, None) => "there is neither",
            };
            return Err(WatchError::Open(*address, missing));
        }
    }
    let door = Arc::new(Door::open(config.tls.as_ref(), config.access.as_deref())?);
    let outlets = Mutex::new(Outlets::open(&config.sending)?);
    let history = FileStorage::open(&config.history, config.size)?;
    let kept = Mutex::new(kept(&history));
    let history = Arc::new(Mutex::new(history));
    let (send, seen) = watch::channel(Arc::new(Seen::default()));
    let shared = Arc::new(Shared {
        seen,
        history: Arc::clone(&history),
        legend: Mutex::new(Arc::new(legend.clone())),
        refused: Mutex::new(None),
        blind: Mutex::new(None),
        untimed: Mutex::new(None),
        kept,
        every: config.every,
        readers: Readers::default(),
        behind_proxy: config.behind_proxy,
        door: Arc::clone(&door),
        outlets,
        live: Arc::new(Semaphore::new(http::LIVE)),
    });
    // Before anybody can ask: to load programs keeps this thread for seconds.
    let mut round = Round::new(&config, legend, Arc::clone(&shared))?;
    let (servers, places) = http::listen(&config.listen, &shared).await?;
    let work = async {
        let mut ticks = tokio::time::interval(config.every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            if round.sources_changed()
                && let Some(legend) = again()
            {
                round.applied(&legend);
                *lock(&shared.legend) = Arc::new(legend.clone());
                round.steps.looker.set_legend(legend);
            }
            for text in lock(&shared.outlets).told() {
                told(&text);
                round.happened("send", text);
            }
            round.steps.set_lines(lines());
            let seen = round.once(&told).await;
            *lock(&shared.refused) = round.steps.looker.refused().map(str::to_owned);
            *lock(&shared.blind) = round.steps.looker.blind().map(str::to_owned);
            if let Some(text) = round.left_out() {
                told(&text);
                round.happened("packets", text);
            }
            if let Some(seen) = seen {
                offer(&shared, &seen);
                send.send_replace(Arc::new(seen));
            }
        }
    };
    ready(&places);
    tokio::select! {
        () = work => {}
        () = door.follow(&told) => {}
        () = stop => {}
    }
    drop(servers);
    round.end().await;
    Ok(())
}

/// Queues what was seen for the receivers, when it is time.
fn offer(shared: &Shared, seen: &Seen) {
    let now = Instant::now();
    if lock(&shared.outlets).due(now) {
        let own = shared.own(seen.failing.is_some());
        lock(&shared.outlets).offer(now, seen.time, &seen.changes, &own);
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wall() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    // A clock before 1970 is one that nobody set.
    since.map_or(0, |since| since.as_millis() as i64)
}

/// One look after the other, and where it goes.
struct Round {
    steps: Steps,
    shared: Arc<Shared>,
    committed: Instant,
    events: Vec<Event>,
    sources: Vec<(PathBuf, Option<SystemTime>)>,
    /// The number of the state that is applied, as far as that is known.
    applied: Option<u64>,
    failing: Option<String>,
    failed: Option<String>,
}

impl Round {
    fn new(config: &Config, legend: Legend, shared: Arc<Shared>) -> Result<Self, WatchError> {
        let applied = legend.applied;
        let mut steps = Steps::open(legend)?;
        steps.come_every(config.every);
        steps.look_at_packets();
        steps.probe(&config.probes)?;
        Ok(Self {
            steps,
            shared,
            committed: Instant::now(),
            events: vec![Event {
                time: wall(),
                kind: String::from("watch"),
                text: String::from("watching begins"),
            }],
            applied,
            sources: config
                .sources
                .iter()
                .map(|path| (path.clone(), changed(path)))
                .collect(),
            failing: None,
            failed: None,
        })
    }

    async fn once(&mut self, told: impl Fn(&str)) -> Option<Seen> {
        let step = match self.steps.step(wall(), Instant::now()).await {
            Ok(step) => step,
            Err(error) => {
                // Said once, not every second.
                let error = error.to_string();
                if self.failed.as_ref() != Some(&error) {
                    told(&error);
                    self.failed = Some(error);
                }
                return None;
            }
        };
        self.failed = None;
        self.events.extend(self.steps.events());
        let step = step?;
        self.keep(step.time, step.interval, &step.changes, &told)
            .await;
        Some(Seen {
            time: step.time,
            json: step.json(self.steps.looker.legend()).to_string(),
            changes: step.changes,
            failing: self.failing.clone(),
        })
    }

    fn happened(&mut self, kind: &str, text: String) {
        self.events.push(Event {
            time: wall(),
            kind: kind.to_owned(),
            text,
        });
    }

    /// What to say where there is no more room for times, the first time.
    fn left_out(&mut self) -> Option<String> {
        let untimed = self.steps.looker.untimed();
        let before = std::mem::replace(&mut *lock(&self.shared.untimed), untimed);
        let none = before.is_none_or(|before| before.left_out == 0);
        (none && untimed.is_some_and(|untimed| untimed.left_out > 0)).then(|| {
            String::from(
                "there is no room for the waits and round trips of more classes: those of some are \
                 not known",
            )
        })
    }

    fn sources_changed(&mut self) -> bool {
        let mut any = false;
        for (path, last) in &mut self.sources {
            let now = changed(path);
            // Two changes may have one time: what is new is looked at again.
            let age = now.and_then(|time| SystemTime::now().duration_since(time).ok());
            any |= *last != now || age.is_some_and(|age| age < NEW);
            *last = now;
        }
        any
    }

    /// Tells of a state that was applied, or came back, since the legend before.
    fn applied(&mut self, legend: &Legend) {
        let Some(number) = legend.applied else { return };
        let text = match self.applied.replace(number) {
            Some(before) if before == number => return,
            Some(_) if number == 0 => String::from("no state is applied any more"),
            Some(before) if before > number => {
                format!("state {before} is taken back, state {number} is applied again")
            }
            _ => format!("state {number} was applied"),
        };
        self.happened("apply", text);
    }

    /// Puts a row into the history, away from the thread that answers requests.
    async fn keep(&mut self, time: i64, interval: i64, changes: &[Change], told: impl Fn(&str)) {
        let values = row(changes);
        let events = std::mem::take(&mut self.events);
        let due = self.committed.elapsed() >= COMMIT;
        if due {
            self.committed = Instant::now();
        }
        let shared = Arc::clone(&self.shared);
        let work = tokio::task::spawn_blocking(move || -> Result<bool, HistoryError> {
            let mut history = lock(&shared.history);
            for event in events {
                history.event(event);
            }
            let values = values
                .iter()
                .map(|(name, kind, value)| (&**name, *kind, *value));
            let taken = history.append(time, interval, values);
            let written = if due {
                taken.and_then(|()| history.commit())
            } else {
                taken
            };
            *lock(&shared.kept) = kept(&history);
            written.map(|()| due)
        });
        match work.await {
            Ok(Ok(true)) => {
                if self.failing.take().is_some() {
                    told("the history is written again");
                }
            }
            Ok(Err(error)) => {
                let text = format!("the history cannot be written: {error}");
                if self.failing.as_ref() != Some(&text) {
                    told(&text);
                }
                self.failing = Some(text);
            }
            // Nothing was due, or the runtime ends.
            Ok(Ok(false)) | Err(_) => {}
        }
    }

    async fn end(self) {
        let history = Arc::clone(&self.shared.history);
        // What cannot be written now is lost; the last word was said before.
        let _ = tokio::task::spawn_blocking(move || lock(&history).commit()).await;
    }
}

fn changed(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path)
        .and_then(|file| file.modified())
        .ok()
}

fn row(changes: &[Change]) -> Vec<(String, Kind, i64)> {
    let mut values = Vec::new();
    for change in changes {
        let labels = change.object.label_text();
        for (number, value) in &change.values {
            let metric = number.metric();
            let kind = match metric.width {
                crate::object::Width::Gauge => Kind::Gauge,
                _ => Kind::Counter,
            };
            values.push((series(metric, &labels), kind, *value));
        }
    }
    values
}
