// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traffic, probes and samplers between two namespaces joined by a veth pair.
//!
//! They need root, as the agent itself does, and say so without it. The wire
//! has no rate of its own; where one matters, a TBF gives it.

use super::start;
use crate::agent::nodes::{self, Nodes};
use crate::agent::recorder::Recorder;
use crate::agent::session::Session;
use std::os::fd::AsRawFd;
use std::process::Command;
use weirgate_experiment::{
    Amount, Delivered, Experiment, Node, Probe, ProbeKind, Recording, TcpSettings, Traffic,
    TrafficKind,
};
use weirgate_units::{Dscp, Size, Span};

const HOST: Node = Node::Host(1);
const SERVER: Node = Node::Server(1);

fn span(ms: u64) -> Span {
    Span::from_millis(ms)
}

fn size(bytes: u64) -> Size {
    Size::bytes(bytes)
}

/// The least that an experiment must say; what is sent is replaced.
const LEAST: &str = r#"
version = 1
name = "test"
title = "Traffic without a line"
settle = "0s"
[topology]
kind = "access-line"
[topology.line]
up = { rate = "1mbit", delay = "1ms", buffer = "20kB" }
down = { rate = "1mbit", delay = "1ms", buffer = "20kB" }
[[phase]]
name = "all"
end = "1s"
[[traffic]]
name = "replaced"
kind = "tcp"
from = "host1"
to = "server1"
[[arm]]
name = "test"
about = "nothing is shaped"
"#;

fn experiment(duration_ms: u64, traffic: Vec<Traffic>, probes: Vec<Probe>) -> Experiment {
    let (experiment, problems) = weirgate_experiment::parse(LEAST);
    let mut experiment = experiment.unwrap_or_else(|| panic!("{problems:?}"));
    experiment.phases[0].end = span(duration_ms);
    experiment.sampling.queues = span(50);
    experiment.sampling.tcp = span(10);
    experiment.traffic = traffic;
    experiment.probes = probes;
    experiment
}

fn traffic(name: &str, kind: TrafficKind, from: Node, to: Node, runs: &[(u64, u64)]) -> Traffic {
    Traffic {
        name: name.to_owned(),
        kind,
        from,
        to,
        runs: runs.iter().map(|&(a, b)| (span(a), span(b))).collect(),
        count: 1,
        stagger: Span::ZERO,
        port: None,
        dscp: Dscp::default(),
        ipv6: false,
        class: None,
    }
}

fn probe(name: &str, kind: ProbeKind, packet: u16, ipv6: bool) -> Probe {
    Probe {
        name: name.to_owned(),
        kind,
        from: HOST,
        to: SERVER,
        interval: span(20),
        packet,
        runs: vec![(Span::ZERO, span(400))],
        dscp: Dscp::new(46).expect("a code point"),
        ipv6,
        class: None,
        within_ms: Vec::new(),
    }
}

fn tcp(settings: TcpSettings) -> TrafficKind {
    TrafficKind::Tcp(settings)
}

