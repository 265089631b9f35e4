// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many flows that start at once, and SYNs without an answer.

use super::bench::{HOST, SERVER, experiment, run, size, span, topology, traffic};
use crate::agent::line::packet::Facts;
use crate::agent::traffic::options;
use std::io::ErrorKind;
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
    // Forty are sent before the first could be answered.
    let nodes = topology(Some("netem delay 100ms"));
    let arrivals = nodes.enter(SERVER, || options::open_arrivals("eth0"));
    let arrivals = arrivals.expect("a packet socket");
    let kind = TrafficKind::Syns { interval: span(5) };
    let storm = traffic("storm", kind, HOST, SERVER, &[(0, 1_500)]);
    // Real time: a busy machine has 1.5 s to send late packets.
    run(experiment(3_000, vec![storm], Vec::new()), nodes).expect("a run");
    let mut frame = vec![0; 2_048];
    let (mut syns, mut acks) = (Vec::new(), 0);
    loop {
        let length = match options::receive_stamped(&arrivals, &mut frame) {
            Ok((length, _)) => length,
            // Reported once, when the run's namespaces are gone.
            Err(error) if error.kind() == ErrorKind::NetworkDown => continue,
            Err(_) => break,
        };
        let facts = Facts::read(&frame[..length], length.saturating_sub(14) as u32);
        let (Some((_, source, _)), Some(tcp)) = (facts.ports, facts.tcp) else {
            continue;
        };
        if tcp.flags & 0x02 != 0 {
            syns.push(source);
        } else {
            acks += 1;
        }
    }
    assert_eq!(syns.len(), 300, "one each 5 ms for 1.5 s");
    syns.sort_unstable();
    syns.dedup();
    assert_eq!(syns.len(), 300, "none is sent again");
    assert_eq!(acks, 0, "none is answered");
}
