// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bulk transfers over QUIC: one connection per run, as fast as it goes.
//!
//! quinn-proto implements the protocol, without sockets, clocks or threads. Each end is a task
//! that passes datagrams and the run's time to it ([`side`]). The end behind the gateway
//! connects; the sending end opens the streams.
//!
//! Random values derive from the seed where quinn-proto permits it: keys, connection IDs, its
//! own generator. The TLS of rustls, reserved transport parameters and the phase of BBR's cycle
//! use the kernel's generator. In the laboratory's machine that has a fixed seed too, so runs
//! are reproducible there, but not elsewhere.
//!
//! A transfer that is cut off by the end of its run closes the connection, and lost data is not
//! sent again. A transfer of a fixed amount closes when all of it is acknowledged.

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

/// Runs the transfers of a flow.
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

/// Runs one end. Records a connection of the sender that was not established.
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
