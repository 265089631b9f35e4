// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The data from which requests are answered.

use crate::export::openmetrics::Own;
use crate::export::push::Outlets;
use crate::legend::Legend;
use crate::lock::lock;
use crate::look::circuits::Circuits;
use crate::look::packet_stats::Untimed;
use crate::serve::credentials::Credentials;
use crate::serve::history::Readers;
use crate::step::diff::Change;
use crate::storage::FileStorage;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use weirgate_history::{History, Status};

/// The last look.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// When it was seen; `None` before the first look.
    pub(crate) at: Option<Instant>,
    /// The time in milliseconds of Unix time.
    pub(crate) time: i64,
    /// The objects and their changes.
    pub(crate) changes: Vec<Change>,
    /// The text of [`now`](crate::now()).
    pub(crate) json: String,
    /// Why the history cannot be written at present, if it cannot.
    pub(crate) failing: Option<String>,
}

/// A look that is older than this many intervals, and than this time, is no present one.
const MISSED_LOOKS: u32 = 4;
const OLD: Duration = Duration::from_secs(10);

impl Seen {
    /// Returns how old the look is, if the next ones are overdue.
    pub(crate) fn overdue(&self, every: Duration) -> Option<Duration> {
        let age = self.at?.elapsed();
        (age > OLD.max(every * MISSED_LOOKS)).then_some(age)
    }
}

/// The data from which requests are answered.
pub(crate) struct Shared {
    pub(crate) seen: watch::Receiver<Arc<Seen>>,
    pub(crate) history: Arc<Mutex<History<FileStorage>>>,
    pub(crate) legend: Mutex<Arc<Legend>>,
    pub(crate) refused_to_read: Mutex<Option<String>>,
    pub(crate) blind: Mutex<Option<String>>,
    /// The circuits of all devices, as of the last look.
    pub(crate) circuits: Mutex<Circuits>,
    /// Serialises queries of circuits.
    pub(crate) circuits_turn: tokio::sync::Mutex<()>,
    pub(crate) untimed: Mutex<Option<Untimed>>,
    /// The history's state when it was last written, so that a request for it does not wait for
    /// the disk.
    pub(crate) history_state: Mutex<HistoryState>,
    pub(crate) every: Duration,
    pub(crate) readers: Readers,
    pub(crate) credentials: Credentials,
    /// The number of unauthenticated requests that web processes have refused, as they report.
    pub(crate) refused: AtomicU64,
    pub(crate) outlets: Mutex<Outlets>,
}

/// The state of the history.
#[derive(Clone)]
pub(crate) struct HistoryState {
    pub(crate) status: Status,
    /// The times of the first and the last row.
    pub(crate) span: Option<(i64, i64)>,
}

impl HistoryState {
    pub(crate) fn of(history: &History<FileStorage>) -> Self {
        Self {
            status: history.status(),
            span: history.span(),
        }
    }
}

impl Shared {
    /// Returns metrics of this program itself.
    pub(crate) fn own(&self, failing: bool) -> Vec<Own> {
        let history = lock(&self.history_state).status.clone();
        let mut own = vec![
            Own::one(
                "weirgate_history_series",
                "Series in the history.",
                false,
                history.series as u64,
            ),
            Own::one(
                "weirgate_history_lost",
                "Rows and events that could not be written to the history since the start.",
                true,
                history.lost,
            ),
            Own::one(
                "weirgate_history_left_out",
                "Values for which the history had no room since the start.",
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
                    "Packets that left a queue but were not seen to enter it, so that their waiting time is unknown.",
                    true,
                    untimed.packets,
                ),
                Own::one(
                    "weirgate_times_left_out",
                    "Waiting times and round-trip times that were discarded, because more classes send than can be measured.",
                    true,
                    untimed.left_out,
                ),
            ]);
        }
        if self.credentials.asks() {
            own.push(Own::one(
                "weirgate_access_refused",
                "Requests that showed a wrong password or token.",
                true,
                self.refused.load(Ordering::Relaxed),
            ));
        }
        own.extend(lock(&self.outlets).own());
        own
    }
}
