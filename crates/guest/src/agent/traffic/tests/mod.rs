// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP traffic, samplers and errors between two namespaces.

mod bench;
mod crowd;
mod datagrams;
mod quic;

use bench::{
    HOST, SERVER, bytes, command, delivered, experiment, probe, run, size, span, tcp, topology,
    traffic,
};
use weirgate_experiment::{Amount, Node, ProbeKind, Recording, TcpSettings, TrafficKind};
use weirgate_units::Dscp;

#[test]
fn bulk_transfers_both_ways_end_with_their_run() {
    let rate = "tbf rate 20mbit burst 5000 limit 100000";
    let up = traffic(
        "up",
        tcp(TcpSettings::default()),
        HOST,
        SERVER,
        &[(0, 400), (800, 1_100)],
    );
    let down = traffic(
        "down",
        tcp(TcpSettings::default()),
        SERVER,
        HOST,
        &[(0, 500)],
    );
    let recording = run(
        experiment(1_400, vec![up, down], Vec::new()),
        topology(Some(rate)),
    );
    let recording = recording.expect("a run");
    // 20 Mbit/s of Ethernet frames, 1448 of 1514 bytes each, for 700 ms. The other direction's
    // ACKs use a little of it, a busy machine more. Packets that are queued at the end of a run
    // still arrive.
    let up_bytes = bytes(&recording, "up") as f64;
    let full = 20e6 / 8.0 * 0.7 * 1448.0 / 1514.0;
    assert!(
        (0.7 * full..full + 2.0 * 100_000.0).contains(&up_bytes),
        "{up_bytes} of {full}"
    );
    let times: Vec<u64> = delivered(&recording, "up")
        .iter()
        .map(|r| r.at_ns)
        .collect();
    assert!(
        times
            .iter()
            .any(|at| (800_000_000..1_100_000_000).contains(at))
    );
    // Only what was in the queue (100 000 bytes, or 40 ms) arrives later.
    assert!(
        !times
            .iter()
            .any(|at| (600_000_000..800_000_000).contains(at))
    );
    assert!(!times.iter().any(|at| *at > 1_300_000_000));
    assert!(bytes(&recording, "down") > 300_000);
    assert!(
        recording
            .tcp
            .iter()
            .any(|sample| sample.outstanding_bytes > 10_000)
    );
    assert!(recording.places.iter().all(|place| !place.is_empty()));
}

