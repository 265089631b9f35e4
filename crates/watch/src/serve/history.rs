// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers from the history. Each is read from a copy of what is in memory and
//! through a handle of its own, so that looks go on meanwhile, and sent piece by
//! piece. What all answers hold together is bounded, and so is for how long one
//! who reads slowly keeps his.

use crate::lock::lock;
use crate::serve::answer::{Answer, later, plain, whole};
use crate::serve::query::Query;
use crate::serve::shared::Shared;
use crate::storage::FileStorage;
use http_body_util::Either;
use http_body_util::channel::{Channel, Sender};
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use weirgate_history::{Event, History, HistoryError, Reading, write_csv, write_json};

/// Points of one answer, all series together: more than a day of seconds.
const POINTS: i64 = 100_000;
/// Points of all answers that are being sent, some 60 bytes each: two of the largest,
/// and graphs beside.
const HELD: usize = 240_000;
/// Readings that are gone through at once.
const GOING: usize = 2;
/// For so long a request waits until others are done.
const WAIT: Duration = Duration::from_secs(10);
/// So often it looks whether they are.
const LOOK: Duration = Duration::from_millis(50);
/// A larger text is sent in pieces of so many bytes.
const PIECE: usize = 65_536;
/// Who takes less than so many bytes by the second, after a first while, is left.
const SLOWEST: u64 = 16_000;
const FIRST: Duration = Duration::from_secs(30);

/// Places for those who read.
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

/// How an answer begins.
enum Begin {
    /// With all of it.
    Whole(String),
    /// Its pieces follow.
    Pieces,
    /// It cannot be read.
    Failed(HistoryError),
}

/// What was read.
enum Found {
    Names(Vec<String>),
    Series(Vec<Reading>, Vec<Event>),
    Table(Vec<Reading>),
}

/// Answers a request of the history.
pub(crate) async fn read(path: &'static str, mut query: Query, shared: &Arc<Shared>) -> Answer {
    let span = lock(&shared.history_state).span.unwrap_or((0, 0));
    let length = query.to.min(span.1).saturating_sub(query.from.max(span.0));
    let points = bounded(&mut query, length.max(0), shared.every);
    let readers = &shared.readers;
    let Some(held) = held(readers, points).await else {
        return busy();
    };
    let Ok(Ok(going)) = timeout(WAIT, Arc::clone(&readers.going).acquire_owned()).await else {
        return busy();
    };
    let (begin, answered) = oneshot::channel();
    let (send, body) = Channel::new(1);
    let history = Arc::clone(&shared.history);
    let runtime = Handle::current();
    tokio::task::spawn_blocking(move || {
        let names: Vec<&str> = query.series.iter().map(|name| &**name).collect();
        let copy = {
            let history = lock(&history);
            let file = history.storage().again();
            file.map(|file| history.reading(file, &names))
        };
        let found = copy.map_err(HistoryError::from);
        let found = found.and_then(|copy| gone_through(path, &copy, &names, &query));
        drop(going);
        let mut pieces = Pieces {
            text: String::new(),
            begin: Some(begin),
            send,
            runtime,
            since: Instant::now(),
            sent: 0,
        };
        let written = match found {
            Ok(found) => written(&found, &mut pieces),
            Err(error) => {
                pieces.begins(Begin::Failed(error));
                Ok(())
            }
        };
        match written.and_then(|()| pieces.end()) {
            Ok(()) => {}
            // An end that looked like one would make half of it the whole.
            Err(fmt::Error) => pieces.send.abort(io::ErrorKind::TimedOut.into()),
        }
        drop(held);
    });
    let kind = match path {
        "/api/read.csv" => "text/csv; charset=utf-8",
        _ => "application/json",
    };
    match answered.await {
        Ok(Begin::Whole(text)) => whole(StatusCode::OK, kind, text),
        Ok(Begin::Pieces) => {
            let mut answer = Response::new(Either::Right(body));
            let kind = HeaderValue::from_static(kind);
            answer.headers_mut().insert(header::CONTENT_TYPE, kind);
            answer
        }
        Ok(Begin::Failed(error)) => plain(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
        Err(_) => plain(StatusCode::SERVICE_UNAVAILABLE, "weirgate ends\n"),
    }
}

/// Room for so many points, as soon as there is. Who wants few does not wait behind
/// those who want many, as a semaphore's own queue would have it.
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

fn busy() -> Answer {
    later("others read the history; try again later\n", 10)
}

/// Lengthens a query's steps so that the answer has not too many points; how many
/// it may have. `length` is the milliseconds of it of which anything is known.
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
    path: &str,
    history: &History<FileStorage>,
    names: &[&str],
    query: &Query,
) -> Result<Found, HistoryError> {
    let (from, to) = (query.from, query.to);
    Ok(match path {
        "/api/series" => Found::Names(history.series(from, to)?.into_keys().collect()),
        "/api/events" => Found::Series(Vec::new(), history.events(from, to)?),
        "/api/read.csv" => Found::Table(history.read(names, from, to, query.step)?),
        _ => {
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

/// Takes text, and sends it on.
struct Pieces {
    text: String,
    /// Whom to tell how it begins, as long as nobody knows.
    begin: Option<oneshot::Sender<Begin>>,
    send: Sender<Bytes, io::Error>,
    runtime: Handle,
    since: Instant,
    sent: u64,
}

impl Pieces {
    fn begins(&mut self, how: Begin) {
        if let Some(begin) = self.begin.take() {
            // Who asked may be gone.
            let _ = begin.send(how);
        }
    }

    /// Sends what there is, if it is taken in time.
    fn flush(&mut self) -> fmt::Result {
        self.begins(Begin::Pieces);
        let text = Bytes::from(std::mem::take(&mut self.text));
        self.sent += text.len() as u64;
        let until = self.since + FIRST + Duration::from_secs(self.sent / SLOWEST);
        let send = timeout_at(until, self.send.send_data(text));
        match self.runtime.block_on(send) {
            Ok(Ok(())) => Ok(()),
            _ => Err(fmt::Error),
        }
    }

    fn end(&mut self) -> fmt::Result {
        if self.begin.is_some() {
            let text = std::mem::take(&mut self.text);
            self.begins(Begin::Whole(text));
            return Ok(());
        }
        if self.text.is_empty() {
            return Ok(());
        }
        self.flush()
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
        // A day by the second is as it came.
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
