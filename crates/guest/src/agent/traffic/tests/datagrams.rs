// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Datagrams and probes between two namespaces.

use super::bench::{
    HOST, SERVER, command, delivered, experiment, probe, run, span, tcp, topology, traffic,
};
use std::os::fd::AsRawFd;
use std::process::Command;
use weirgate_experiment::{Delivered, ProbeKind, TcpSettings, TrafficKind};
use weirgate_units::{Dscp, Span};

#[test]
fn datagrams_have_their_rate_size_and_numbers() {
    for ipv6 in [false, true] {
        let header = if ipv6 { 48 } else { 28 };
        let udp = |interval_us, packet, packets| TrafficKind::Udp {
            interval: Span::from_micros(interval_us),
            packet,
            packets,
        };
        let mut small = traffic(
            "small",
            udp(1_000, header + 12, None),
            HOST,
            SERVER,
            &[(0, 500)],
        );
        let mut fast = traffic("fast", udp(20, 200, Some(9_999)), SERVER, HOST, &[(0, 400)]);
        let mut empty = traffic(
            "empty",
            udp(50_000, header, None),
            HOST,
            SERVER,
            &[(0, 500)],
        );
        for entry in [&mut small, &mut fast, &mut empty] {
            entry.ipv6 = ipv6;
        }
        fast.class = Some("x".to_owned());
        let experiment = experiment(1_000, vec![small, fast, empty], Vec::new());
        let recording = run(experiment, topology(None)).expect("a run");

        let small = delivered(&recording, "small");
        assert_eq!(small.len(), 500);
        assert!(small.iter().all(|record| record.bytes == 12));
        assert!((0..500).eq(small.iter().filter_map(|record| record.datagram)));
        assert!(small.iter().all(|record| record.transit_ns.is_some()));
        // The schedule is absolute: no datagram is early. However late this machine was with
        // some, at least one in the second half is on time.
        let late = |record: &&Delivered| {
            let sent_ns = record.at_ns - record.transit_ns.expect("a stamp");
            let due_ns = 1_000_000 * u64::from(record.datagram.expect("a stamp"));
            // A stamp counts units of 64 ns.
            (sent_ns + 64).checked_sub(due_ns).expect("not early")
        };
        let least = small[250..].iter().map(late).min().expect("a half");
        assert!(least < 1_000_000, "{least}");
        assert!(small.iter().map(late).all(|late_ns| late_ns < 500_000_000));

        let fast = delivered(&recording, "fast");
        assert_eq!(fast.len(), 9_999);
        assert!(
            fast.iter()
                .all(|record| u32::from(200 - header) == record.bytes)
        );
        let empty = delivered(&recording, "empty");
        assert_eq!(empty.len(), 10);
        assert!(
            empty
                .iter()
                .all(|record| (record.bytes, record.datagram) == (0, None))
        );
    }
}

#[test]
fn voice_goes_both_ways() {
    let voice = TrafficKind::Voice {
        interval: span(20),
        packet: 200,
    };
    let mut call = traffic("call", voice, HOST, SERVER, &[(0, 400)]);
    call.count = 2;
    let recording = run(experiment(450, vec![call], Vec::new()), topology(None)).expect("a run");
    let instances = recording.flows.iter().map(|flow| flow.instance);
    assert!(instances.eq([0, 2, 1, 3]));
    for flow in 0..4 {
        let own = recording
            .delivered
            .iter()
            .filter(|record| record.flow == flow);
        let own: Vec<(Option<u32>, u32)> = own.map(|r| (r.datagram, r.bytes)).collect();
        let expected: Vec<_> = (0..20).map(|seq| (Some(seq), 172)).collect();
        assert_eq!(own, expected);
    }
}

#[test]
fn probes_measure_the_round_trip() {
    let probes = vec![
        probe("echo", ProbeKind::Icmp, 84, false),
        probe("least", ProbeKind::Icmp, 28, false),
        probe("echo6", ProbeKind::Icmp, 84, true),
        probe("udp", ProbeKind::Udp { port: 5_000 }, 100, false),
        probe("udp6", ProbeKind::Udp { port: 5_000 }, 100, true),
    ];
    let recording = run(experiment(500, Vec::new(), probes), topology(None)).expect("a run");
    for probe in 0..5 {
        let own = recording.probes.iter().filter(|reply| reply.probe == probe);
        let own: Vec<u64> = own.filter_map(|reply| reply.rtt_ns).collect();
        assert_eq!(own.len(), 20, "probe {probe}");
        let median = {
            let mut own = own.clone();
            own.sort_unstable();
            own[10]
        };
        assert!(
            (1_000..1_000_000).contains(&median),
            "probe {probe}: {median} ns"
        );
    }
}

#[test]
fn packets_have_the_length_and_code_point_asked_for() {
    // The server's kernel counts packets of these lengths with EF.
    let nodes = topology(None);
    let rules = "table inet t {\n\
        counter udp4 {}\ncounter echo4 {}\ncounter echo6 {}\ncounter tcp4 {}\ncounter plain {}\n\
        chain c { type filter hook input priority 0;\n\
        ip dscp ef ip length 40 meta l4proto udp counter name udp4\n\
        ip dscp ef ip length 84 icmp type echo-request counter name echo4\n\
        ip6 dscp ef ip6 length 44 icmpv6 type echo-request counter name echo6\n\
        ip dscp ef meta l4proto tcp counter name tcp4\n\
        ip dscp 0 counter name plain\n}\n}\n";
    let file = std::env::temp_dir().join(format!("weirgate-rules-{}", std::process::id()));
    std::fs::write(&file, rules).expect("a file of rules");
    command(&nodes, SERVER, &format!("nft -f {}", file.display()));
    std::fs::remove_file(&file).expect("remove the rules");
    let ef = Dscp::new(46).expect("a code point");
    let udp = TrafficKind::Udp {
        interval: span(10),
        packet: 40,
        packets: None,
    };
    let mut udp = traffic("udp", udp, HOST, SERVER, &[(0, 200)]);
    udp.dscp = ef;
    let mut bulk = traffic(
        "bulk",
        tcp(TcpSettings::default()),
        HOST,
        SERVER,
        &[(0, 200)],
    );
    bulk.dscp = ef;
    let probes = vec![
        probe("echo", ProbeKind::Icmp, 84, false),
        probe("echo6", ProbeKind::Icmp, 84, true),
    ];
    let space = nodes.space(SERVER).expect("a namespace");
    let space = space.try_clone_to_owned().expect("a copy of it");
    run(experiment(500, vec![udp, bulk], probes), nodes).expect("a run");
    let list = format!(
        "nsenter --net=/proc/{}/fd/{} nft list counters",
        std::process::id(),
        space.as_raw_fd()
    );
    let output = Command::new("sh")
        .args(["-c", &list])
        .output()
        .expect("nft");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let packets = |name: &str| -> u64 {
        let after = text
            .split(&format!("counter {name} {{"))
            .nth(1)
            .expect("a counter");
        let number = after.split_whitespace().nth(1).expect("its packets");
        number.parse().expect("a number")
    };
    assert_eq!(packets("udp4"), 20);
    assert_eq!(packets("echo4"), 20);
    assert_eq!(packets("echo6"), 20);
    assert!(packets("tcp4") > 100);
    assert_eq!(packets("plain"), 0, "{text}");
}