#[test]
fn an_amount_is_sent_whole_and_no_more() {
    let settings = TcpSettings {
        amount: Some(Amount::Bytes(size(1_234_567))),
        congestion: Some("reno".to_owned()),
        ..TcpSettings::default()
    };
    let mut up = traffic("up", tcp(settings.clone()), HOST, SERVER, &[(0, 700)]);
    up.count = 3;
    up.stagger = span(50);
    up.port = Some(80);
    up.ipv6 = true;
    let mut down = traffic("down", tcp(settings), SERVER, HOST, &[(0, 700)]);
    down.port = Some(80);
    down.ipv6 = true;
    down.dscp = Dscp::new(10).expect("a code point");
    let recording = run(experiment(800, vec![up, down], Vec::new()), topology(None));
    let recording = recording.expect("a run");
    for flow in 0..4_u16 {
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

#[test]
fn windows_hold() {
    // The queue has room for 300 kB, so the window is the limit.
    let rate = "tbf rate 8mbit burst 3000 limit 300000";
    for window in [18_750, 63_712, 200_000] {
        let settings = TcpSettings {
            window: Some(size(window)),
            // Reno opens the window at once; cubic would stop when delay rises.
            congestion: Some("reno".to_owned()),
            ..TcpSettings::default()
        };
        let up = traffic("up", tcp(settings.clone()), HOST, SERVER, &[(0, 3_000)]);
        let down = traffic("down", tcp(settings), SERVER, HOST, &[(0, 3_000)]);
        let recording = run(
            experiment(3_000, vec![up, down], Vec::new()),
            topology(Some(rate)),
        );
        let recording = recording.expect("a run");
        for flow in 0..2 {
            // The kernel forgets the limit with the first data. On a busy machine, more may
            // arrive before the agent sets it again; later, the limit holds.
            let samples = recording.tcp.iter();
            let samples = samples.filter(|it| it.flow == flow && it.at_ns > 500_000_000);
            let outstanding = samples.map(|sample| sample.outstanding_bytes);
            let most = outstanding.max().expect("samples");
            assert!(
                most <= window,
                "{most} outstanding with a window of {window}"
            );
            // Segments are full, and an ACK for two of them is on its way.
            assert!(
                most + 4 * 1_448 >= window,
                "only {most} of {window} were used"
            );
        }
    }
}

#[test]
fn requests_are_answered_and_timed() {
    let requests = TrafficKind::Requests {
        request: size(300),
        response: size(20_000),
        think: span(40),
        tcp: TcpSettings::default(),
    };
    let entry = traffic("web", requests, SERVER, HOST, &[(0, 500)]);
    let recording = run(experiment(600, vec![entry], Vec::new()), topology(None)).expect("a run");
    let connections = &recording.connections;
    assert!(
        (4..=13).contains(&connections.len()),
        "{}",
        connections.len()
    );
    assert!(connections[0].connected_ns.is_some());
    assert!(connections[1..].iter().all(|c| c.connected_ns.is_none()));
    let finished = connections.iter().filter(|c| c.finished_ns.is_some());
    assert_eq!(bytes(&recording, "web"), 20_000 * finished.count() as u64);
}

#[test]
fn short_flows_repeat_with_their_seed() {
    let short = |from, to| {
        let kind = TrafficKind::ShortFlows {
            mean_gap: span(20),
            mean_length: size(5_000),
            shape: 1.4,
            drain: span(0),
            sizes: Vec::new(),
            tcp: TcpSettings::default(),
        };
        traffic("mice", kind, from, to, &[(0, 400)])
    };
    for (from, to) in [(HOST, SERVER), (SERVER, HOST)] {
        let one = || {
            let experiment = experiment(500, vec![short(from, to)], Vec::new());
            run(experiment, topology(None)).expect("a run")
        };
        let (first, second) = (one(), one());
        let lengths = |r: &Recording| r.connections.iter().map(|c| c.bytes).collect::<Vec<_>>();
        // A busy machine may not have started the last ones.
        let (one, other) = (lengths(&first), lengths(&second));
        let both = one.len().min(other.len());
        assert_eq!(one[..both], other[..both]);
        assert!(both > 5, "{both}");
        let mut finished = 0;
        for connection in &first.connections {
            let Some(end_ns) = connection.finished_ns else {
                // Cut off by the end of the run.
                assert!(connection.start_ns > 300_000_000);
                continue;
            };
            let connected_ns = connection.connected_ns.expect("connected");
            assert!(connection.start_ns <= connected_ns && connected_ns <= end_ns);
            finished += connection.bytes;
        }
        let all = lengths(&first).iter().sum();
        assert!((finished..=all).contains(&bytes(&first, "mice")));
    }
}

#[test]
fn what_cannot_work_is_an_error_with_its_name() {
    let unknown = TcpSettings {
        congestion: Some("no-such".to_owned()),
        ..TcpSettings::default()
    };
    let entry = traffic("up", tcp(unknown), HOST, SERVER, &[(0, 100)]);
    let error = run(experiment(200, vec![entry], Vec::new()), topology(None)).expect_err("fails");
    assert!(
        error.contains("traffic `up`") && error.contains("`no-such`"),
        "{error}"
    );

    let nodes = topology(None);
    command(&nodes, HOST, "ip link set eth0 down");
    let entry = traffic("up", tcp(TcpSettings::default()), HOST, SERVER, &[(0, 100)]);
    let error = run(experiment(200, vec![entry], Vec::new()), nodes).expect_err("fails");
    assert!(
        error.contains("traffic `up`") && error.contains("connect to"),
        "{error}"
    );

    let nodes = topology(None);
    command(&nodes, SERVER, "ip route del 10.0.0.11");
    let entry = traffic("up", tcp(TcpSettings::default()), HOST, SERVER, &[(0, 100)]);
    // A connection without an answer is an observation, not an error.
    let recording = run(experiment(200, vec![entry], Vec::new()), nodes).expect("runs");
    assert_eq!(recording.connections.len(), 1);
    assert_eq!(recording.connections[0].connected_ns, None);

    let short = probe("tiny", ProbeKind::Udp { port: 9 }, 39, false);
    let error = run(experiment(200, Vec::new(), vec![short]), topology(None)).expect_err("fails");
    assert!(
        error.contains("probe `tiny`") && error.contains("1 bytes longer"),
        "{error}"
    );

    let mut one = traffic(
        "one",
        tcp(TcpSettings::default()),
        HOST,
        SERVER,
        &[(0, 100)],
    );
    one.port = Some(80);
    let mut two = one.clone();
    two.kind = tcp(TcpSettings {
        window: Some(size(20_000)),
        ..TcpSettings::default()
    });
    let both = experiment(200, vec![one, two], Vec::new());
    let error = run(both, topology(None)).expect_err("fails");
    assert!(error.contains("another receive window"), "{error}");
}

#[test]
fn queues_of_the_gateway_are_sampled() {
    let nodes = topology(None);
    for line in [
        "ip link add wan type veth peer name end",
        // Disable neighbour discovery, whose packets would be counted.
        "ip link set wan addrgenmode none",
        "ip link set wan up",
        "ip address add 198.51.100.2/24 dev wan",
        "ip link set end up",
        "ip route add 192.0.2.11 dev wan",
        "ip neigh add 192.0.2.11 lladdr 02:00:00:00:00:01 dev wan",
        "tc qdisc add dev wan root handle 1: htb default 10",
        "tc class add dev wan parent 1: classid 1:10 htb rate 8kbit burst 1000 quantum 1500",
        "tc qdisc add dev wan parent 1:10 handle 50: bfifo limit 4000",
    ] {
        command(&nodes, Node::Gateway, line);
    }
    command(&nodes, SERVER, "ip route add 198.51.100.2 dev eth0");
    let udp = TrafficKind::Udp {
        interval: span(10),
        packet: 1_000,
        packets: Some(10),
    };
    let flood = traffic("flood", udp, Node::Gateway, SERVER, &[(0, 400)]);
    let recording = run(experiment(420, vec![flood], Vec::new()), nodes).expect("a run");
    let places: Vec<&str> = recording.places.iter().map(String::as_str).collect();
    assert_eq!(places, ["end", "wan", "wan 50:", "wan 1:10"]);
    assert_eq!(recording.queues.len() % 4, 0);
    assert!((4 * 5..=4 * 9).contains(&recording.queues.len()));
    // At 1014 bytes per second, one or two packets leave, and three fit into the queue.
    for place in [2, 3] {
        let own = recording.queues.iter().rev();
        let last = own
            .clone()
            .find(|sample| sample.place == place)
            .expect("a sample");
        assert_eq!(last.backlog_packets, 3, "{last:?}");
        assert_eq!(last.backlog_bytes, 3 * 1_014);
        assert_eq!(last.packets + 3 + last.drops, 10, "{last:?}");
        assert_eq!(last.bytes, last.packets * 1_014);
    }
}

#[test]
fn an_arm_leaves_out_what_it_says() {
    let up = traffic("up", tcp(TcpSettings::default()), HOST, SERVER, &[(0, 100)]);
    let probes = vec![probe("echo", ProbeKind::Icmp, 84, false)];
    let mut experiment = experiment(150, vec![up], probes);
    experiment.arms[0].without = vec!["up".to_owned(), "echo".to_owned()];
    let recording = run(experiment, topology(None)).expect("a run");
    assert!(recording.flows.is_empty() && recording.probes.is_empty());
}
