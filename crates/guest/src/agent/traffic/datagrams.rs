// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stamped datagrams at a constant rate: UDP streams, and voice in both directions.

use super::endpoint::{self, Endpoint};
use super::flow::Flow;
use super::options::{self, Transport};
use super::pace::Pace;
use crate::agent::nodes::{self, is_behind_gateway, name};
use crate::agent::stamp::Stamp;
use anyhow::{Context, Result, ensure};
use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::rc::Rc;
use weirgate_experiment::{Delivered, Node};
use weirgate_units::Span;

/// The UDP protocol number.
pub const PROTOCOL: u8 = 17;
/// Bytes of a UDP header (RFC 768).
const UDP_HEADER: u16 = 8;
/// Bytes of an IPv4 header without options (RFC 791).
const IPV4_HEADER: u16 = 20;
/// Bytes of an IPv6 header (RFC 8200 section 3).
const IPV6_HEADER: u16 = 40;

/// The number of datagrams sent before other tasks run.
const BATCH: u64 = 64;

/// A stream of datagrams in one direction.
#[derive(Debug, Clone, Copy)]
pub struct Stream {
    /// Time between datagrams.
    pub interval: Span,
    /// IP packet length in bytes.
    pub packet: u16,
    /// The number of datagrams after which each run stops.
    pub packets: Option<u64>,
}

/// Returns the length of the payload of an IP packet with UDP, or with ICMP echo, whose header
/// has the same length.
pub fn payload_of(packet: u16, ipv6: bool) -> Result<usize> {
    let headers = UDP_HEADER + if ipv6 { IPV6_HEADER } else { IPV4_HEADER };
    ensure!(
        packet >= headers,
        "a packet of {packet} bytes is shorter than its headers, which are {headers}"
    );
    Ok(usize::from(packet - headers))
}

/// Starts a stream from the entry's `from` to its `to`.
pub fn start(flow: &Flow, stream: Stream) -> Result<()> {
    let (source, sink) = pair(flow)?;
    receive(flow, flow.index, flow.entry.to, &sink);
    send(flow, flow.index, &source, stream)
}

/// Starts a stream in each direction between the same two sockets. The stream from `to` to
/// `from` counts as additional instances of the entry, numbered after its `count`.
pub fn start_voice(flow: &Flow, stream: Stream) -> Result<()> {
    let (source, sink) = pair(flow)?;
    let entry = &flow.entry;
    let instance = entry.count.saturating_add(flow.instance);
    let recorder = &flow.session.recorder;
    let back = recorder.flow(&entry.name, instance, entry.class.as_deref());
    receive(flow, flow.index, entry.to, &sink);
    receive(flow, back, entry.from, &source);
    send(flow, flow.index, &source, stream)?;
    send(flow, back, &sink, stream)
}

/// Returns two sockets connected to each other: at `from` and at `to`.
pub fn pair(flow: &Flow) -> Result<(Rc<Endpoint>, Rc<Endpoint>)> {
    let (near_node, far_node) = flow.ends();
    let near_port = flow.shared.ports.near();
    let near = connected(flow, (near_node, near_port), (far_node, flow.port))?;
    let far = connected(flow, (far_node, flow.port), (near_node, near_port))?;
    flow.label(PROTOCOL, near_port);
    Ok(if flow.is_sent_to_far() {
        (near, far)
    } else {
        (far, near)
    })
}

fn connected(flow: &Flow, own: (Node, u16), peer: (Node, u16)) -> Result<Rc<Endpoint>> {
    let (nodes, entry) = (&flow.session.nodes, &flow.entry);
    let socket = endpoint::bound(nodes, own.0, Transport::Udp, entry.ipv6, entry.dscp, own.1)
        .with_context(|| format!("open UDP port {} of {}", own.1, name(own.0)))?;
    let peer = SocketAddr::new(nodes::address(peer.0, entry.ipv6), peer.1);
    rustix::net::connect(&socket, &peer).with_context(|| format!("find a route to {peer}"))?;
    options::note_arrivals(&socket)?;
    Ok(Rc::new(Endpoint::readable(socket)?))
}

/// Starts the sender of the flow with this index.
fn send(flow: &Flow, index: u16, endpoint: &Rc<Endpoint>, stream: Stream) -> Result<()> {
    let length = payload_of(stream.packet, flow.entry.ipv6)?;
    let clock = flow.session.clock.clone();
    let alarm = clock.alarm()?;
    let runs = flow.runs();
    let endpoint = Rc::clone(endpoint);
    flow.spawn("send datagrams", async move {
        let mut payload = vec![0; length];
        let mut seq = 0;
        for run in runs {
            let mut pace = Pace::new(run, stream.interval.as_nanos(), stream.packets);
            while let Some(due_ns) = pace.next_ns() {
                let mut now_ns = clock.now_ns();
                while now_ns < due_ns {
                    alarm.set(Some(due_ns))?;
                    poll_fn(|cx| alarm.poll_ring(cx)).await?;
                    now_ns = clock.now_ns();
                }
                for _ in 0..pace.take(now_ns, BATCH) {
                    Stamp::new(index, seq, now_ns).write(&mut payload);
                    // If the socket buffer is full, the datagram is lost, as in a full queue.
                    // The receiver detects the gap in the sequence numbers.
                    match endpoint.send_now(&payload) {
                        // No process listens at the far end (ICMP port unreachable). Stop, as
                        // real programs do.
                        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                            return Ok(());
                        }
                        sent => sent?,
                    };
                    seq = seq.wrapping_add(1);
                    now_ns = clock.now_ns();
                }
                // Let the line and the receivers run, however many packets are due.
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    });
    Ok(())
}

/// Starts the receiver of the flow with this index at `node`.
fn receive(flow: &Flow, index: u16, node: Node, endpoint: &Rc<Endpoint>) {
    let session = flow.session.clone();
    let endpoint = Rc::clone(endpoint);
    flow.spawn("receive datagrams", async move {
        let mut buffer = vec![0; usize::from(u16::MAX)];
        loop {
            let (length, at_ns) = endpoint
                .receive_stamped(&mut buffer, &session.clock)
                .await?;
            let stamp = Stamp::read(&buffer[..length]);
            session.recorder.delivered(Delivered {
                flow: index,
                at_ns,
                bytes: length as u32,
                datagram: stamp.map(|stamp| stamp.seq),
                transit_ns: stamp.map(|stamp| stamp.age_ns(at_ns)),
            });
            if let Some(stamp) = stamp
                && is_behind_gateway(node)
            {
                session.recorder.received(stamp.flow, stamp.seq, at_ns);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::payload_of;

    #[test]
    fn headers_count() {
        assert_eq!(payload_of(40, false).expect("fits"), 12);
        assert_eq!(payload_of(60, true).expect("fits"), 12);
        assert_eq!(payload_of(28, false).expect("fits"), 0);
        let error = payload_of(47, true).expect_err("too short");
        assert!(error.to_string().contains("headers, which are 48"));
    }
}