/// Runs a command in a node's namespace.
fn command(nodes: &Nodes, node: Node, line: &str) -> String {
    let mut words = line.split_whitespace();
    let program = words.next().expect("a program");
    let output = nodes
        .enter(node, || Command::new(program).args(words).output())
        .unwrap_or_else(|error| panic!("{line}: {error}"));
    assert!(
        output.status.success(),
        "{line}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Two namespaces joined directly; `rate` shapes both directions.
fn topology(rate: Option<&str>) -> Nodes {
    let nodes = Nodes::create(1, 1).expect("namespaces: these tests need root");
    let far = nodes.space(SERVER).expect("a namespace").as_raw_fd();
    let far = format!("/proc/{}/fd/{far}", std::process::id());
    let pair = format!("ip link add eth0 type veth peer name eth0 netns {far}");
    command(&nodes, HOST, &pair);
    for (node, peer) in [(HOST, SERVER), (SERVER, HOST)] {
        let run = |line: String| command(&nodes, node, &line);
        run("ip link set lo up".to_owned());
        run("ip link set eth0 up".to_owned());
        run("ethtool -K eth0 tso off gso off gro off".to_owned());
        for (ipv6, length, option) in [(false, 32, "-4"), (true, 128, "-6")] {
            let own = nodes::address(node, ipv6);
            let nodad = if ipv6 { "nodad" } else { "" };
            run(format!(
                "ip {option} address add {own}/{length} dev eth0 {nodad}"
            ));
            let peer = nodes::address(peer, ipv6);
            run(format!("ip {option} route add {peer} dev eth0"));
        }
        if let Some(rate) = rate {
            run(format!("tc qdisc add dev eth0 root {rate}"));
        }
    }
    // Devices come up, and neighbours are found, before time begins.
    for ipv6 in [false, true] {
        let peer = nodes::address(SERVER, ipv6);
        let ping = format!("ping -n -q -c 1 -i 0.02 -w 10 {peer}");
        command(&nodes, HOST, &ping);
    }
    nodes
}

/// Runs an experiment without a line, and returns what it observed.
fn run(experiment: Experiment, nodes: Nodes) -> Result<Recording, String> {
    let arm = experiment.arms[0].clone();
    let end_ns = experiment.duration().as_nanos();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("an event loop");
    let tasks = tokio::task::LocalSet::new();
    let recorder = Recorder::new();
    let (session, mut failed) = Session::new(experiment, arm, 1, nodes, recorder.clone());
    tasks.block_on(&runtime, async {
        session.clock.start();
        start(&session).map_err(|error| format!("{error:#}"))?;
        tokio::select! {
            ended = session.clock.until(end_ns) => ended.map_err(|error| error.to_string()),
            failure = failed.recv() => Err(format!("{:#}", failure.expect("a failure"))),
        }
    })?;
    drop(tasks);
    Ok(recorder.take())
}

fn delivered<'a>(recording: &'a Recording, name: &str) -> Vec<&'a Delivered> {
    let index = recording.flows.iter().position(|flow| flow.name == name);
    let index = index.expect("a flow of that name") as u16;
    let own = |record: &&Delivered| record.flow == index;
    recording.delivered.iter().filter(own).collect()
}

fn bytes(recording: &Recording, name: &str) -> u64 {
    let records = delivered(recording, name);
    records.iter().map(|record| u64::from(record.bytes)).sum()
}

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
        // The schedule is absolute: none is early, and however late this
        // machine let some be, one of the second half is on time.
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
    // 20 Mbit/s of Ethernet frames, 1448 of 1514 bytes each, for 700 ms; the
    // other direction's ACKs take a little, a busy machine more. What is in
    // the queue at the end of a run still comes.
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
    // What the queue held (100 000 bytes are 40 ms) comes later, and no more.
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
    // Room for 300 kB: the window is what limits.
    let rate = "tbf rate 8mbit burst 3000 limit 300000";
    for window in [18_750, 63_712, 200_000] {
        let settings = TcpSettings {
            window: Some(size(window)),
            // Grows to the window at once; cubic would stop at rising delay.
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
            let samples = recording.tcp.iter().filter(|sample| sample.flow == flow);
            let outstanding = samples.map(|sample| sample.outstanding_bytes);
            let most = outstanding.max().expect("samples");
            assert!(
                most <= window,
                "{most} outstanding with a window of {window}"
            );
            // Segments are whole, and an ACK for two of them is on its way.
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
        // A busy machine may have had no time for the last ones.
        let (one, other) = (lengths(&first), lengths(&second));
        let both = one.len().min(other.len());
        assert_eq!(one[..both], other[..both]);
        assert!(both > 5, "{both}");
        let mut finished = 0;
        for connection in &first.connections {
            let Some(end_ns) = connection.finished_ns else {
                // Cut off by the run's end.
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
    // Counted by the kernel at the server: packets of these lengths with EF.
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
    let error = run(experiment(200, vec![entry], Vec::new()), nodes).expect_err("fails");
    assert!(error.contains("no connection came about"), "{error}");

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
        // No neighbour discovery among the counted packets.
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
    // 1014 bytes a second: a packet or two leave, three fit in the queue.
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
