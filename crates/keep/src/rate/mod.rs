// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Follows the line's rate for a policy that says so: runs the tracker, changes rates in place,
//! writes records and reports the status.
//!
//! The record is beside the memory, below `/run`: `rate.record`, and the one before as
//! `rate.record.old`, each of at most about [`LONGEST`] bytes. When a record is full, a new
//! controller begins at the present rates. So every record is complete, and can be replayed.

pub(crate) mod reflector;
pub(crate) mod reflectors;
mod round_trips;
pub(crate) mod tracker;

use crate::clock;
use crate::error::KeepError;
use crate::rate::tracker::Tracker;
use crate::site::Site;
use crate::store::folder::{self, Folders};
use crate::store::history::Entry;
use crate::store::sealed;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use weirgate_kernel::Kernel;
use weirgate_state::{DeviceName, Qdisc, State};
use weirgate_track::{Decided, Decision, Direction, Reason, Setup};

/// The size in bytes beyond which a new record begins.
const LONGEST: usize = 4 << 20;
const HINT: &str = "`weirgate keep` writes it again";

/// Computes the policy's state at these rates of the line, upstream and downstream, in bits per
/// second. Returns an error if there is none.
pub type At = Box<dyn Fn([Option<u64>; 2]) -> Result<State, String>>;

/// What is followed; a caller that knows policies makes it from an entry.
pub struct Following {
    /// Which reflectors to probe and which devices to count.
    pub setup: Setup,
    /// Computes the state at other rates.
    pub at: At,
}

/// The state of one direction, for observers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectionRate {
    /// `up` or `down`.
    #[serde(rename = "way")]
    pub direction: String,
    /// The present rate of the line, in bits per second on the wire.
    pub rate: u64,
    /// The lowest rate that it may get.
    pub floor: u64,
    /// The highest rate that it may get.
    pub ceiling: u64,
    /// The reason for the rate, in one word; see `weirgate_track::Reason`.
    pub reason: String,
}

/// The state of rate following, as written below `/run` after every decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RatesNow {
    /// The entry whose policy is followed.
    pub number: u64,
    /// The link's device towards the line.
    #[serde(default)]
    pub device: String,
    /// Unix time of the last decision, in seconds.
    pub time: u64,
    /// Whether nothing measures the line at present, so that the rate is the floor.
    pub blind: bool,
    /// Whether reflectors are probed, and not only the traffic itself is measured.
    #[serde(default)]
    pub probes: bool,
    /// Whether too little traffic crosses the line to estimate anything.
    #[serde(default)]
    pub idle: bool,
    /// The directions that are followed.
    #[serde(rename = "ways")]
    pub directions: Vec<DirectionRate>,
    /// Reflectors that are ignored, with the reasons.
    pub troubled: Vec<(String, String)>,
}

impl RatesNow {
    fn file(folders: &Folders) -> PathBuf {
        folders.run.join("rate.json")
    }

    /// Returns the last written state; `None` if no rate is followed.
    pub fn read(folders: &Folders) -> Result<Option<Self>, KeepError> {
        sealed::read(&Self::file(folders), HINT)
    }
}

/// Returns the path of the tracker's record.
#[must_use]
pub fn record_file(folders: &Folders) -> PathBuf {
    folders.run.join("rate.record")
}

/// A rate that is followed.
pub(crate) struct Rates {
    pub(crate) now: RatesNow,
    tracker: Tracker,
    at: At,
    record: Option<File>,
    length: usize,
}

impl Rates {
    /// Begins to follow the rate for an entry's policy.
    pub(crate) fn begin(site: &Site, number: u64, following: Following) -> Result<Self, KeepError> {
        let Following { setup, at } = following;
        let probes = !setup.reflectors.is_empty();
        let device = setup.line.to_string();
        let tracker = Tracker::open(setup, Kernel::open()?)?;
        let mut rates = Self {
            now: RatesNow {
                number,
                device,
                time: clock::unix(),
                blind: false,
                probes,
                idle: false,
                directions: Vec::new(),
                troubled: Vec::new(),
            },
            tracker,
            at,
            record: None,
            length: 0,
        };
        rates.new_record(&site.folders)?;
        Ok(rates)
    }

    fn new_record(&mut self, folders: &Folders) -> Result<(), KeepError> {
        folder::folder(&folders.run)?;
        let path = record_file(folders);
        // Ignore errors: the first record has no predecessor.
        let _ = fs::rename(&path, path.with_extension("record.old"));
        let file = sealed::fresh(&path).map_err(KeepError::file(&path))?;
        self.record = Some(file);
        self.length = 0;
        Ok(())
    }

