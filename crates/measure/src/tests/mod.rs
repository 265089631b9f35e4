// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures of small recordings, compared with values computed by hand.
//!
//! Over 500 lines: each figure has its recording beside it.

mod judgement;
mod prediction;
mod property;

use crate::sample::{self, MS};
use crate::series::{self, MarkKind};
use crate::{ArmFigures, MeasureError, measure};
use std::collections::BTreeMap;
use weirgate_experiment::{
    Connection, Delivered, Direction, DropEnd, Experiment, Fate, LinePacket, Node, ProbeReply,
    QueueSample, Recording, Sojourn, TcpSample, TcpSegment, Traffic,
};
use weirgate_units::Span;

const S: u64 = 1000 * MS;

fn reply(sent_ms: u64, rtt_ms: Option<u64>) -> ProbeReply {
    ProbeReply {
        probe: 0,
        sent_ns: sent_ms * MS,
        rtt_ns: rtt_ms.map(|rtt| rtt * MS),
    }
}

fn figure(figures: &ArmFigures, name: &str) -> Option<f64> {
    figures.metrics.get(name).copied()
}

#[track_caller]
fn figures_are(figures: &ArmFigures, expected: &[(&str, Option<f64>)]) {
    for (name, value) in expected {
        assert_eq!(
            figure(figures, name),
            *value,
            "{name} of {:#?}",
            figures.metrics
        );
    }
}

#[test]
fn probes_by_hand() {
    let mut experiment = sample::experiment(&[("a", 0, 10), ("b", 10, 20)]);
    experiment.settle = Span::from_secs(5);
    experiment.probes = vec![sample::probe("p", 20)];
    let mut recording = sample::recording(20, &[]);
    recording.probes = vec![
        reply(1_000, Some(500)), // settling
        reply(5_000, Some(10)),
        reply(6_000, Some(30)),
        reply(7_000, Some(20)),
        reply(8_000, None), // lost: 12 s without an answer
        reply(9_999, Some(40)),
        reply(15_000, Some(35)),
        reply(16_000, Some(36)),
        reply(19_500, None), // open: half a second, but more than 35 ms
    ];
    let figures = measure(&experiment, &recording).unwrap();
    figures_are(
        &figures,
        &[
            ("a.rtt.p.min_ms", Some(10.0)),
            ("a.rtt.p.mean_ms", Some(25.0)),
            ("a.rtt.p.p50_ms", Some(20.0)),
            ("a.rtt.p.p95_ms", Some(40.0)),
            ("a.rtt.p.p999_ms", Some(40.0)),
            ("a.rtt.p.max_ms", Some(40.0)),
            ("a.rtt.p.variation_ms", None),
            ("a.rtt.p.within_35_ms.ratio", Some(0.6)),
            ("a.loss.p.ratio", Some(0.2)),
            ("b.rtt.p.within_35_ms.ratio", Some(0.333_333)),
            ("b.loss.p.ratio", Some(0.0)),
            ("rtt.p.max_ms", Some(500.0)),
            ("rtt.p.min_ms", Some(10.0)),
        ],
    );
}

#[test]
fn variation_needs_a_thousand_answers() {
    let mut experiment = sample::experiment(&[("a", 0, 60)]);
    experiment.probes = vec![sample::probe("p", 60)];
    let mut recording = sample::recording(60, &[]);
    recording.probes = (0..999).map(|n| reply(n * 60, Some(10))).collect();
    let without = measure(&experiment, &recording).unwrap();
    assert_eq!(figure(&without, "a.rtt.p.variation_ms"), None);
    let minutes = crate::y1541::evaluate(&experiment, &recording).unwrap();
    assert_eq!(minutes[0].variation, crate::y1541::Variation::TooFew(999));
    // Half the round trip is used as the one-way delay.
    assert_eq!(minutes[0].mean_ms, 5.0);

    // The 1000th is an outlier: the 999th of 1000 is p99.9.
    recording.probes.push(reply(59_990, Some(90)));
    recording.probes[7].rtt_ns = Some(14 * MS);
    let with = measure(&experiment, &recording).unwrap();
    assert_eq!(figure(&with, "a.rtt.p.variation_ms"), Some(4.0));
    let minutes = crate::y1541::evaluate(&experiment, &recording).unwrap();
    assert_eq!(minutes[0].variation, crate::y1541::Variation::Ms(4.0));
}

