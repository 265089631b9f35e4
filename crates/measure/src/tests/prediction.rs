// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares predictions with arithmetic by hand.

use crate::predict::{Counting, Prediction, Shaper, ShaperClass, predict, thesis_tree};
use crate::sample;
use weirgate_experiment::{Buffer, Command, Direction, Experiment, Node, TrafficKind};
use weirgate_units::{Size, Span};

#[track_caller]
fn predicts(predictions: &[Prediction], metric: &str, value: f64, tolerance: f64) {
    let found = predictions
        .iter()
        .find(|prediction| prediction.metric == metric);
    let found = found.unwrap_or_else(|| panic!("no {metric} in {predictions:#?}"));
    assert!((found.value - value).abs() <= tolerance, "{found:#?}");
}

#[test]
fn predictions_of_an_idle_line_are_serialisation() {
    let mut experiment = sample::experiment(&[("a", 0, 10)]);
    experiment.probes = vec![sample::probe("p", 10)];
    let predictions = predict(&experiment, &experiment.arms[0], None);
    // 159 bytes at 512 and 2000 kbit/s, 4 ms fixed.
    predicts(
        &predictions,
        "a.rtt.p.min_ms",
        2.484_375 + 0.636 + 4.0,
        1e-6,
    );
    assert_eq!(predictions.len(), 3);
}

#[test]
fn predictions_of_an_upload_are_its_window() {
    let mut experiment = sample::experiment(&[("alone", 0, 60), ("upload", 60, 120)]);
    experiment.probes = vec![sample::probe("p", 120)];
    experiment.traffic = vec![
        sample::windowed("down", Direction::Down, 63712, &[(0, 120)]),
        sample::windowed("up", Direction::Up, 63712, &[(60, 120)]),
    ];
    let predictions = predict(&experiment, &experiment.arms[0], None);
    // Brouer 3.2: about 1800 of payload and headers alone, 440 beside an upload.
    predicts(&predictions, "alone.iprate.down.mean_kbit", 1762.0, 5.0);
    // 43 segments of 13568 bits at what probes (8.5) and 36 / 1.5 ACKs/s of two
    // cells (20) leave of 512 kbit/s; Brouer measured 1150 with fewer ACKs.
    predicts(&predictions, "upload.rtt.p.mean_ms", 1211.0, 5.0);
    // The exchange's queue is smaller than that window. The transfer lost packets before, and the
    // mean includes the time in which the window grew back.
    predicts(&predictions, "upload.iprate.down.p50_kbit", 440.0, 22.0);
    predicts(&predictions, "upload.goodput.down.p50_kbit", 440.0, 22.0);
    // NewReno needs 44 round trips of 1.2 s for that, and a phase twice as long for a median.
    let mut reno = experiment.clone();
    if let TrafficKind::Tcp(tcp) = &mut reno.traffic[0].kind {
        tcp.congestion = Some("reno".into());
    }
    let short = predict(&reno, &reno.arms[0], None);
    assert!(
        short
            .iter()
            .all(|p| !p.metric.starts_with("upload.iprate.down"))
    );
    reno.phases[1].end = Span::from_secs(200);
    for run in reno.traffic.iter_mut().map(|traffic| &mut traffic.runs[0]) {
        run.1 = Span::from_secs(200);
    }
    reno.probes = vec![sample::probe("p", 200)];
    let long = predict(&reno, &reno.arms[0], None);
    predicts(&long, "upload.iprate.down.p50_kbit", 440.0, 22.0);
    // An 8 Mbit/s line, whose ACKs alone would take much of the upstream.
    let mut fast = experiment.clone();
    fast.topology.line.down.rate = weirgate_units::Rate::kbit(8000);
    fast.topology.line.down.buffer = Buffer::Bytes(Size::bytes(160_000));
    if let TrafficKind::Tcp(tcp) = &mut fast.traffic[1].kind {
        tcp.window = None;
    }
    let predictions = predict(&fast, &fast.arms[0], None);
    predicts(&predictions, "upload.iprate.up.mean_kbit", 430.0, 20.0);
    // A window that exceeds every buffer: the buffer determines the longest round trip.
    experiment.traffic = vec![sample::windowed("up", Direction::Up, 700_000, &[(0, 120)])];
    let predictions = predict(&experiment, &experiment.arms[0], None);
    predicts(&predictions, "upload.rtt.p.max_ms", 134.0 * 26.5 + 7.1, 1.0);
    assert!(
        predictions
            .iter()
            .all(|prediction| prediction.metric != "upload.rtt.p.mean_ms")
    );
}

