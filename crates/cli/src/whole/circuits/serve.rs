// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate circuits serve`: accepts changes of single circuits at a Unix socket.
//!
//! Each connection sends lines and gets an answer to each, in order. The service handles the
//! requests of all connections one at a time. It limits the number of connections, the length of a
//! line, and the time to send a line or to read an answer.

use super::live::{becomes, change_json, device, here, refused, say};
use super::show;
use crate::keep::{Group, alive, ready, watchdog};
use serde_json::{Value, json};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Mutex, watch};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep, timeout};
use weirgate_circuits::rows::Label;
use weirgate_circuits::{Named, One, Plan, Request, Wanted};
use weirgate_console::exit::{Failure, Outcome, Status, wrong};
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;
use weirgate_keep::{CircuitsDone, CircuitsSocket, OpenCircuits};
use weirgate_watch::called;

/// The most connections at a time; others wait to be accepted.
const MOST: usize = 64;

/// The most bytes of a line: enough for some thousand prefixes.
const LONGEST: usize = 1 << 16;

/// How long a connection may be silent, or take to complete a line.
const PATIENCE: Duration = Duration::from_mins(1);

/// How long a connection may take to read its answer.
const TAKEN: Duration = Duration::from_secs(10);

/// The time without a request after which the list is closed, to free its memory and maps.
const IDLE: Duration = Duration::from_mins(1);

/// The state that all connections share.
struct Shared {
    /// The open circuits, locked by one request at a time.
    circuits: Mutex<OpenCircuits>,
    /// Becomes true when the service is to end.
    ends: watch::Receiver<bool>,
    /// Notified by each request.
    asked: watch::Sender<()>,
}

/// `weirgate circuits serve`.
pub(super) fn serve(state: &Path, path: &Path, group: Option<Group>) -> Outcome {
    in_runtime(async {
        let (folders, kernel) = here(state)?;
        let group = group.map(|Group(number)| number);
        let socket = CircuitsSocket::open(&folders, path, group).await;
        let socket = socket.map_err(crate::policy::apply::refused)?;
        let (end, ends) = watch::channel(false);
        let (asked, _) = watch::channel(());
        let shared = Rc::new(Shared {
            circuits: Mutex::new(OpenCircuits::new(folders, kernel)),
            ends,
            asked,
        });
        let mut term = signal(SignalKind::terminate())?;
        let mut int = signal(SignalKind::interrupt())?;
        ready();
        LocalSet::new()
            .run_until(async {
                let mut connections = JoinSet::new();
                let closing = tokio::task::spawn_local(close_idle(shared.clone()));
                let beating = tokio::task::spawn_local(beat(shared.clone()));
                loop {
                    tokio::select! {
                        stream = socket.accept(), if connections.len() < MOST => {
                            let stream = stream.map_err(crate::policy::apply::refused)?;
                            connections.spawn_local(converse(stream, shared.clone()));
                        }
                        Some(_) = connections.join_next() => {}
                        _ = term.recv() => break,
                        _ = int.recv() => break,
                    }
                }
                drop(socket);
                // Complete and answer the requests that have begun.
                let _ = end.send(true);
                while connections.join_next().await.is_some() {}
                closing.abort();
                beating.abort();
                Ok(Status::Done)
            })
            .await
    })
}

/// Notifies systemd's watchdog, if there is one, while requests are carried out: a request that does
/// not end stops the notifications.
async fn beat(shared: Rc<Shared>) {
    let Some(every) = watchdog() else { return };
    loop {
        drop(shared.circuits.lock().await);
        alive();
        sleep(every).await;
    }
}

/// Closes the open circuits some time after the last request.
async fn close_idle(shared: Rc<Shared>) {
    let mut asked = shared.asked.subscribe();
    loop {
        if asked.changed().await.is_err() {
            return;
        }
        while timeout(IDLE, asked.changed()).await.is_ok() {}
        shared.circuits.lock().await.close();
    }
}

