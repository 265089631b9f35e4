// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes any bytes as an experiment file.
//!
//! Besides "no panic", this must hold: an experiment is returned exactly if there is no error,
//! every problem can be shown at its place, and the experiment keeps the limits that the lab relies
//! on.

use crate::Corpus;
use weirgate_document::Severity;
use weirgate_experiment::{Experiment, Metric, Node, Traffic, TrafficKind, parse};

pub fn run(data: &[u8]) -> Corpus {
    let Ok(source) = std::str::from_utf8(data) else {
        return Corpus::Reject;
    };
    let (experiment, problems) = parse(source);
    let errors = problems
        .iter()
        .filter(|problem| problem.severity == Severity::Error)
        .count();
    assert_eq!(experiment.is_none(), errors > 0);
    // Rendering takes most of the time, so only one problem is rendered.
    if let Some(problem) = problems.get(source.len() % problems.len().max(1)) {
        assert!(problem.render("file.toml", source).contains(problem.code));
    }
    if let Some(experiment) = experiment {
        planted(&experiment);
        checked(&experiment);
    }
    // No single change makes an experiment from a text with many mistakes, and there are endlessly
    // many of these texts.
    if errors > MOST_MISTAKES {
        Corpus::Reject
    } else {
        Corpus::Keep
    }
}

/// Texts with more mistakes are tried, but not kept in the corpus.
const MOST_MISTAKES: usize = 1;

fn checked(experiment: &Experiment) {
    if experiment.is_calculation() {
        // It may have no value (a division by 0), but must not panic.
        let _ = experiment.calculate();
    }
    let end = experiment.duration();
    for phases in experiment.phases.windows(2) {
        assert!(phases[0].end <= phases[1].start);
    }
    let runs = experiment.traffic.iter().flat_map(|traffic| &traffic.runs);
    let probes = experiment.probes.iter().flat_map(|probe| &probe.runs);
    for (start, stop) in runs.chain(probes) {
        assert!(start < stop && *stop <= end);
    }
    for traffic in &experiment.traffic {
        exists(experiment, traffic.from);
        exists(experiment, traffic.to);
        assert!(packets(traffic) <= 10_000_000, "{traffic:?}");
    }
    for probe in &experiment.probes {
        exists(experiment, probe.from);
        exists(experiment, probe.to);
        assert!(probe.interval.as_nanos() >= 10_000);
    }
    for expectation in &experiment.expectations {
        let metric: Metric = expectation.metric.parse().expect("checked names are names");
        assert_eq!(metric.to_string(), expectation.metric);
        assert!(experiment.arm(&expectation.arm).is_some());
    }
}

fn exists(experiment: &Experiment, node: Node) {
    match node {
        Node::Host(number) => assert!((1..=experiment.topology.hosts).contains(&number)),
        Node::Server(number) => assert!((1..=experiment.topology.servers).contains(&number)),
        Node::Gateway | Node::Provider => {}
    }
}

/// Returns how many packets a sender with a constant rate sends in all its runs.
fn packets(traffic: &Traffic) -> u64 {
    let TrafficKind::Udp {
        interval, packets, ..
    } = &traffic.kind
    else {
        return 0;
    };
    let each = |(start, stop): &(weirgate_units::Span, weirgate_units::Span)| {
        (*stop - *start).as_nanos() / interval.as_nanos()
    };
    let all: u64 = traffic.runs.iter().map(each).sum();
    all.min(packets.unwrap_or(u64::MAX)) * u64::from(traffic.count)
}

/// The planted mistake: a valid file with two properties that no seed has, so that finding it takes
/// new lines in two tables.
#[cfg(feature = "planted")]
fn planted(experiment: &Experiment) {
    use weirgate_experiment::{Buffer, DropEnd};
    let down = &experiment.topology.line.down;
    let packets = matches!(down.buffer, Buffer::Packets(_)) && down.drop == DropEnd::Front;
    let ipv6 = experiment.traffic.iter().any(|traffic| traffic.ipv6);
    assert!(
        !(packets && ipv6),
        "the planted mistake: IPv6 through a front-dropping queue of packets"
    );
}

#[cfg(not(feature = "planted"))]
fn planted(_: &Experiment) {}