#[test]
fn a_window_that_losses_cut_is_not_predicted() {
    let mut experiment = sample::experiment(&[("a", 0, 60)]);
    experiment.probes = vec![sample::probe("p", 60)];
    experiment.traffic = vec![
        sample::windowed("down", Direction::Down, 750_000, &[(0, 60)]),
        sample::windowed("up", Direction::Up, 63_712, &[(0, 60)]),
    ];
    assert_eq!(predict(&experiment, &experiment.arms[0], None), []);
}

#[test]
fn staggered_uploads_are_predicted_one_by_one() {
    let mut experiment = sample::experiment(&[("n1", 0, 16), ("n2", 16, 32)]);
    experiment.settle = Span::from_secs(5);
    experiment.probes = vec![sample::probe("p", 32)];
    let mut up = sample::windowed("up", Direction::Up, 18750, &[(0, 32)]);
    up.count = 2;
    up.stagger = Span::from_secs(16);
    experiment.traffic = vec![up];
    let predictions = predict(&experiment, &experiment.arms[0], None);
    // 12 and 24 segments, less one, at 26.5 ms and a little for probes; Brouer
    // 3.2: 300 ms per upload.
    predicts(&predictions, "n1.rtt.p.mean_ms", 11.0 * 26.95 + 3.1, 1.0);
    predicts(&predictions, "n2.rtt.p.mean_ms", 23.0 * 26.95 + 3.1, 1.0);
}

#[test]
fn a_phase_in_which_something_changes_has_no_prediction() {
    let mut experiment = sample::experiment(&[("a", 0, 60)]);
    experiment.probes = vec![sample::probe("p", 60)];
    experiment.traffic = vec![sample::windowed("up", Direction::Up, 63712, &[(0, 30)])];
    assert_eq!(predict(&experiment, &experiment.arms[0], None), []);
    let mut shaped = experiment.clone();
    shaped.traffic.clear();
    shaped.arms[0].policy = Some("x.toml".into());
    assert_eq!(predict(&shaped, &shaped.arms[0], None), []);
}

/// ADSL-6.1 and 6.2: bulk, 100 and 1000 datagrams of 40 bytes per second.
fn mixed(interval_us: u64) -> Experiment {
    let phases = [("bulk", 0, 60), ("udp", 60, 180), ("after", 180, 400)];
    let mut experiment = sample::experiment(&phases);
    let mut probe = sample::probe("interactive", 400);
    probe.class = Some("1:10".into());
    experiment.probes = vec![probe];
    let mut udp = sample::udp("udp", interval_us, 40, &[(60, 180)]);
    udp.class = Some("1:50".into());
    experiment.traffic = vec![
        sample::windowed("up", Direction::Up, 63712, &[(0, 400)]),
        udp,
    ];
    experiment
}

#[test]
fn a_naive_shaper_is_predicted_to_lose_the_queue_and_to_regain_it() {
    let experiment = mixed(10_000);
    let shaper = Shaper {
        rate_bits: 450_000.0,
        counting: Counting::Length {
            extra: 0,
            leaf_bytes: None,
        },
        classes: Vec::new(),
    };
    let predictions = predict(&experiment, &experiment.arms[0], Some(&shaper));
    // 6.67 probes/s of 84 bytes: 4480 bit/s as counted, 8480 on the wire. Load
    // (450 - 32 - 4.48) / 12 * 13.568 + 84.8 + 8.48 = 560.8 kbit/s. All 44
    // segments in the modem: 44 * 13568 / (512 - 84.8 - 8.48) = 1425.7 ms.
    predicts(
        &predictions,
        "udp.rtt.interactive.max_ms",
        1425.7 + 7.1,
        1.0,
    );
    // Afterwards: (450 - 4.48) / 12 * 13.568 + 8.48 = 512.2 kbit/s, so it never drains.
    assert!(
        predictions
            .iter()
            .all(|prediction| !prediction.metric.starts_with("after"))
    );
    let with_leaf = |leaf_bytes| Shaper {
        counting: Counting::Length {
            extra: 14,
            leaf_bytes,
        },
        ..shaper.clone()
    };
    // (450 - 5.227) / 12.112 * 13.568 + 8.48 = 506.72 kbit/s leave 5.28. The other packets leave in
    // 1.4 s; 0.9 * 44 full packets at 5.28 kbit/s take 101.7 s.
    let predictions = predict(&experiment, &experiment.arms[0], Some(&with_leaf(None)));
    predicts(
        &predictions,
        "after.recovery.interactive.s",
        1.43 + 101.7,
        1.0,
    );
    // 28125 bytes hold 18 packets of 1514, the 19th is lost: 48.8 s.
    let predictions = predict(
        &experiment,
        &experiment.arms[0],
        Some(&with_leaf(Some(28_125))),
    );
    predicts(
        &predictions,
        "after.recovery.interactive.s",
        1.43 + 48.8,
        0.5,
    );
}