/// Returns a flow of three packets of 1000 bytes upstream, and a second flow that is dropped.
fn three_packets() -> (Experiment, Recording) {
    let mut experiment = sample::experiment(&[("a", 0, 2)]);
    experiment.traffic = vec![sample::tcp("up", Node::Host(1), Node::Server(1), &[(0, 2)])];
    let mut recording = sample::recording(2, &[("up", 0)]);
    recording.line = vec![
        sample::sent(Direction::Up, (0, 0, 500), 1000, 0),
        sample::sent(Direction::Up, (100, 500, 1000), 1000, 1),
        LinePacket {
            fate: Fate::Dropped,
            ..sample::sent(Direction::Up, (200, 0, 0), 1000, 2)
        },
        sample::sent(Direction::Up, (1500, 1500, 2500), 1000, 0),
    ];
    (experiment, recording)
}

#[test]
fn line_and_rates_by_hand() {
    let (experiment, recording) = three_packets();
    let figures = measure(&experiment, &recording).unwrap();
    // Busy: 1 s, then half a second of the window's 2 s. Bytes: 1000 from 0 to
    // 0.1 s, 2000 to 0.5 s, 1000 to 1 s, 0 to 1.5 s, 1000 to 2 s. The packet that
    // left at 0.5 s counts in the first second, that of 1 s in the second.
    figures_are(
        &figures,
        &[
            ("a.util.up.ratio", Some(0.75)),
            ("a.util.down.ratio", Some(0.0)),
            ("a.queue.modem.mean_bytes", Some(950.0)),
            // 0 for half a second, 1000 for 1.1 s, 2000 for 0.4 s of two.
            ("a.queue.modem.p95_bytes", Some(2000.0)),
            ("a.queue.modem.max_bytes", Some(2000.0)),
            ("a.drops.modem.packets", Some(1.0)),
            ("a.drops.exchange.packets", Some(0.0)),
            ("a.iprate.up.mean_kbit", Some(8.0)),
            ("a.iprate.up.min_kbit", Some(8.0)),
            ("a.pps.up.mean", Some(1.0)),
            ("a.ahead.up.max_packets", Some(2.0)),
            ("a.ahead.up.mean_packets", Some(0.75)),
            ("a.goodput.up.mean_kbit", None),
            ("a.jain.up.index", None),
        ],
    );
}

#[test]
fn dropping_from_the_front_keeps_the_arrival() {
    let (mut experiment, mut recording) = three_packets();
    experiment.topology.line.up.drop = DropEnd::Front;
    // The second packet is dropped when the third, which is sent, comes.
    recording.line[1].fate = Fate::Dropped;
    recording.line[2].fate = Fate::Sent {
        start_ns: 500 * MS,
        end_ns: S,
    };
    let figures = measure(&experiment, &recording).unwrap();
    figures_are(
        &figures,
        &[
            ("a.drops.modem.packets", Some(1.0)),
            // After the drop, 2000 bytes are there, as the arrival at 1.5 s tells:
            // it found nothing, and two packets left in between.
            ("a.queue.modem.max_bytes", Some(2000.0)),
            ("a.queue.modem.mean_bytes", Some(950.0)),
        ],
    );
}

#[test]
fn a_phase_that_was_not_recorded_has_no_figures() {
    let (mut experiment, mut recording) = three_packets();
    experiment.phases[0].end = Span::from_secs(3);
    let figures = measure(&experiment, &recording).unwrap();
    assert!(figures.metrics.keys().all(|name| !name.starts_with("a.")));
    assert!(figure(&figures, "util.up.ratio").is_some());
    // Without the line's log, utilisation is absent, not 0.
    recording.line.clear();
    let figures = measure(&experiment, &recording).unwrap();
    assert_eq!(figures.metrics, BTreeMap::new());
}

