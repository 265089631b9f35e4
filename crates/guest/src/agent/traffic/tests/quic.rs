// SPDX-License-Identifier: Apache-2.0 OR MIT
//! QUIC transfers between two namespaces.

use super::bench::{
    HOST, SERVER, bytes, command, delivered, experiment, run, size, topology, traffic,
};
use crate::agent::traffic::options::{self, Transport};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use weirgate_experiment::{Amount, QuicCongestion, QuicSettings, TrafficKind};
use weirgate_units::Dscp;

fn settings() -> QuicSettings {
    QuicSettings {
        amount: None,
        streams: 1,
        congestion: QuicCongestion::Cubic,
        ecn: false,
        spin: true,
    }
}

fn quic(settings: QuicSettings) -> TrafficKind {
    TrafficKind::Quic(settings)
}

#[test]
fn transfers_both_ways_fill_the_line_and_end_with_their_run() {
    for congestion in QuicCongestion::WORDS.map(|(_, one)| one) {
        let kind = || {
            quic(QuicSettings {
                congestion,
                ecn: true,
                ..settings()
            })
        };
        let up = traffic("up", kind(), HOST, SERVER, &[(0, 500), (900, 1_400)]);
        let down = traffic("down", kind(), SERVER, HOST, &[(0, 500)]);
        let rate = "tbf rate 20mbit burst 5000 limit 100000";
        let recording = run(
            experiment(1_700, vec![up, down], Vec::new()),
            topology(Some(rate)),
        );
        let recording = recording.expect("a run");
        // One second of 20 Mbit/s, minus slow start and acknowledgements.
        let full = 20e6 / 8.0;
        let up_bytes = bytes(&recording, "up") as f64;
        assert!(
            (0.5 * full..full).contains(&up_bytes),
            "{congestion:?}: {up_bytes} of {full}"
        );
        assert!(bytes(&recording, "down") > 200_000, "{congestion:?}");
        let times = delivered(&recording, "up");
        let within = |from: u64, to: u64| {
            times
                .iter()
                .any(|one| (from * 1_000_000..to * 1_000_000).contains(&one.at_ns))
        };
        assert!(within(0, 500) && within(900, 1_400), "{congestion:?}");
        assert!(!within(700, 900) && !within(1_600, 1_700), "{congestion:?}");
        // The same as from a TCP socket: a window, at most that many bytes in flight, a
        // round-trip time.
        let flow = times[0].flow;
        let samples: Vec<_> = recording
            .tcp
            .iter()
            .filter(|one| one.flow == flow)
            .collect();
        assert!(samples.len() > 20, "{congestion:?}: {}", samples.len());
        assert!(
            samples
                .iter()
                .any(|one| one.outstanding_bytes > 10_000 && one.srtt_us > 0)
        );
        assert!(recording.connections.is_empty());
    }
}

#[test]
fn an_amount_over_streams_is_sent_whole_and_no_more() {
    let amount = Some(Amount::Bytes(size(1_234_567)));
    let kind = |streams| {
        quic(QuicSettings {
            amount,
            streams,
            ..settings()
        })
    };
    let mut up = traffic("up", kind(7), HOST, SERVER, &[(0, 900)]);
    up.count = 2;
    up.port = Some(443);
    up.ipv6 = true;
    let mut down = traffic("down", kind(1), SERVER, HOST, &[(0, 900)]);
    down.dscp = Dscp::new(10).expect("a code point");
    let recording = run(
        experiment(1_000, vec![up, down], Vec::new()),
        topology(None),
    );
    let recording = recording.expect("a run");
    for flow in 0..3_u16 {
        let own = recording
            .delivered
            .iter()
            .filter(|record| record.flow == flow);
        assert_eq!(
            own.map(|record| u64::from(record.bytes)).sum::<u64>(),
            1_234_567
        );
    }
}

/// Slow start fills a long queue. quinn-proto's default for a stream would keep 1.25 MB in flight.
#[test]
fn flow_control_does_not_limit_what_is_in_flight() {
    let up = traffic("up", quic(settings()), HOST, SERVER, &[(0, 2_500)]);
    let rate = "tbf rate 30mbit burst 5000 limit 4000000";
    let recording = run(
        experiment(2_500, vec![up], Vec::new()),
        topology(Some(rate)),
    );
    let samples = recording.expect("a run").tcp;
    let most = samples.iter().map(|one| one.outstanding_bytes).max();
    let most = most.expect("samples");
    assert!(most > 2_000_000, "{most} in flight");
}

#[test]
fn one_that_nobody_answers_is_recorded_as_not_connected() {
    for (from, to) in [(HOST, SERVER), (SERVER, HOST)] {
        let nodes = topology(None);
        // Send replies to a hardware address that no device has.
        command(
            &nodes,
            SERVER,
            "ip neigh replace 10.0.0.11 lladdr 02:00:00:00:00:99 dev eth0",
        );
        let entry = traffic("quic", quic(settings()), from, to, &[(0, 200)]);
        let recording = run(experiment(300, vec![entry], Vec::new()), nodes).expect("runs");
        assert_eq!(recording.connections.len(), 1);
        assert_eq!(recording.connections[0].connected_ns, None);
        assert!(recording.delivered.is_empty());
    }
}

#[test]
fn ecn_fields_are_sent_and_reported() {
    let nodes = topology(None);
    for (ipv6, address) in [
        (false, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        (true, SocketAddr::from((Ipv6Addr::LOCALHOST, 0))),
    ] {
        let (sender, receiver) = nodes
            .enter(HOST, || {
                let open = || options::open(Transport::Udp, ipv6, Dscp::default());
                let (sender, receiver) = (open()?, open()?);
                rustix::net::bind(&receiver, &address)?;
                let to = SocketAddr::try_from(rustix::net::getsockname(&receiver)?)?;
                rustix::net::connect(&sender, &to)?;
                Ok((sender, receiver))
            })
            .expect("two sockets");
        options::tell_octets_and_do_not_fragment(&receiver, ipv6).expect("octets");
        let mut buffer = [0; 16];
        for (octet, field) in [(0xb8, 0), (0xba, 2), (1, 1), (3, 3)] {
            options::set_octet(&sender, ipv6, octet).expect("an octet");
            rustix::net::send(&sender, b"datagram", rustix::net::SendFlags::empty()).expect("sent");
            let read = options::receive_with_ecn(&receiver, &mut buffer).expect("received");
            assert_eq!(read, (8, field), "IPv6 {ipv6}, octet {octet}");
        }
    }
}
