// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bulk transfers over QUIC: one connection per run, as fast as it goes.
//!
//! The protocol is quinn-proto's, which has no sockets, clocks or threads: each
//! end is a task that gives it datagrams and the run's time ([`side`]). The end
//! behind the gateway connects; the one that data comes from opens the streams.
//!
//! What is random follows from the seed where quinn-proto lets it be chosen:
//! keys, connection ids, its own generator. The TLS of rustls, reserved
//! transport parameters and the phase of BBR's cycle ask the kernel. In the
//! laboratory's machine that is seeded too, so a run repeats; elsewhere not.
//!
//! A transfer that its run's end cuts off closes the connection, and what still
//! comes by then is not sent again. One with an amount of bytes closes when all
//! of it was acknowledged.

mod application;
pub mod congestion;
mod setup;
mod side;

use super::datagrams;
use super::flow::Flow;
use super::meter::Meter;
use crate::agent::nodes;
use anyhow::Result;
use application::Application;
use setup::Setup;
use side::Side;
use std::net::SocketAddr;
use std::rc::Rc;
use weirgate_experiment::{Amount, Connection, QuicSettings, Random};

/// Runs a flow's transfers.
pub async fn run(flow: Flow, settings: QuicSettings) -> Result<()> {
    let meter = Rc::new(Meter::new(flow.session.recorder.clone(), flow.index));
    let mut random = Random::of_flow(flow.session.seed, &flow.entry.name, flow.instance);
    for (start_ns, end_ns) in flow.runs() {
        flow.session.clock.until(start_ns).await?;
        let (source, sink) = datagrams::pair(&flow)?;
        let (near, far) = if flow.is_sent_to_far() {
            (source.clone(), sink.clone())
        } else {
            (sink.clone(), source.clone())
        };
        let address = |node, port| SocketAddr::new(nodes::address(node, flow.entry.ipv6), port);
        let (near_node, far_node) = flow.ends();
        let near_at = address(near_node, near.port()?);
        let far_at = address(far_node, flow.port);
        let setup = Setup::new(&settings, &mut random)?;
        let application = |sends: bool| {
            if sends {
                let bytes = settings.amount.map(|Amount::Bytes(size)| size.as_bytes());
                Application::sending(settings.streams, bytes)
            } else {
                Application::receiving(Rc::clone(&meter))
            }
        };
        let server = Side::accepting(
            &flow,
            &setup,
            (far, near_at),
            application(!flow.is_sent_to_far()),
        )?;
        let client = Side::connecting(
            &flow,
            &setup,
            (near, far_at),
            application(flow.is_sent_to_far()),
        )?;
        flow.spawn(
            "accept QUIC",
            finish(flow.clone(), server, (start_ns, end_ns)),
        );
        flow.spawn(
            "connect QUIC",
            finish(flow.clone(), client, (start_ns, end_ns)),
        );
    }
    Ok(())
}

/// Runs one end, and records a sender's connection that did not come about.
async fn finish(flow: Flow, mut side: Side, (start_ns, end_ns): (u64, u64)) -> Result<()> {
    side.run(end_ns).await?;
    if let Some(bytes) = side.unconnected() {
        flow.session.recorder.connection(Connection {
            flow: flow.index,
            due_ns: start_ns,
            start_ns,
            connected_ns: None,
            finished_ns: None,
            bytes,
        });
    }
    Ok(())
}