#[test]
fn groups_have_totals_members_and_an_index() {
    let mut experiment = sample::experiment(&[("a", 0, 4)]);
    let mut up = sample::tcp("up", Node::Host(1), Node::Server(1), &[(0, 4)]);
    up.count = 2;
    up.stagger = Span::from_secs(2);
    experiment.traffic = vec![up];
    let mut recording = sample::recording(4, &[("up", 0), ("up", 1)]);
    let delivered = |flow, second: u64, bytes| Delivered {
        flow,
        at_ns: second * S,
        bytes,
        datagram: None,
        transit_ns: None,
    };
    recording.delivered = vec![delivered(0, 1, 3000), delivered(1, 3, 1000)];
    let figures = measure(&experiment, &recording).unwrap();
    figures_are(
        &figures,
        &[
            ("a.goodput.up.mean_kbit", Some(8.0)),
            ("a.goodput.up#1.mean_kbit", Some(6.0)),
            // The second started after 2 s.
            ("a.goodput.up#2.mean_kbit", Some(4.0)),
            ("a.goodput.up.min_kbit", Some(0.0)),
            // (3 + 1)^2 / (2 * (9 + 1))
            ("a.jain.up.index", Some(0.8)),
        ],
    );
}

/// A group compares entries, whatever the number of their connections.
#[test]
fn a_group_compares_entries() {
    let mut experiment = sample::experiment(&[("a", 0, 4)]);
    let entry = |name: &str, host, count| Traffic {
        count,
        group: Some("hosts".to_owned()),
        ..sample::tcp(name, Node::Host(host), Node::Server(1), &[(0, 4)])
    };
    experiment.traffic = vec![entry("one", 1, 1), entry("two", 2, 2)];
    let mut recording = sample::recording(4, &[("one", 0), ("two", 0), ("two", 1)]);
    let delivered = |flow, bytes| Delivered {
        flow,
        at_ns: S,
        bytes,
        datagram: None,
        transit_ns: None,
    };
    recording.delivered = vec![delivered(0, 3000), delivered(1, 750), delivered(2, 250)];
    let figures = measure(&experiment, &recording).unwrap();
    // (3 + 1)^2 / (2 * (9 + 1)); within the second entry alike.
    figures_are(
        &figures,
        &[
            ("a.jain.hosts.index", Some(0.8)),
            ("a.jain.two.index", Some(0.8)),
            ("a.jain.one.index", None),
        ],
    );
}

#[test]
fn senders_state_by_hand() {
    let mut experiment = sample::experiment(&[("a", 0, 1), ("b", 1, 2)]);
    let mut up = sample::tcp("up", Node::Host(1), Node::Server(1), &[(0, 2)]);
    up.count = 2;
    experiment.traffic = vec![up];
    let mut recording = sample::recording(2, &[("up", 0), ("up", 1)]);
    let sample = |flow, at_ms: u64, outstanding_bytes, retransmits| TcpSample {
        flow,
        at_ns: at_ms * MS,
        cwnd_bytes: 2 * outstanding_bytes,
        outstanding_bytes,
        srtt_us: u32::try_from(outstanding_bytes).unwrap() * 10,
        retransmits,
    };
    recording.tcp = vec![
        sample(0, 100, 1000, 2),
        sample(1, 150, 3000, 0),
        sample(0, 900, 500, 3), // the other's value is too old by now
        sample(0, 1100, 800, 7),
        sample(0, 1200, 800, 1), // a new connection
    ];
    let figures = measure(&experiment, &recording).unwrap();
    figures_are(
        &figures,
        &[
            ("a.outstanding.up.max_bytes", Some(4000.0)),
            ("a.outstanding.up.mean_bytes", Some(1833.0)), // (1000 + 4000 + 500) / 3
            ("a.cwnd.up.max_bytes", Some(8000.0)),
            ("a.outstanding.up#1.max_bytes", Some(1000.0)),
            ("a.srtt.up.mean_ms", Some(15.0)),
            ("a.srtt.up.max_ms", Some(30.0)),
            ("b.srtt.up.max_ms", Some(8.0)),
            ("a.retransmitted.up.segments", Some(3.0)),
            ("b.retransmitted.up.segments", Some(5.0)),
            ("retransmitted.up.segments", Some(8.0)),
        ],
    );
}

