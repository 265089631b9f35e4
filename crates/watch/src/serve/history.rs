// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers queries of the history. Each is read from a copy of the index in memory and through
//! its own file handle, so that looks continue, and is sent in pieces. The memory of all answers
//! is bounded, as is the time that a slow reader may take.

use crate::channel::{FAILED, LATER, OK, PIECE, gone, whole, write};
use crate::lock::lock;
use crate::serve::shared::Shared;
use crate::storage::FileStorage;
use crate::web::query::Query;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use weirgate_history::{Event, History, HistoryError, Reading, write_csv, write_json};

/// The largest number of points in an answer, over all series: more than one per second for a
/// day.
const POINTS: i64 = 100_000;
/// The largest number of points in all answers being sent, some 60 bytes each: two of the
/// largest answers, and smaller ones.
const HELD: usize = 240_000;
/// The number of concurrent readers of the history.
const GOING: usize = 2;
/// How long a request waits for others to finish.
const WAIT: Duration = Duration::from_secs(10);
/// How often it checks whether they have.
const LOOK: Duration = Duration::from_millis(50);
/// A reader that accepts fewer bytes a second than this, after the first while, is disconnected.
const SLOWEST: u64 = 16_000;
const FIRST: Duration = Duration::from_secs(30);

/// Permits for readers.
pub(crate) struct Readers {
    going: Arc<Semaphore>,
    held: Arc<Semaphore>,
}

impl Default for Readers {
    fn default() -> Self {
        Self {
            going: Arc::new(Semaphore::new(GOING)),
            held: Arc::new(Semaphore::new(HELD)),
        }
    }
}

/// The kind of query.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lookup {
    Names,
    Events,
    Json,
    Csv,
}

/// The path of each kind.
pub(crate) const LOOKUPS: [(&str, Lookup); 4] = [
    ("/api/series", Lookup::Names),
    ("/api/events", Lookup::Events),
    ("/api/read", Lookup::Json),
    ("/api/read.csv", Lookup::Csv),
];

/// The result of a query.
enum Found {
    Names(Vec<String>),
    Series(Vec<Reading>, Vec<Event>),
    Table(Vec<Reading>),
}

/// Answers a query of the history.
pub(crate) async fn read(
    lookup: Lookup,
    mut query: Query,
    mut stream: UnixStream,
    shared: &Arc<Shared>,
) -> io::Result<()> {
    let span = lock(&shared.history_state).span.unwrap_or((0, 0));
    let length = query.to.min(span.1).saturating_sub(query.from.max(span.0));
    let points = bounded(&mut query, length.max(0), shared.every);
    let readers = &shared.readers;
    let room = async {
        let held = held(readers, points).await?;
        let going = timeout(WAIT, Arc::clone(&readers.going).acquire_owned());
        Some((held, going.await.ok()?.ok()?))
    };
    let room = tokio::select! {
        room = room => room,
        () = gone(&stream) => return Ok(()),
    };
    let Some((held, going)) = room else {
        let busy = "others read the history; try again later\n";
        return whole(&mut stream, LATER, busy).await;
    };
    let history = Arc::clone(&shared.history);
    let runtime = Handle::current();
    let work = tokio::task::spawn_blocking(move || {
        let names: Vec<&str> = query.series.iter().map(|name| &**name).collect();
        let copy = {
            let history = lock(&history);
            let file = history.storage().again();
            file.map(|file| history.reading(file, &names))
        };
        let found = copy.map_err(HistoryError::from);
        let found = found.and_then(|copy| gone_through(lookup, &copy, &names, &query));
        drop(going);
        match found {
            Ok(found) => {
                let mut pieces = Pieces {
                    text: String::new(),
                    stream,
                    runtime,
                    since: Instant::now(),
                    sent: 0,
                };
                // On an error the end marker is missing, so the client knows that the answer is
                // incomplete.
                let written = pieces.begin().and_then(|()| written(&found, &mut pieces));
                let _ = written.and_then(|()| pieces.end());
            }
            Err(error) => {
                // The client may be gone.
                let _ = runtime.block_on(whole(&mut stream, FAILED, &format!("{error}\n")));
            }
        }
        drop(held);
    });
    work.await.map_err(io::Error::other)
}

