// SPDX-License-Identifier: Apache-2.0 OR MIT
//! UDP probes, which a task at the target's port answers.

use super::asker::Asker;
use crate::agent::nodes::{address, is_behind_gateway, name};
use crate::agent::session::Session;
use crate::agent::stamp::{self, Stamp};
use crate::agent::traffic::endpoint::{self, Endpoint};
use crate::agent::traffic::options::{self, Transport};
use crate::agent::traffic::payload_of;
use crate::agent::traffic::ports::Ports;
use anyhow::{Context, Result, ensure};
use std::net::SocketAddr;
use std::rc::Rc;
use weirgate_experiment::{Node, Probe};

/// The UDP protocol number.
const PROTOCOL: u8 = 17;

/// Starts a probe to `port`.
pub fn start(
    session: &Session,
    ports: &Ports,
    port: u16,
    number: u16,
    flow: u16,
    probe: &Probe,
) -> Result<()> {
    let length = payload_of(probe.packet, probe.ipv6)?;
    ensure!(
        length >= stamp::LEN,
        "a UDP probe needs {} bytes of payload: make its packets {} bytes longer",
        stamp::LEN,
        stamp::LEN - length
    );
    let own_port = ports.near();
    // Each probe has its own answering socket, connected to its source, so that the reply has
    // the probe's code point.
    let answering = connected(session, probe, (probe.to, port), (probe.from, own_port))?;
    let asking = connected(session, probe, (probe.from, own_port), (probe.to, port))?;
    let (far_port, near_port) = if is_behind_gateway(probe.from) {
        (port, own_port)
    } else {
        (own_port, port)
    };
    let recorder = session.recorder.clone();
    recorder.label(PROTOCOL, far_port, Some(near_port), flow);

    let clock = session.clock.clone();
    let inside = is_behind_gateway(probe.to);
    session.spawn(format!("probe `{}`: answer", probe.name), async move {
        let mut buffer = vec![0; usize::from(u16::MAX)];
        loop {
            let (length, at_ns) = answering.receive_stamped(&mut buffer, &clock).await?;
            let packet = &mut buffer[..length];
            if let Some(stamp) = Stamp::read(packet) {
                stamp.answer().write(packet);
                if inside {
                    recorder.received(stamp.flow, stamp.seq, at_ns);
                }
            }
            answering.send_now(packet)?;
        }
    });

    let asker = Asker::new(session, number, flow, asking);
    let listener = Rc::clone(&asker);
    let inside = is_behind_gateway(probe.from);
    session.spawn(format!("probe `{}`: receive", probe.name), async move {
        let mut buffer = vec![0; usize::from(u16::MAX)];
        loop {
            let receiving = listener
                .endpoint
                .receive_stamped(&mut buffer, &listener.clock);
            let (length, at_ns) = receiving.await?;
            if let Some(stamp) = Stamp::read(&buffer[..length]) {
                listener.answered(stamp.seq as u16, at_ns);
                if inside {
                    listener.recorder.received(stamp.flow, stamp.seq, at_ns);
                }
            }
        }
    });
    let probe = probe.clone();
    session.spawn(format!("probe `{}`: send", probe.name), async move {
        asker.ask(&probe, vec![0; length], 0, |_, _| ()).await
    });
    Ok(())
}

fn connected(
    session: &Session,
    probe: &Probe,
    own: (Node, u16),
    peer: (Node, u16),
) -> Result<Endpoint> {
    let ipv6 = probe.ipv6;
    let socket = endpoint::bound(
        &session.nodes,
        own.0,
        Transport::Udp,
        ipv6,
        probe.dscp,
        own.1,
    )
    .with_context(|| format!("open UDP port {} of {}", own.1, name(own.0)))?;
    let peer = SocketAddr::new(address(peer.0, ipv6), peer.1);
    rustix::net::connect(&socket, &peer).with_context(|| format!("find a route to {peer}"))?;
    options::note_arrivals(&socket)?;
    Ok(Endpoint::readable(socket)?)
}
