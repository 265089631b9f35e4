// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Properties of every recording.

use super::{figure, reply};
use crate::sample;
use crate::{measure, series};
use proptest::prelude::*;
use weirgate_experiment::{
    Connection, Delivered, Direction, Fate, LinePacket, Node, ProbeReply, QueueSample, Recording,
    Sojourn, TcpSample, TcpSegment,
};

fn arbitrary_packets() -> impl Strategy<Value = Vec<(u64, u64, u16, bool)>> {
    prop::collection::vec((0u64..400, 1u64..40, 40u16..1500, any::<bool>()), 1..60)
}

/// Returns the log of a first-in, first-out line with room for five packets.
fn fifo(packets: &[(u64, u64, u16, bool)]) -> Recording {
    let mut recording = sample::recording(60, &[("up", 0), ("other", 0)]);
    let (mut now, mut free) = (0, 0);
    let mut inside: Vec<(u64, u16)> = Vec::new();
    for &(gap, time, ip_bytes, first) in packets {
        now += gap;
        inside.retain(|packet| packet.0 > now);
        let start = free.max(now);
        let kept = inside.len() < 5;
        let mut packet = sample::sent(Direction::Up, (now, start, start + time), ip_bytes, 0);
        packet.flow = Some(u16::from(!first));
        packet.ahead_packets = inside.len() as u32;
        packet.ahead_bytes = inside.iter().map(|packet| u32::from(packet.1)).sum();
        if kept {
            free = start + time;
            inside.push((free, ip_bytes));
        } else {
            packet.fate = Fate::Dropped;
        }
        recording.line.push(packet);
    }
    recording
}

/// Generates plausible times, and times as in damaged recordings.
fn any_time() -> impl Strategy<Value = u64> {
    prop_oneof![0..4_000_000_000u64, any::<u64>()]
}

fn any_packet() -> impl Strategy<Value = LinePacket> {
    let fate = prop_oneof![
        Just(Fate::Dropped),
        Just(Fate::Left),
        (any_time(), any_time()).prop_map(|(start_ns, end_ns)| Fate::Sent { start_ns, end_ns }),
    ];
    let segment = (any::<u32>(), any::<u32>(), any::<u16>(), any::<u8>()).prop_map(
        |(seq, ack, payload, flags)| TcpSegment {
            seq,
            ack,
            payload,
            flags,
            window: 0,
            sack: (flags & 1 == 0).then_some((seq, ack)),
        },
    );
    let numbers = (any::<u16>(), any::<u32>(), any::<u32>(), any::<u32>());
    (
        any::<bool>(),
        any_time(),
        fate,
        prop::option::of(segment),
        numbers,
    )
        .prop_map(|(up, arrived_ns, fate, tcp, numbers)| LinePacket {
            direction: if up { Direction::Up } else { Direction::Down },
            flow: Some(numbers.0 % 3),
            arrived_ns,
            fate,
            ip_bytes: numbers.0,
            wire_bytes: numbers.1,
            ahead_packets: numbers.2,
            ahead_bytes: numbers.3,
            tcp,
        })
}