/// Answers the lines of a connection until the connection ends or is too slow, or the service is to
/// end.
async fn converse(stream: UnixStream, shared: Rc<Shared>) {
    let mut stream = BufReader::new(stream);
    let mut ends = shared.ends.clone();
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut limited = (&mut stream).take(LONGEST as u64 + 1);
        let read = tokio::select! {
            read = timeout(PATIENCE, limited.read_until(b'\n', &mut line)) => read,
            _ = ends.wait_for(|ends| *ends) => return,
        };
        if !matches!(read, Ok(Ok(1..))) {
            return;
        }
        let is_long = line.len() > LONGEST;
        let answer = if is_long {
            json!({ "wrong": format!("the line has more than {LONGEST} bytes") })
        } else if line.trim_ascii().is_empty() {
            continue;
        } else {
            shared.asked.send_replace(());
            answer(&line, &shared).await
        };
        let answer = format!("{answer}\n");
        let written = timeout(TAKEN, stream.write_all(answer.as_bytes())).await;
        // After a line that is too long, close the connection; do not search for its end.
        if is_long || !matches!(written, Ok(Ok(()))) {
            return;
        }
    }
}

/// Carries out the request of a line and returns the answer.
async fn answer(line: &[u8], shared: &Shared) -> Value {
    let request = std::str::from_utf8(line).map_err(|_| "the line is not UTF-8".to_owned());
    let request = match request.and_then(Request::read) {
        Ok(request) => request,
        Err(why) => return json!({ "wrong": why }),
    };
    let mut circuits = shared.circuits.lock().await;
    let done = match request {
        Request::Add(wanted) => put(&mut circuits, &wanted, true).await,
        Request::Change(wanted) => put(&mut circuits, &wanted, false).await,
        Request::Remove(named) => take(&mut circuits, &named).await,
        Request::Show(named) => shown(&mut circuits, &named).await,
    };
    done.unwrap_or_else(|failure| {
        let text = failure.text();
        let why = text.strip_prefix("weirgate: ").unwrap_or(&text);
        if matches!(failure, Failure::Input(_)) {
            return json!({ "wrong": why });
        }
        output::note(&text);
        json!({ "refused": why })
    })
}

async fn put(circuits: &mut OpenCircuits, wanted: &Wanted, comes: bool) -> Result<Value, Failure> {
    let name = device(&wanted.device)?;
    let asked = wanted.asked().map_err(wrong)?;
    let becomes = |old: Option<&One>, plans: &[Plan]| becomes((wanted, &asked), comes, old, plans);
    let done = circuits.change(&name, &wanted.circuit, becomes).await;
    let done = done.map_err(refused)?;
    say(&name, &done);
    Ok(changed(&done))
}

async fn take(circuits: &mut OpenCircuits, named: &Named) -> Result<Value, Failure> {
    let name = device(&named.device)?;
    let done = circuits
        .change(&name, &named.circuit, |_, _| Ok(None))
        .await;
    let done = done.map_err(refused)?;
    say(&name, &done);
    Ok(changed(&done))
}

async fn shown(circuits: &mut OpenCircuits, named: &Named) -> Result<Value, Failure> {
    let name = device(&named.device)?;
    let shown = circuits
        .show(&name, &named.circuit)
        .await
        .map_err(refused)?;
    let shown =
        shown.ok_or_else(|| wrong(format!("there is no circuit `{}` on {name}", named.circuit)))?;
    let one = &shown.one;
    let above = one.site.as_deref().unwrap_or(called(&Label::Link));
    let mut value = show::json(&shown.node, Some(above), 0, Some(&one.circuit.keys));
    value["plan"] = one.circuit.plan.clone().into();
    value["suspended"] = one.circuit.suspended.into();
    Ok(json!({ "shown": value }))
}

/// Returns the counts of a change as JSON.
fn changed(done: &CircuitsDone) -> Value {
    json!({ "done": change_json(&done.change) })
}