#[test]
fn sampled_queues_and_waits_by_hand() {
    let experiment = sample::experiment(&[("a", 0, 1), ("b", 1, 2)]);
    let mut recording = sample::recording(2, &[]);
    recording.places = vec!["wan 1:50".into()];
    recording.classes = vec!["bulk".into()];
    let sample = |at_ms: u64, backlog_bytes, drops| QueueSample {
        place: 0,
        at_ns: at_ms * MS,
        bytes: 0,
        packets: 0,
        drops,
        marks: 0,
        backlog_bytes,
        backlog_packets: 0,
    };
    recording.queues = vec![sample(0, 100, 0), sample(500, 300, 2), sample(1500, 0, 6)];
    let sojourn = |direction, at_ms: u64, wait_ms: u64| Sojourn {
        direction,
        class: 0,
        at_ns: at_ms * MS,
        wait_ns: wait_ms * MS,
    };
    recording.sojourns = vec![
        sojourn(Direction::Up, 100, 4),
        sojourn(Direction::Up, 200, 8),
        sojourn(Direction::Down, 1200, 1),
    ];
    let figures = measure(&experiment, &recording).unwrap();
    figures_are(
        &figures,
        &[
            ("a.queue.wan-1:50.mean_bytes", Some(200.0)),
            ("a.queue.wan-1:50.max_bytes", Some(300.0)),
            ("b.queue.wan-1:50.mean_bytes", Some(150.0)),
            ("b.queue.wan-1:50.max_bytes", Some(300.0)),
            ("a.drops.wan-1:50.packets", Some(2.0)),
            ("b.drops.wan-1:50.packets", Some(4.0)),
            ("drops.wan-1:50.packets", Some(6.0)),
            ("a.sojourn.bulk.mean_ms", Some(6.0)),
            ("a.sojourn.bulk.max_ms", Some(8.0)),
            ("a.sojourn.bulk-up.max_ms", Some(8.0)),
            ("a.sojourn.bulk-down.max_ms", None),
            ("sojourn.bulk-up.max_ms", Some(8.0)),
            ("sojourn.bulk-down.max_ms", Some(1.0)),
        ],
    );
    recording.queues[2].drops = 1;
    let replaced = measure(&experiment, &recording).unwrap();
    assert_eq!(figure(&replaced, "b.drops.wan-1:50.packets"), Some(1.0));
}

#[test]
fn connections_by_hand() {
    let mut experiment = sample::experiment(&[("a", 0, 10)]);
    experiment.traffic = vec![sample::tcp(
        "mice",
        Node::Host(1),
        Node::Server(1),
        &[(0, 10)],
    )];
    let mut recording = sample::recording(10, &[("mice", 0)]);
    let connection = |start_ms: u64, connected_ms: Option<u64>, finished_ms: Option<u64>| {
        let at = |ms: u64| (start_ms + ms) * MS;
        Connection {
            flow: 0,
            due_ns: at(0),
            start_ns: at(0),
            connected_ns: connected_ms.map(at),
            finished_ns: finished_ms.map(at),
            bytes: 1000,
        }
    };
    recording.connections = vec![
        connection(100, Some(10), Some(1500)),
        connection(200, Some(30), Some(500)),
        connection(9_900, Some(50), None),
    ];
    let figures = measure(&experiment, &recording).unwrap();
    figures_are(
        &figures,
        &[
            ("a.connect.mice.mean_s", Some(0.03)),
            ("a.connect.mice.p95_s", Some(0.05)),
            ("a.response.mice.mean_s", Some(1.0)),
            ("a.response.mice.p95_s", Some(1.5)),
        ],
    );
}

