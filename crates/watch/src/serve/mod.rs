// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The collector: looks every second, writes the history, and answers the web process, which
//! serves clients.

mod answers;
mod circuits;
pub(crate) mod config;
mod credentials;
mod file_watch;
mod history;
mod host_names;
mod listeners;
mod shared;
mod web_process;

use crate::WatchError;
use crate::circuits::metrics::is_of_history;
use crate::export::push::Outlets;
use crate::legend::Legend;
use crate::lock::lock;
use crate::look::link::LineNow;
use crate::look::site_links::SiteLink;
use crate::object::{Width, series};
use crate::sources::Sources;
use crate::step::Steps;
use crate::step::diff::Change;
use crate::storage::FileStorage;
use config::{Config, Listen};
use credentials::Credentials;
use history::Readers;
use shared::{HistoryState, Seen, Shared};
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use web_process::WebProcess;
use weirgate_history::{Event, HistoryError, Kind};

/// The longest time between commits of the history. With the time that the disk takes, a power
/// failure loses at most five seconds.
const COMMIT: Duration = Duration::from_secs(3);

/// Serves until `stop` completes. `again` reads the legend again, if possible. Before each look,
/// `told` returns the rates that `[track]` estimates, and the use of several links of the site.
/// `ready` receives the addresses once the web process answers there; `report` receives messages
/// for the administrator. Needs a tokio runtime.
pub async fn serve(
    config: Config,
    legend: Legend,
    again: impl Fn() -> Option<Legend>,
    told: impl Fn() -> (Vec<LineNow>, Vec<SiteLink>),
    stop: impl Future<Output = ()>,
    ready: impl FnOnce(&[SocketAddr]),
    report: impl Fn(&str),
) -> Result<(), WatchError> {
    for listen in &config.listen {
        if let Listen::Address(address) = listen
            && !address.ip().is_loopback()
            && !config.behind_proxy
        {
            let missing = match (&config.tls, &config.access) {
                (Some(_), Some(_)) => continue,
                (Some(_), None) => "who may look is not configured",
                (None, Some(_)) => "there is no TLS",
                (None, None) => "there is neither",
            };
            return Err(WatchError::Open(*address, missing));
        }
    }
    let credentials = Credentials::open(&config)?;
    let outlets = Mutex::new(Outlets::open(&config.sending)?);
    let history = FileStorage::open(&config.history, config.size)?;
    if let lost @ 1.. = history.status().lost {
        report(&format!(
            "the history's journal was damaged: {lost} rows at least are lost"
        ));
    }
    let state = Mutex::new(HistoryState::of(&history));
    let history = Arc::new(Mutex::new(history));
    let (send, seen) = watch::channel(Arc::new(Seen::default()));
    let shared = Arc::new(Shared {
        seen,
        history: Arc::clone(&history),
        legend: Mutex::new(Arc::new(legend.clone())),
        refused_to_read: Mutex::new(None),
        blind: Mutex::new(None),
        circuits: Mutex::default(),
        circuits_turn: tokio::sync::Mutex::default(),
        untimed: Mutex::new(None),
        history_state: state,
        every: config.every,
        readers: Readers::default(),
        credentials,
        refused: AtomicU64::new(0),
        outlets,
    });
    // Load the programs before requests can arrive, because it blocks this thread for seconds.
    let mut round = Round::new(&config, legend, Arc::clone(&shared))?;
    let (sockets, addresses) = listeners::listen(&config.listen).await?;
    let mut web = WebProcess::new(config.begin_web, sockets, Arc::clone(&shared));
    let work = async {
        let mut ticks = tokio::time::interval(config.every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            if round.sources.have_changed()
                && let Some(legend) = again()
            {
                round.applied(&legend);
                *lock(&shared.legend) = Arc::new(legend.clone());
                round.steps.set_legend(legend);
            }
            for text in lock(&shared.outlets).take_notes() {
                report(&text);
                round.happened("send", text);
            }
            let (tracked, links) = told();
            round.steps.set_lines(tracked);
            round.steps.set_links(links);
            let seen = round.once(&report).await;
            *lock(&shared.refused_to_read) = round.steps.looker.refused().map(str::to_owned);
            *lock(&shared.blind) = round.steps.looker.blind().map(str::to_owned);
            *lock(&shared.circuits) = round.steps.looker.circuits().clone();
            if let Some(text) = round.left_out() {
                report(&text);
                round.happened("packets", text);
            }
            if let Some(seen) = seen {
                offer(&shared, &seen);
                send.send_replace(Arc::new(seen));
            }
        }
    };
    let ended = tokio::select! {
        () = work => Ok(()),
        () = shared.credentials.follow(&report) => Ok(()),
        never = web.run(|| ready(&addresses), &report) => never.map(drop),
        () = stop => Ok(()),
    };
    web.end().await;
    round.end().await;
    ended
}

