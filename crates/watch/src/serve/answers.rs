// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers to the web process: current values, the history, OpenMetrics. Requests cannot change
//! anything.

use crate::channel::{
    BAD_REQUEST, LATER, LONGEST_REQUEST, OK, PIECE, SETTINGS, gone, read, whole, write,
};
use crate::export::openmetrics::openmetrics;
use crate::lock::lock;
use crate::serve::host_names::host_names;
use crate::serve::shared::{HistoryState, Shared};
use crate::serve::{circuits, history};
use crate::web::query::Query;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// The timeout for a request.
const REQUEST: Duration = Duration::from_secs(5);

/// Answers the request on a stream.
pub(crate) async fn answer(mut stream: UnixStream, shared: &Arc<Shared>) -> io::Result<()> {
    let request = timeout(REQUEST, read(&mut stream, LONGEST_REQUEST)).await??;
    let request = str::from_utf8(&request).map_err(|_| io::ErrorKind::InvalidData)?;
    let (path, query) = request.split_once('?').unwrap_or((request, ""));
    match path {
        SETTINGS => shared.credentials.tell(stream).await,
        "/api/now" => {
            let seen = Arc::clone(&shared.seen.borrow());
            whole(&mut stream, OK, &seen.json).await
        }
        "/api/about" => whole(&mut stream, OK, &about(shared)).await,
        "/api/circuits" => circuits::answer(query, &mut stream, shared).await,
        "/api/live" => live(stream, shared).await,
        "/metrics" => {
            let seen = Arc::clone(&shared.seen.borrow());
            // Counters that stand still would look like a line without traffic.
            if let Some(age) = seen.overdue(shared.every) {
                let text = format!("nothing was seen for {} s\n", age.as_secs());
                return whole(&mut stream, LATER, &text).await;
            }
            let own = shared.own(seen.failing.is_some());
            whole(&mut stream, OK, &openmetrics(&seen.changes, &own)).await
        }
        _ => match (
            history::LOOKUPS.iter().find(|lookup| lookup.0 == path),
            Query::parse(query),
        ) {
            (Some((_, lookup)), Ok(query)) => history::read(*lookup, query, stream, shared).await,
            (Some(_), Err(wrong)) => whole(&mut stream, BAD_REQUEST, &format!("{wrong}\n")).await,
            (None, _) => Err(io::ErrorKind::InvalidData.into()),
        },
    }
}

/// Returns data that rarely change: the legend, names of hosts, and the state of the history.
fn about(shared: &Shared) -> String {
    let HistoryState { status, span } = lock(&shared.history_state).clone();
    let untimed = *lock(&shared.untimed);
    serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"),
        "host_names": host_names(),
        "legend": &*Arc::clone(&lock(&shared.legend)),
        "span_ms": span,
        "history": {
            "bytes": status.size,
            "spans_ms": status.spans,
            "steps_ms": weirgate_history::STEPS,
            "series": status.series,
            "left_out": status.refused,
            "lost": status.lost,
            "failing": shared.seen.borrow().failing.clone(),
        },
        "without_privilege": lock(&shared.refused_to_read).clone(),
        "without_circuits": lock(&shared.circuits).refused.clone(),
        "without_packets": lock(&shared.blind).clone(),
        "times_left_out": untimed.map(|untimed| untimed.left_out),
    })
    .to_string()
}

/// Sends every look as a server-sent event. A client that is too slow gets fewer.
async fn live(mut stream: UnixStream, shared: &Shared) -> io::Result<()> {
    let mut seen = shared.seen.clone();
    write(&mut stream, &OK.to_le_bytes()).await?;
    loop {
        let json = seen.borrow_and_update().json.clone();
        if !json.is_empty() {
            let event = format!("data: {json}\n\n");
            for piece in event.as_bytes().chunks(PIECE) {
                write(&mut stream, piece).await?;
            }
        }
        tokio::select! {
            changed = seen.changed() => if changed.is_err() {
                return write(&mut stream, &[]).await;
            },
            () = gone(&stream) => return Ok(()),
        }
    }
}