/// Waits for room for this many points. Small requests do not queue behind large ones, as they
/// would in a fair semaphore.
async fn held(readers: &Readers, points: u32) -> Option<OwnedSemaphorePermit> {
    let until = Instant::now() + WAIT;
    loop {
        match Arc::clone(&readers.held).try_acquire_many_owned(points) {
            Ok(held) => return Some(held),
            Err(_) if Instant::now() < until => sleep(LOOK).await,
            Err(_) => return None,
        }
    }
}

/// Lengthens a query's steps so that the answer has not too many points; returns the largest
/// number that it may have. `length` is the milliseconds of it for which there are data.
fn bounded(query: &mut Query, length: i64, every: Duration) -> u32 {
    let count = query.series.len().max(1) as i64;
    let apart = i64::try_from(every.as_millis()).unwrap_or(i64::MAX).max(1);
    let step = query.step.max(0);
    if (length / apart.max(step)).saturating_mul(count) > POINTS {
        query.step = step.max(length.saturating_mul(count) / POINTS + 1);
    }
    let each = length / apart.max(query.step) + 2;
    u32::try_from(each.saturating_mul(count).min(POINTS)).unwrap_or(u32::MAX)
}

fn gone_through(
    lookup: Lookup,
    history: &History<FileStorage>,
    names: &[&str],
    query: &Query,
) -> Result<Found, HistoryError> {
    let (from, to) = (query.from, query.to);
    Ok(match lookup {
        Lookup::Names => Found::Names(history.series(from, to)?.into_keys().collect()),
        Lookup::Events => Found::Series(Vec::new(), history.events(from, to)?),
        Lookup::Csv => Found::Table(history.read(names, from, to, query.step)?),
        Lookup::Json => {
            let (readings, events) = history.read_with_events(names, from, to, query.step)?;
            Found::Series(readings, events)
        }
    })
}

fn written(found: &Found, out: &mut Pieces) -> fmt::Result {
    use fmt::Write as _;
    match found {
        Found::Names(names) => {
            let names = serde_json::json!({ "series": names });
            out.write_str(&names.to_string())
        }
        Found::Series(readings, events) => write_json(out, readings, events),
        Found::Table(readings) => write_csv(out, readings),
    }
}

/// Collects text and sends it.
struct Pieces {
    text: String,
    stream: UnixStream,
    runtime: Handle,
    since: Instant,
    sent: u64,
}

impl Pieces {
    /// Sends a frame, unless the reader is too slow.
    fn send(&mut self, frame: &[u8]) -> fmt::Result {
        self.sent += frame.len() as u64;
        let until = self.since + FIRST + Duration::from_secs(self.sent / SLOWEST);
        let send = timeout_at(until, write(&mut self.stream, frame));
        match self.runtime.block_on(send) {
            Ok(Ok(())) => Ok(()),
            _ => Err(fmt::Error),
        }
    }

    fn begin(&mut self) -> fmt::Result {
        self.send(&OK.to_le_bytes())
    }

    /// Sends the collected text.
    fn flush(&mut self) -> fmt::Result {
        let text = std::mem::take(&mut self.text);
        for piece in text.as_bytes().chunks(PIECE) {
            self.send(piece)?;
        }
        Ok(())
    }

    fn end(&mut self) -> fmt::Result {
        self.flush()?;
        self.send(&[])
    }
}

impl fmt::Write for Pieces {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text.push_str(text);
        if self.text.len() >= PIECE {
            return self.flush();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(series: usize, step: i64) -> Query {
        Query {
            step,
            series: vec![String::from("a"); series],
            ..Query::default()
        }
    }

    #[test]
    fn no_answer_has_more_points_than_there_may_be() {
        const DAY: i64 = 86_400_000;
        let second = Duration::from_secs(1);
        // A day of one-second values is returned as recorded.
        let mut one = query(1, 0);
        assert_eq!(bounded(&mut one, DAY, second), 86_402);
        assert_eq!(one.step, 0);
        for (series, step, every) in [
            (1, 0, 200),
            (64, 0, 1000),
            (64, 60_000, 1000),
            (2, 500, 200),
        ] {
            let mut query = query(series, step);
            let every = Duration::from_millis(every);
            let points = bounded(&mut query, 10 * DAY, every);
            assert!(i64::from(points) <= POINTS);
            assert!(10 * DAY / query.step * series as i64 <= POINTS, "{query:?}");
            assert!(query.step >= step);
        }
        let mut huge = query(64, i64::MAX);
        assert_eq!(bounded(&mut huge, i64::MAX, second), 3 * 64);
    }
}
