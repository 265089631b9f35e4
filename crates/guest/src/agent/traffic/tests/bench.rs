// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two namespaces joined by a veth pair, and runs of traffic between them.
//!
//! The tests need root, as the agent does, and fail with a message without it. The link has no
//! rate of its own; tests that need one use a TBF.

use crate::agent::clock::Clock;
use crate::agent::nodes::{self, Nodes};
use crate::agent::recorder::Recorder;
use crate::agent::session::Session;
use crate::agent::traffic::start;
use std::os::fd::AsRawFd;
use std::process::Command;
use weirgate_experiment::{
    Delivered, Experiment, Node, Probe, ProbeKind, Recording, TcpSettings, Traffic, TrafficKind,
};
use weirgate_units::{Dscp, Size, Span};

pub const HOST: Node = Node::Host(1);
pub const SERVER: Node = Node::Server(1);

pub fn span(ms: u64) -> Span {
    Span::from_millis(ms)
}

pub fn size(bytes: u64) -> Size {
    Size::bytes(bytes)
}

/// A minimal experiment, whose traffic is replaced.
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

pub fn experiment(duration_ms: u64, traffic: Vec<Traffic>, probes: Vec<Probe>) -> Experiment {
    let (experiment, problems) = weirgate_experiment::parse(LEAST);
    let mut experiment = experiment.unwrap_or_else(|| panic!("{problems:?}"));
    experiment.phases[0].end = span(duration_ms);
    experiment.sampling.queues = span(50);
    experiment.sampling.tcp = span(10);
    experiment.traffic = traffic;
    experiment.probes = probes;
    experiment
}

pub fn traffic(
    name: &str,
    kind: TrafficKind,
    from: Node,
    to: Node,
    runs: &[(u64, u64)],
) -> Traffic {
    Traffic {
        name: name.to_owned(),
        kind,
        from,
        to,
        runs: runs.iter().map(|&(a, b)| (span(a), span(b))).collect(),
        count: 1,
        hosts: 1,
        stagger: Span::ZERO,
        port: None,
        dscp: Dscp::default(),
        ipv6: false,
        class: None,
        group: None,
    }
}

pub fn probe(name: &str, kind: ProbeKind, packet: u16, ipv6: bool) -> Probe {
    Probe {
        name: name.to_owned(),
        kind,
        from: HOST,
        to: SERVER,
        interval: span(20),
        per_round_trip: None,
        packet,
        runs: vec![(Span::ZERO, span(400))],
        dscp: Dscp::new(46).expect("a code point"),
        ipv6,
        class: None,
        within_ms: Vec::new(),
    }
}

pub fn tcp(settings: TcpSettings) -> TrafficKind {
    TrafficKind::Tcp(settings)
}

/// Runs a command in a node's namespace.
pub fn command(nodes: &Nodes, node: Node, line: &str) -> String {
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

/// Returns two namespaces joined directly; `rate` shapes both directions.
pub fn topology(rate: Option<&str>) -> Nodes {
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
    // Wait until devices are up and neighbours are found before time begins.
    for ipv6 in [false, true] {
        let peer = nodes::address(SERVER, ipv6);
        let ping = format!("ping -n -q -c 1 -i 0.02 -w 10 {peer}");
        command(&nodes, HOST, &ping);
    }
    nodes
}

/// Runs an experiment without a line, and returns its recording.
pub fn run(experiment: Experiment, nodes: Nodes) -> Result<Recording, String> {
    let arm = experiment.arms[0].clone();
    let end_ns = experiment.duration().as_nanos();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("an event loop");
    let tasks = tokio::task::LocalSet::new();
    let recorder = Recorder::new();
    let (session, mut failed) =
        Session::new(experiment, arm, 1, Clock::new(), nodes, recorder.clone());
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

pub fn delivered<'a>(recording: &'a Recording, name: &str) -> Vec<&'a Delivered> {
    let index = recording.flows.iter().position(|flow| flow.name == name);
    let index = index.expect("a flow of that name") as u16;
    let own = |record: &&Delivered| record.flow == index;
    recording.delivered.iter().filter(own).collect()
}

pub fn bytes(recording: &Recording, name: &str) -> u64 {
    let records = delivered(recording, name);
    records.iter().map(|record| u64::from(record.bytes)).sum()
}