/// Queues a look for the receivers, when one is due.
fn offer(shared: &Shared, seen: &Seen) {
    let now = Instant::now();
    if lock(&shared.outlets).due(now) {
        let own = shared.own(seen.failing.is_some());
        lock(&shared.outlets).offer(now, seen.time, &seen.changes, &own);
    }
}

fn wall() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    // A clock before 1970 was never set.
    since.map_or(0, |since| since.as_millis() as i64)
}

/// Takes looks one after the other, and distributes them.
struct Round {
    steps: Steps,
    shared: Arc<Shared>,
    committed: Instant,
    events: Vec<Event>,
    sources: Sources,
    /// The number of the applied state, if it is known.
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
            sources: config.sources.clone(),
            failing: None,
            failed: None,
        })
    }

    async fn once(&mut self, report: impl Fn(&str)) -> Option<Seen> {
        let step = match self.steps.step(wall(), Instant::now()).await {
            Ok(step) => step,
            Err(error) => {
                // Report an error once, not every second.
                let error = error.to_string();
                if self.failed.as_ref() != Some(&error) {
                    report(&error);
                    self.failed = Some(error);
                }
                return None;
            }
        };
        self.failed = None;
        self.events.extend(self.steps.events());
        let step = step?;
        self.keep(step.time, step.interval, &step.changes, &report)
            .await;
        Some(Seen {
            at: Some(Instant::now()),
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

    /// Returns the message about lack of room for times, the first time that it occurs.
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

    /// Records an event if another state was applied or restored since the previous legend.
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

    /// Writes a row of the history, on a blocking thread.
    async fn keep(&mut self, time: i64, interval: i64, changes: &[Change], report: impl Fn(&str)) {
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
            *lock(&shared.history_state) = HistoryState::of(&history);
            written.map(|()| due)
        });
        match work.await {
            Ok(Ok(true)) => {
                if self.failing.take().is_some() {
                    report("the history is written again");
                }
            }
            Ok(Err(error)) => {
                let text = format!("the history cannot be written: {error}");
                if self.failing.as_ref() != Some(&text) {
                    report(&text);
                }
                self.failing = Some(text);
            }
            // Nothing was due, or the runtime is shutting down.
            Ok(Ok(false)) | Err(_) => {}
        }
    }

    async fn end(self) {
        let history = Arc::clone(&self.shared.history);
        // Ignore: data that cannot be written now are lost, and no more messages can be sent.
        let _ = tokio::task::spawn_blocking(move || lock(&history).commit()).await;
    }
}

fn row(changes: &[Change]) -> Vec<(String, Kind, i64)> {
    let mut values = Vec::new();
    for change in changes {
        let labels = change.object.label_text();
        let own = change.values.iter();
        for (number, value) in own.filter(|(number, _)| is_of_history(&change.object, *number)) {
            let metric = number.metric();
            let kind = match metric.width {
                Width::Gauge => Kind::Gauge,
                _ => Kind::Counter,
            };
            values.push((series(metric, &labels), kind, *value));
        }
    }
    values
}
