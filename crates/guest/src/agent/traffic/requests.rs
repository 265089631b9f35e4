// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests and responses over one TCP connection per run.
//!
//! Responses are the data from the entry's `from` to its `to`, so `to` sends the requests. Each
//! request is one connection record. The first one has the time at which the connection was
//! established, later ones do not. A connection that cannot be established is tried until its
//! run ends, and leaves a record without times.

use super::flow::Flow;
use super::meter::Meter;
use super::tcp::{self, Opening};
use anyhow::{Result, bail};
use weirgate_experiment::{Amount, Connection, TcpSettings};
use weirgate_units::{Size, Span};

/// The sizes and pauses of an exchange.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// Length of a request in bytes, at least 1.
    request: u64,
    /// Length of a response in bytes, at least 1.
    response: u64,
    /// Pause between a response and the next request, in nanoseconds.
    think_ns: u64,
    settings: TcpSettings,
}

impl Exchange {
    /// Returns the exchange of an entry. The arrival of an empty message could not be seen, so
    /// the minimum length is one byte.
    #[must_use]
    pub fn new(request: Size, response: Size, think: Span, settings: TcpSettings) -> Self {
        Self {
            request: request.as_bytes().max(1),
            response: response.as_bytes().max(1),
            think_ns: think.as_nanos(),
            settings,
        }
    }
}

/// Runs the exchanges of a flow.
pub async fn run(flow: Flow, exchange: Exchange) -> Result<()> {
    let clock = flow.session.clock.clone();
    for (start_ns, end_ns) in flow.runs() {
        clock.until(start_ns).await?;
        let (source, sink) = flow.dial(&exchange.settings)?;
        source.insist()?;
        sink.insist()?;
        let answering = answer(flow.clone(), exchange.clone(), source, end_ns);
        flow.spawn("answer requests", answering);
        ask(&flow, &exchange, sink, end_ns).await?;
    }
    Ok(())
}

async fn ask(flow: &Flow, exchange: &Exchange, sink: Opening, end_ns: u64) -> Result<()> {
    let clock = &flow.session.clock;
    let recorder = &flow.session.recorder;
    let meter = Meter::new(recorder.clone(), flow.index);
    let begin = || {
        let start_ns = clock.now_ns();
        recorder.connection(Connection {
            flow: flow.index,
            due_ns: start_ns,
            start_ns,
            connected_ns: None,
            finished_ns: None,
            bytes: exchange.response,
        })
    };
    let mut number = begin();
    let Some(endpoint) = sink.by(clock, end_ns).await? else {
        return Ok(());
    };
    let connected_ns = clock.now_ns();
    recorder.connection_mut(number, |record| record.connected_ns = Some(connected_ns));
    tcp::send_at_once(&endpoint)?;
    let total = exchange
        .settings
        .amount
        .map(|Amount::Bytes(size)| size.as_bytes());
    let asking = async {
        let mut got = 0;
        loop {
            tcp::send(&endpoint, Some(exchange.request)).await?;
            let (window, bytes) = (exchange.settings.window, Some(exchange.response));
            let came = tcp::receive(flow, &endpoint, window, &meter, bytes).await?;
            if came < exchange.response {
                bail!("the answering side closed in the middle of a response");
            }
            let finished_ns = clock.now_ns();
            recorder.connection_mut(number, |record| record.finished_ns = Some(finished_ns));
            got += came;
            if total.is_some_and(|total| got >= total) {
                return Ok(());
            }
            clock.pause(exchange.think_ns).await?;
            number = begin();
        }
    };
    tokio::select! {
        biased;
        ended = clock.until(end_ns) => {
            ended?;
            endpoint.abort_on_close()?;
            Ok(())
        }
        asked = asking => asked,
    }
}

async fn answer(flow: Flow, exchange: Exchange, source: Opening, end_ns: u64) -> Result<()> {
    let clock = &flow.session.clock;
    let Some(endpoint) = source.by(clock, end_ns).await? else {
        return Ok(());
    };
    flow.sample(&endpoint);
    tcp::send_at_once(&endpoint)?;
    let answering = async {
        while tcp::take(&endpoint, exchange.request).await? == exchange.request {
            tcp::send(&endpoint, Some(exchange.response)).await?;
        }
        Ok(())
    };
    tcp::unless_cut_off(answering.await, clock, end_ns)
}