/// A download of four segments, 10 ms each on the line; its ACKs are spaced
/// 20, 1 and 20 ms, and two carry SACK blocks.
fn download() -> (Experiment, Recording) {
    let mut experiment = sample::experiment(&[("a", 0, 1)]);
    experiment.traffic = vec![sample::tcp(
        "down",
        Node::Server(1),
        Node::Host(1),
        &[(0, 1)],
    )];
    let mut recording = sample::recording(1, &[("down", 0)]);
    let data = |times, number: u32| LinePacket {
        tcp: Some(sample::segment(1000 * number, 0, 1000)),
        ..sample::sent(Direction::Down, times, 1052, 0)
    };
    let ack = |ms, number: u32, sack| LinePacket {
        tcp: Some(TcpSegment {
            sack,
            ..sample::segment(0, 1000 * number, 0)
        }),
        ..sample::sent(Direction::Up, (ms - 1, ms - 1, ms), 52, 0)
    };
    recording.line = vec![
        data((0, 0, 10), 0),
        data((1, 10, 20), 1),
        data((2, 20, 30), 3),
        ack(30, 1, None),
        ack(50, 2, Some((3000, 4000))),
        ack(51, 3, Some((3000, 4000))),
        // ACKs reach the sender 2 ms after they left the line.
        data((52, 52, 62), 2),
        data((53, 62, 72), 4),
        ack(71, 5, None),
    ];
    (experiment, recording)
}

#[test]
fn acks_by_hand() {
    let (experiment, recording) = download();
    let figures = measure(&experiment, &recording).unwrap();
    figures_are(
        &figures,
        &[
            ("a.ackspacing.down.mean_ms", Some(13.667)),
            ("a.ackspacing.down.p50_ms", Some(20.0)),
            // The second acknowledges 1000 bytes, 10 ms of line time, after 1 ms.
            ("a.ackcompressed.down.ratio", Some(0.333_333)),
            // Between 52 and 53 ms one segment, from 53 to 73 ms one.
            ("a.sackrelease.down.mean_segments", Some(1.0)),
            // Five segments of 1248 bytes in 53 ms; 100 ms carry 25000 bytes.
            ("a.burst.down.max_ratio", Some(0.2496)),
        ],
    );
}

#[test]
fn time_sequences_tell_retransmissions() {
    let (experiment, recording) = download();
    let marks = series::time_sequence(&experiment, &recording, 0, 0, S);
    let of = |kind| -> Vec<i64> {
        marks
            .iter()
            .filter(|mark| mark.kind == kind)
            .map(|mark| mark.from)
            .collect()
    };
    assert_eq!(of(MarkKind::Data), [0, 1000, 3000, 4000]);
    assert_eq!(of(MarkKind::Retransmission), [2000]);
    assert_eq!(of(MarkKind::Ack), [1000, 2000, 3000, 5000]);
    assert_eq!(of(MarkKind::Sack), [3000, 3000]);
    assert!(marks.is_sorted_by(|a, b| a.at_s <= b.at_s));
}

#[test]
fn recovery_is_found_only_where_a_queue_drains() {
    let mut experiment = sample::experiment(&[("a", 0, 100)]);
    experiment.probes = vec![sample::probe("p", 100)];
    let mut recording = sample::recording(100, &[]);
    let rtt = |second: u64| if second < 60 { 610 - 10 * second } else { 10 };
    recording.probes = (0..100)
        .map(|second| reply(second * 1000, Some(rtt(second))))
        .collect();
    let figures = measure(&experiment, &recording).unwrap();
    // 10 + 60 ms is last exceeded at 53 s (80 ms).
    assert_eq!(figure(&figures, "a.recovery.p.s"), Some(53.0));
    recording.probes[99].rtt_ns = Some(500 * MS);
    let figures = measure(&experiment, &recording).unwrap();
    assert_eq!(figure(&figures, "a.recovery.p.s"), None);
}

#[test]
fn recordings_that_do_not_fit_are_refused() {
    let (experiment, mut recording) = three_packets();
    recording.line[0].flow = Some(7);
    let error = measure(&experiment, &recording).unwrap_err();
    assert!(
        matches!(
            error,
            MeasureError::Index {
                index: 7,
                known: 1,
                ..
            }
        ),
        "{error}"
    );
    recording.flows[0].name = "other".into();
    assert!(
        measure(&experiment, &recording)
            .unwrap_err()
            .to_string()
            .contains("`other`")
    );
    recording.arm = "none".into();
    assert!(
        measure(&experiment, &recording)
            .unwrap_err()
            .to_string()
            .contains("modem-only")
    );
}