/// Generates a recording in which any record may be invalid.
fn damaged() -> impl Strategy<Value = Recording> {
    let packets = prop::collection::vec(any_packet(), 0..20);
    let times = prop::collection::vec((any_time(), any_time(), any::<u32>()), 0..20);
    (
        packets,
        times,
        prop_oneof![Just(4_000_000_000u64), any::<u64>()],
    )
        .prop_map(|(line, times, duration_ns)| {
            let mut recording = sample::recording(4, &[("up", 0), ("up", 1), ("down", 0)]);
            recording.duration_ns = duration_ns;
            recording.line = line;
            recording.places = vec!["wan".into()];
            recording.classes = vec!["c".into()];
            for (a, b, c) in times {
                let flow = (c % 3) as u16;
                recording.probes.push(ProbeReply {
                    probe: 0,
                    sent_ns: a,
                    rtt_ns: (c & 1 == 0).then_some(b),
                });
                recording.delivered.push(Delivered {
                    flow,
                    at_ns: a,
                    bytes: c,
                    datagram: (c & 2 == 0).then_some(c),
                    transit_ns: Some(b),
                });
                recording.tcp.push(TcpSample {
                    flow,
                    at_ns: a,
                    cwnd_bytes: b,
                    outstanding_bytes: b,
                    srtt_us: c,
                    retransmits: c,
                });
                recording.sojourns.push(Sojourn {
                    direction: Direction::Up,
                    class: 0,
                    at_ns: a,
                    wait_ns: b,
                });
                recording.queues.push(QueueSample {
                    place: 0,
                    at_ns: a,
                    bytes: b,
                    packets: b,
                    drops: b,
                    marks: b,
                    backlog_bytes: c,
                    backlog_packets: c,
                });
                recording.connections.push(Connection {
                    flow,
                    due_ns: a.saturating_sub(b),
                    start_ns: a,
                    connected_ns: Some(b),
                    finished_ns: Some(b),
                    bytes: b,
                });
            }
            recording
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nothing_is_lost_between_log_and_figures(packets in arbitrary_packets()) {
        let mut experiment = sample::experiment(&[]);
        experiment.traffic = ["up", "other"]
            .map(|name| sample::tcp(name, Node::Host(1), Node::Server(1), &[(0, 60)]))
            .into();
        let recording = fifo(&packets);
        let figures = measure(&experiment, &recording).unwrap();
        let sent: Vec<&LinePacket> =
            recording.line.iter().filter(|packet| packet.fate != Fate::Dropped).collect();
        let bytes: f64 = sent.iter().map(|packet| f64::from(packet.ip_bytes)).sum();
        let rates = ["iprate.up.mean_kbit", "iprate.other.mean_kbit"];
        let rates: f64 = rates.iter().filter_map(|name| figure(&figures, name)).sum();
        prop_assert!((rates * 1000.0 / 8.0 * 60.0 - bytes).abs() < 10.0);
        let drops = figure(&figures, "drops.modem.packets").unwrap();
        prop_assert_eq!(sent.len() as f64 + drops, packets.len() as f64);
        // Little's law: the mean queue is the bytes' time in the system over time.
        let time: f64 = sent
            .iter()
            .map(|packet| match packet.fate {
                Fate::Sent { end_ns, .. } => {
                    (end_ns - packet.arrived_ns) as f64 * f64::from(packet.ip_bytes)
                }
                _ => 0.0,
            })
            .sum();
        let mean = figure(&figures, "queue.modem.mean_bytes").unwrap();
        prop_assert!((mean - time / 60e9).abs() <= 0.51, "{} {}", mean, time / 60e9);
        prop_assert!(figure(&figures, "queue.modem.max_bytes").unwrap() + 0.5 >= mean);
        prop_assert!(figure(&figures, "util.up.ratio").unwrap() <= 1.0);
        let curves = series::throughput(&experiment, &recording).unwrap();
        let drawn: f64 =
            curves.iter().flat_map(|curve| &curve.points).map(|point| point.1 / 8.0 * 1e3).sum();
        prop_assert!((drawn - bytes).abs() < 1e-6);
    }

    #[test]
    fn damaged_recordings_give_figures_or_an_error(recording in damaged()) {
        let mut experiment = sample::experiment(&[("a", 0, 2), ("b", 2, 4)]);
        experiment.probes = vec![sample::probe("p", 4)];
        let mut up = sample::windowed("up", Direction::Up, 63_712, &[(0, 4)]);
        up.count = 2;
        experiment.traffic =
            vec![up, sample::windowed("down", Direction::Down, 63_712, &[(0, 4)])];
        if let Ok(figures) = measure(&experiment, &recording) {
            prop_assert!(figures.metrics.values().all(|value| value.is_finite()));
            let _ = series::throughput(&experiment, &recording).unwrap();
            let _ = crate::y1541::evaluate(&experiment, &recording).unwrap();
        }
        let _ = series::queues(&experiment, &recording);
        let _ = series::latency(&experiment, &recording);
        for flow in 0..4 {
            let _ = series::time_sequence(&experiment, &recording, flow, 0, u64::MAX);
        }
    }

    #[test]
    fn figures_of_probes_keep_their_order(
        rtts in prop::collection::vec(prop::option::weighted(0.9, 1u64..4000), 1..80),
    ) {
        let mut experiment = sample::experiment(&[("a", 0, 60)]);
        experiment.probes = vec![sample::probe("p", 60)];
        let mut recording = sample::recording(60, &[]);
        recording.probes =
            rtts.iter().enumerate().map(|(n, rtt)| reply(n as u64 * 150, *rtt)).collect();
        let figures = measure(&experiment, &recording).unwrap();
        let names = ["min", "p50", "p95", "p99", "p999", "max"];
        let values: Vec<f64> = names
            .iter()
            .filter_map(|name| figure(&figures, &format!("a.rtt.p.{name}_ms")))
            .collect();
        prop_assert!(values.is_sorted());
        prop_assert_eq!(values.is_empty(), rtts.iter().all(Option::is_none));
        for name in ["a.loss.p.ratio", "a.rtt.p.within_35_ms.ratio"] {
            let share = figure(&figures, name).unwrap();
            prop_assert!((0.0..=1.0).contains(&share));
        }
    }
}