#[test]
fn an_exact_gate_is_predicted_to_hold_one_packet_and_the_shares() {
    let experiment = mixed(1_000);
    let class = |name: &str, rate_bits, priority| ShaperClass {
        name: name.into(),
        rate_bits,
        priority,
    };
    let shaper = Shaper {
        rate_bits: 512_000.0,
        counting: Counting::Wire,
        classes: vec![
            class("1:10", 102_000.0, 0),
            class("1:30", 204_000.0, 4),
            class("1:50", 204_000.0, 5),
        ],
    };
    let predictions = predict(&experiment, &experiment.arms[0], Some(&shaper));
    // Brouer 6.2.4: 241 packets/s; 7.1: one full packet.
    predicts(&predictions, "udp.pps.udp.mean", 240.6, 0.1);
    predicts(
        &predictions,
        "udp.rtt.interactive.max_ms",
        26.5 + 7.12,
        0.01,
    );
}

/// ADSL-7.5 to 7.9 with the thesis's tree: probes in 1:10 beside datagrams of
/// 40 bytes every millisecond in 1:50, on 513.4 kbit/s.
fn behind_tree(settle_s: u64, hysteresis: bool, upload: bool) -> Vec<Prediction> {
    let mut experiment = sample::experiment(&[("a", 0, 70)]);
    experiment.settle = Span::from_secs(settle_s);
    let mut probe = sample::probe("p", 70);
    probe.dscp = "EF".parse().unwrap();
    probe.interval = Span::from_micros(61_300);
    experiment.probes = vec![probe];
    experiment.traffic = vec![sample::udp("udp", 1_000, 40, &[(0, 70)])];
    if upload {
        let up = sample::tcp("up", Node::Host(1), Node::Server(1), &[(0, 70)]);
        experiment.traffic.push(up);
    } else {
        experiment.topology.line.up.rate = weirgate_units::Rate::bits_per_second(513_400);
    }
    let commands = thesis_tree(2000);
    let shaper = Shaper::from_commands(&commands);
    let arm = &mut experiment.arms[0];
    arm.kernel_options = vec!["highres=off".into()];
    if hysteresis {
        let on = ("sch_htb.htb_hysteresis".to_owned(), "1".to_owned());
        arm.module_parameters = vec![on];
    }
    arm.commands = commands
        .into_iter()
        .map(|argv| Command {
            node: Node::Gateway,
            argv,
        })
        .collect();
    predict(&experiment, &experiment.arms[0], shaper.as_ref())
}

#[test]
fn a_stream_that_wakes_htb_adds_a_packet_and_an_interval_evenly() {
    let predictions = behind_tree(25, false, false);
    // A packet of 106 bytes takes 1.652 ms. The probe finds one on the line that HTB sent up to an
    // interval late: it takes 0 to 2.652 ms longer than alone.
    let alone = 159.0 * 8.0 / 513.4 + 159.0 * 8.0 / 2000.0 + 4.0;
    predicts(&predictions, "a.rtt.p.min_ms", alone, 0.1);
    predicts(&predictions, "a.rtt.p.mean_ms", alone + 2.652 / 2.0, 0.15);
    predicts(&predictions, "a.rtt.p.p95_ms", alone + 0.95 * 2.652, 0.15);
    // The initial burst, for which Brouer 7.6 has 34.78 ms.
    predicts(&predictions, "rtt.p.max_ms", alone + 33.0, 3.0);
}

#[test]
fn hysteresis_makes_bursts_of_several_classes() {
    let value = |predictions: &[Prediction], metric: &str| {
        let found = predictions.iter().find(|one| one.metric == metric);
        found.unwrap_or_else(|| panic!("no {metric}")).value
    };
    let off = behind_tree(25, false, true);
    let on = behind_tree(25, true, true);
    // Brouer 7.4: 61.0 and 128 ms at most.
    let most = "a.rtt.p.max_ms";
    assert!((56.0..65.0).contains(&value(&off, most)), "{off:#?}");
    assert!((115.0..135.0).contains(&value(&on, most)), "{on:#?}");
}

#[test]
fn what_a_tree_does_to_a_download_is_not_predicted() {
    let mut experiment = sample::experiment(&[("a", 0, 20)]);
    experiment.probes = vec![sample::probe("p", 20)];
    experiment.traffic = vec![sample::windowed("d", Direction::Down, 63_712, &[(0, 20)])];
    let commands = thesis_tree(2000);
    let shaper = Shaper::from_commands(&commands);
    let argv = |argv| Command {
        node: Node::Gateway,
        argv,
    };
    experiment.arms[0].commands = commands.into_iter().map(argv).collect();
    assert_eq!(
        predict(&experiment, &experiment.arms[0], shaper.as_ref()),
        []
    );
}