#[test]
fn short_flows_have_slowdowns_and_sizes() {
    let mut experiment = sample::experiment(&[("a", 0, 100)]);
    let line = &mut experiment.topology.line;
    line.framing = weirgate_experiment::Framing::None;
    line.overhead = 0;
    line.mpu = 0;
    for side in [&mut line.up, &mut line.down] {
        side.rate = weirgate_units::Rate::kbit(1000);
        side.delay = Span::from_millis(10);
    }
    let mut mice = sample::tcp("mice", Node::Host(1), Node::Server(1), &[(0, 100)]);
    mice.kind = weirgate_experiment::TrafficKind::ShortFlows {
        mean_gap: Span::from_secs(1),
        mean_length: weirgate_units::Size::bytes(5000),
        shape: 1.5,
        drain: Span::ZERO,
        sizes: vec![weirgate_units::Size::bytes(1448)],
        tcp: weirgate_experiment::TcpSettings::default(),
    };
    experiment.traffic = vec![mice];
    let mut recording = sample::recording(100, &[("mice", 0)]);
    let connection =
        |start_ms: u64, late_ms: u64, finished_us: Option<u64>, bytes: u64| Connection {
            flow: 0,
            due_ns: (start_ms - late_ms) * MS,
            start_ns: start_ms * MS,
            connected_ns: None,
            finished_ns: finished_us.map(|us| start_ms * MS + us * 1000),
            bytes,
        };
    // SYN and answer of 60 bytes 0.48 ms each, 10 ms of delay three times, a
    // full packet 12 ms: 42.96 ms; two of them 54.96 ms.
    recording.connections = vec![
        connection(100, 1, Some(42_960), 1448),
        connection(200, 3, Some(85_920), 1448),
        connection(300, 0, Some(164_880), 2896),
        connection(400, 0, None, 99_999),
    ];
    // Of two connections at once: nothing follows from their order.
    recording.tcp = [5, 0, 5]
        .map(|retransmits| TcpSample {
            flow: 0,
            at_ns: 500 * MS,
            cwnd_bytes: 1448,
            outstanding_bytes: 1448,
            srtt_us: 0,
            retransmits,
        })
        .to_vec();
    let figures = measure(&experiment, &recording).unwrap();
    figures_are(
        &figures,
        &[
            ("a.slowdown.mice:1448.mean_ratio", Some(1.5)),
            ("a.slowdown.mice:1448.p95_ratio", Some(2.0)),
            ("a.slowdown.mice:more.mean_ratio", Some(3.0)),
            ("a.slowdown.mice.mean_ratio", Some(2.0)),
            ("a.started.mice.connections", Some(4.0)),
            ("a.started.mice:more.connections", Some(2.0)),
            ("a.unfinished.mice.connections", Some(1.0)),
            ("a.unfinished.mice:1448.connections", Some(0.0)),
            ("a.late.mice.max_ms", Some(3.0)),
            ("a.late.mice:1448.max_ms", None),
            ("a.retransmitted.mice.segments", None),
            ("a.outstanding.mice.max_bytes", None),
        ],
    );
}

#[test]
fn averages_are_those_of_samples_in_the_window() {
    let experiment = sample::experiment(&[("a", 0, 5), ("b", 5, 10)]);
    let mut recording = sample::recording(10, &[]);
    recording.places = vec!["wan".into()];
    recording.averages = [(1, 10), (2, 20), (3, 60), (7, 500)]
        .map(|(at_s, value)| weirgate_experiment::NumberSample {
            place: 0,
            at_ns: at_s * 1000 * MS,
            value,
        })
        .to_vec();
    let figures = measure(&experiment, &recording).unwrap();
    figures_are(
        &figures,
        &[
            ("a.average.wan.mean_bytes", Some(30.0)),
            ("a.average.wan.min_bytes", Some(10.0)),
            ("a.average.wan.p50_bytes", Some(20.0)),
            ("a.average.wan.max_bytes", Some(60.0)),
            ("b.average.wan.mean_bytes", Some(500.0)),
        ],
    );
}
