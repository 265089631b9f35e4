// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many flows that start at once, and SYNs without an answer.

use super::bench::{HOST, SERVER, command, experiment, run, size, span, topology, traffic};
use crate::agent::line::packet::Facts;
use crate::agent::traffic::options;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use weirgate_experiment::{Amount, TcpSettings, TrafficKind};

/// There are more tasks than the event loop runs between two checks of its sockets. A socket
/// must not be registered in it before it connects.
#[test]
fn many_downloads_that_start_at_once_come_to_their_end() {
    let settings = TcpSettings {
        amount: Some(Amount::Bytes(size(2_000))),
        ..TcpSettings::default()
    };
    let mut entry = traffic(
        "crowd",
        TrafficKind::Tcp(settings),
        SERVER,
        HOST,
        &[(0, 2_000)],
    );
    entry.count = 200;
    let recording = run(experiment(2_100, vec![entry], Vec::new()), topology(None));
    let recording = recording.expect("a run");
    let came: u64 = recording.delivered.iter().map(|d| u64::from(d.bytes)).sum();
    assert_eq!(came, 200 * 2_000);
}

#[test]
fn syns_come_at_their_rate_and_once_each() {
    let nodes = topology(None);
    // Answers go to a hardware address that no device has, so no connection is established.
    command(
        &nodes,
        SERVER,
        "ip neigh replace 10.0.0.11 lladdr 02:00:00:00:00:99 dev eth0",
    );
    let sockets = nodes.enter(SERVER, || {
        let arrivals = options::open_arrivals("eth0")?;
        Ok((arrivals, options::open_departures("eth0")?))
    });
    let (arrivals, departures) = sockets.expect("packet sockets");
    let kind = TrafficKind::Syns { interval: span(20) };
    let storm = traffic("storm", kind, HOST, SERVER, &[(0, 1_500)]);
    // Real time: a busy machine has 1.5 s to send late packets.
    run(experiment(3_000, vec![storm], Vec::new()), nodes).expect("a run");
    let mut syns = segments(&arrivals);
    assert_eq!(syns.len(), 75, "one each 20 ms for 1.5 s");
    assert!(syns.iter().all(|(_, flags)| flags & 0x02 != 0));
    syns.sort_unstable();
    syns.dedup();
    assert_eq!(syns.len(), 75, "none is sent again");
    assert_eq!(segments(&departures), [], "none is answered");
}

/// Returns the source port and the flags of each TCP segment at a packet socket.
fn segments(socket: &OwnedFd) -> Vec<(u16, u8)> {
    let mut frame = vec![0; 2_048];
    let mut segments = Vec::new();
    loop {
        let length = match options::receive_stamped(socket, &mut frame) {
            Ok((length, _)) => length,
            // Reported once, when the run's namespaces are gone.
            Err(error) if error.kind() == ErrorKind::NetworkDown => continue,
            Err(_) => return segments,
        };
        let facts = Facts::read(&frame[..length], length.saturating_sub(14) as u32);
        if let (Some((_, source, _)), Some(tcp)) = (facts.ports, facts.tcp) {
            segments.push((source, tcp.flags));
        }
    }
}