    /// Waits for a decision. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Vec<Decision>, KeepError> {
        self.tracker.next().await
    }

    /// Notes decisions. Returns whether a rate has changed.
    pub(crate) fn note(
        &mut self,
        folders: &Folders,
        decisions: &[Decision],
    ) -> Result<bool, KeepError> {
        let mut other = false;
        for decision in decisions {
            match decision.what {
                Decided::Rate {
                    direction,
                    rate,
                    reason,
                } => {
                    other = true;
                    self.now_at(direction, rate, reason);
                }
                Decided::Reflector { index, trouble } => {
                    let address = self.tracker.setup().reflectors.get(usize::from(index));
                    let name = address.map_or_else(String::new, ToString::to_string);
                    self.now.troubled.retain(|one| one.0 != name);
                    if let Some(trouble) = trouble {
                        self.now.troubled.push((name, trouble.to_string()));
                    }
                }
            }
        }
        self.now.blind = self.tracker.controller().blind();
        self.now.idle = self.tracker.controller().idle();
        self.now.time = clock::unix();
        sealed::write(&RatesNow::file(folders), &self.now)?;
        self.write(folders)?;
        Ok(other)
    }

    fn now_at(&mut self, direction: Direction, rate: u64, reason: Reason) {
        let Some(limits) = self.tracker.setup().settings.limits(direction) else {
            return;
        };
        let now = DirectionRate {
            direction: direction.to_string(),
            rate,
            floor: limits.floor,
            ceiling: limits.ceiling,
            reason: reason.to_string(),
        };
        self.now
            .directions
            .retain(|one| one.direction != now.direction);
        self.now.directions.push(now);
    }

    fn write(&mut self, folders: &Folders) -> Result<(), KeepError> {
        if self.length > LONGEST && !self.now.blind && self.tracker.begin_again() {
            self.new_record(folders)?;
        }
        let text = self.tracker.written();
        self.length += text.len();
        // A record that cannot be written is no reason to stop following the rate.
        if let Some(file) = &mut self.record
            && file.write_all(text.as_bytes()).is_err()
        {
            self.record = None;
        }
        Ok(())
    }

    /// Brings the present rates into force. The tracker continues during that time, and what it
    /// decides is returned.
    pub(crate) async fn put(&mut self, site: &Site) -> Result<Vec<Decision>, KeepError> {
        let controller = self.tracker.controller();
        let rates = Direction::BOTH.map(|direction| controller.rate(direction));
        let state = (self.at)(rates).map_err(|why| {
            KeepError::Nothing(format!("no state at the rates of the line: {why}"))
        })?;
        let number = self.now.number;
        // The next repair applies these rates if that is not possible now.
        site.keep_at(number, Some(&state));
        let work = async {
            let lock = site.lock().await?;
            // While a change waits, its guard relies on the rates as they were.
            if site.unconfirmed()?.is_some() || site.head()?.confirmed != Some(number) {
                return Ok(());
            }
            site.restore(&lock).await.map(|_| ())
        };
        let mut work = std::pin::pin!(work);
        let mut more = Vec::new();
        loop {
            tokio::select! {
                biased;
                done = &mut work => {
                    done?;
                    return Ok(more);
                }
                decisions = self.tracker.next() => more.extend(decisions?),
            }
        }
    }

    /// Ends the following of rates.
    pub(crate) fn end(site: &Site) {
        site.keep_at(0, None);
        // Ignore errors: the file is missing if no rate was followed.
        let _ = fs::remove_file(RatesNow::file(&site.folders));
    }
}

impl Site {
    /// Sets the state that replaces the one of entry `number` until the next call.
    pub(crate) fn keep_at(&self, number: u64, state: Option<&State>) {
        let mut at = self
            .rates
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        *at = state.map(|state| (number, state.clone()));
    }

    /// Returns the state that should be in force for an entry: its own, or the same at the present
    /// rates of the line.
    pub(crate) fn at_rates(&self, entry: &Entry) -> State {
        let at = self.rates_of(entry.number, State::clone);
        at.unwrap_or_else(|| entry.desired.clone())
    }

    /// Returns a device's qdisc tree at the present rates of the line; `None` if entry `number`
    /// follows no rate.
    pub(crate) fn root_at_rates(&self, number: u64, device: &DeviceName) -> Option<Qdisc> {
        let root = |state: &State| state.devices.get(device)?.root.clone();
        self.rates_of(number, root).flatten()
    }

    /// Returns a part of an entry's state at the present rates of the line.
    fn rates_of<T>(&self, number: u64, part: impl FnOnce(&State) -> T) -> Option<T> {
        let at = self
            .rates
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let at = at.as_ref().filter(|(of, _)| *of == number);
        at.map(|(_, state)| part(state))
    }
}
