// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bulk transfers: one TCP connection per run, as fast as it goes.
//!
//! A transfer that is cut off by the end of its run is reset, so that the next phase does not
//! begin with buffered data. A transfer of a fixed amount closes when everything was received. A
//! connection that cannot be established is tried until its run ends. It is then recorded as
//! never established, without data.

use super::flow::Flow;
use super::meter::Meter;
use super::tcp::{self, Opening};
use anyhow::Result;
use std::rc::Rc;
use weirgate_experiment::{Amount, Connection, TcpSettings};

/// Runs the transfers of a flow.
pub async fn run(flow: Flow, settings: TcpSettings) -> Result<()> {
    let meter = Rc::new(Meter::new(flow.session.recorder.clone(), flow.index));
    for (start_ns, end_ns) in flow.runs() {
        flow.session.clock.until(start_ns).await?;
        let (source, sink) = flow.dial(&settings)?;
        source.insist()?;
        sink.insist()?;
        let receiving = receive(
            flow.clone(),
            settings.clone(),
            sink,
            end_ns,
            Rc::clone(&meter),
        );
        flow.spawn("receive", receiving);
        send(&flow, &settings, source, (start_ns, end_ns)).await?;
    }
    Ok(())
}

async fn send(
    flow: &Flow,
    settings: &TcpSettings,
    source: Opening,
    (start_ns, end_ns): (u64, u64),
) -> Result<()> {
    let Some(endpoint) = source.by(&flow.session.clock, end_ns).await? else {
        unconnected(flow, settings, start_ns);
        return Ok(());
    };
    flow.sample(&endpoint);
    let bytes = settings.amount.map(|Amount::Bytes(size)| size.as_bytes());
    let sending = async {
        tcp::send(&endpoint, bytes).await?;
        endpoint.finish()?;
        // The receiver closes when it has read everything.
        endpoint.discard(1).await?;
        Ok(())
    };
    tokio::select! {
        biased;
        ended = flow.session.clock.until(end_ns) => {
            ended?;
            endpoint.abort_on_close()?;
            Ok(())
        }
        sent = sending => sent,
    }
}

/// Records that no connection was established before the run's end.
fn unconnected(flow: &Flow, settings: &TcpSettings, start_ns: u64) {
    let bytes = settings.amount.map(|Amount::Bytes(size)| size.as_bytes());
    flow.session.recorder.connection(Connection {
        flow: flow.index,
        due_ns: start_ns,
        start_ns,
        connected_ns: None,
        finished_ns: None,
        bytes: bytes.unwrap_or(0),
    });
}

async fn receive(
    flow: Flow,
    settings: TcpSettings,
    sink: Opening,
    end_ns: u64,
    meter: Rc<Meter>,
) -> Result<()> {
    let clock = &flow.session.clock;
    if let Some(endpoint) = sink.by(clock, end_ns).await? {
        let received = tcp::receive(&flow, &endpoint, settings.window, &meter, None).await;
        tcp::unless_cut_off(received, clock, end_ns)?;
    }
    Ok(())
}
