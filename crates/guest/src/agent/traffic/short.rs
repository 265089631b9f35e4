// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Short TCP flows with random starts and lengths (requirement D11).
//!
//! Each flow is a separate connection and starts on time, regardless of the others. A connection
//! that is not established, or is cut off by the run's end, is recorded without the missing
//! times. Only other errors fail the run.

use super::flow::Flow;
use super::meter::Meter;

use super::tcp::{self, Opening};
use anyhow::Result;
use std::io;
use std::rc::Rc;
use weirgate_experiment::{Amount, Connection, Random, ShortFlow, ShortFlowSchedule, TcpSettings};
use weirgate_units::{Size, Span};

/// The distribution of starts and lengths.
#[derive(Debug, Clone)]
pub struct Distribution {
    /// Mean time between starts.
    pub mean_gap: Span,
    /// Mean length in bytes.
    pub mean_length: Size,
    /// Pareto shape, above 1.
    pub shape: f64,
    /// The time before the end of a run in which no flow starts.
    pub drain: Span,
}

/// Starts the connections of a flow.
pub async fn run(flow: Flow, distribution: Distribution, settings: TcpSettings) -> Result<()> {
    let session = &flow.session;
    let settings = Rc::new(settings);
    let meter = Rc::new(Meter::new(session.recorder.clone(), flow.index));
    let mut random = Random::of_flow(session.seed, &flow.entry.name, flow.instance);
    for run in flow.runs() {
        let mut left = settings.amount.map(|Amount::Bytes(size)| size.as_bytes());
        let mut schedule = ShortFlowSchedule::new(
            random,
            (run.0, run.1.saturating_sub(distribution.drain.as_nanos())),
            distribution.mean_gap.as_nanos(),
            distribution.mean_length.as_bytes(),
            distribution.shape,
        );
        for short in &mut schedule {
            session.clock.until(short.start_ns).await?;
            let transfer = transfer(
                flow.clone(),
                Rc::clone(&settings),
                Rc::clone(&meter),
                short,
                run.1,
            );
            flow.spawn("short flow", transfer);
            if let Some(left) = &mut left {
                *left = left.saturating_sub(short.bytes);
                if *left == 0 {
                    break;
                }
            }
        }
        random = schedule.into_random();
    }
    Ok(())
}

async fn transfer(
    flow: Flow,
    settings: Rc<TcpSettings>,
    meter: Rc<Meter>,
    short: ShortFlow,
    end_ns: u64,
) -> Result<()> {
    let session = &flow.session;
    let number = session.recorder.connection(Connection {
        flow: flow.index,
        due_ns: short.start_ns,
        start_ns: session.clock.now_ns(),
        connected_ns: None,
        finished_ns: None,
        bytes: short.bytes,
    });
    let (source, sink) = flow.dial(&settings)?;
    let result = tokio::try_join!(
        send(&flow, source, short.bytes, number, end_ns),
        receive(&flow, &settings, sink, &meter, short.bytes, number, end_ns),
    );
    match result {
        // SYNs or data were lost until a kernel gave up: this is an observation.
        Err(error) if gave_up(&error) => Ok(()),
        other => other.map(|_| ()),
    }
}

async fn send(flow: &Flow, source: Opening, bytes: u64, number: usize, end_ns: u64) -> Result<()> {
    let clock = &flow.session.clock;
    let connects = source.connects();
    let Some(endpoint) = source.by(clock, end_ns).await? else {
        return Ok(());
    };
    if connects {
        connected(flow, number);
    }
    flow.sample(&endpoint);
    tcp::send_at_once(&endpoint)?;
    let sending = async {
        tcp::send(&endpoint, Some(bytes)).await?;
        endpoint.finish()?;
        endpoint.discard(1).await?;
        Ok(())
    };
    tokio::select! {
        biased;
        ended = clock.until(end_ns) => {
            ended?;
            endpoint.abort_on_close()?;
            Ok(())
        }
        sent = sending => sent,
    }
}

async fn receive(
    flow: &Flow,
    settings: &TcpSettings,
    sink: Opening,
    meter: &Meter,
    bytes: u64,
    number: usize,
    end_ns: u64,
) -> Result<()> {
    let clock = &flow.session.clock;
    let connects = sink.connects();
    let Some(endpoint) = sink.by(clock, end_ns).await? else {
        return Ok(());
    };
    if connects {
        connected(flow, number);
    }
    let receiving = async {
        let came = tcp::receive(flow, &endpoint, settings.window, meter, Some(bytes)).await?;
        if came == bytes {
            let finished_ns = clock.now_ns();
            let recorder = &flow.session.recorder;
            recorder.connection_mut(number, |record| record.finished_ns = Some(finished_ns));
            // Wait for the peer's FIN before closing this side.
            tcp::take(&endpoint, 1).await?;
        }
        Ok(())
    };
    tcp::unless_cut_off(receiving.await, clock, end_ns)
}

fn connected(flow: &Flow, number: usize) {
    let connected_ns = flow.session.clock.now_ns();
    let recorder = &flow.session.recorder;
    recorder.connection_mut(number, |record| record.connected_ns = Some(connected_ns));
}

/// Returns whether this kernel gave up, or the far one had given up when data arrived.
fn gave_up(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<io::Error>();
    cause.is_some_and(|cause| {
        matches!(
            cause.kind(),
            io::ErrorKind::TimedOut | io::ErrorKind::ConnectionReset
        )
    })
}
