// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers about circuits, computed one at a time: with a million circuits, each takes as long
//! as a look.

use crate::channel::{BAD_REQUEST, LATER, OK, whole};
use crate::circuits::query::CircuitsQuery;
use crate::lock::lock;
use crate::look::circuits::Circuits;
use crate::serve::shared::Shared;
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// How long a request waits for others to finish.
const WAIT: Duration = Duration::from_secs(10);

/// Answers a query of circuits.
pub(crate) async fn answer(
    query: &str,
    stream: &mut UnixStream,
    shared: &Arc<Shared>,
) -> io::Result<()> {
    let query = match CircuitsQuery::parse(query) {
        Ok(query) => query,
        Err(wrong) => return whole(stream, BAD_REQUEST, &format!("{wrong}\n")).await,
    };
    let turn = timeout(WAIT, shared.circuits_turn.lock());
    let Ok(_turn) = turn.await else {
        return whole(stream, LATER, "others ask for circuits; try again later\n").await;
    };
    let circuits = lock(&shared.circuits).clone();
    let work = tokio::task::spawn_blocking(move || found(&circuits, &query).to_string());
    let text = work.await.map_err(io::Error::other)?;
    whole(stream, OK, &text).await
}

fn found(circuits: &Circuits, query: &CircuitsQuery) -> Value {
    let all = circuits.devices.values().map(|device| lock(device));
    let all: Vec<_> = all.collect();
    let devices: Vec<Value> = all.iter().map(|device| device.summary()).collect();
    let mut answer = json!({ "devices": devices, "refused": circuits.refused });
    let mut wanted = all.iter();
    let is_it = |name: &str| query.device.is_empty() || name == query.device;
    if let Some(device) = wanted.find(|device| is_it(device.device())) {
        device.answer(query, &mut answer);
    }
    answer
}
