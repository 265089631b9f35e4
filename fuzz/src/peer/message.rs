// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes any bytes as messages of a peer of `weirgate probe`: its own protocol, packets of a
//! train, and answers of servers of iperf3, irtt and sequences. What is read must not change when
//! it is written again, and every number must be within its bounds.

use std::time::Duration;
use weirgate_probe::{Arrival, Arrivals, DatagramReport, Message, Results, Train, granted};

pub fn run(data: &[u8]) {
    if let Ok(Some(message)) = Message::read(data) {
        planted(&message);
        let written = message.bytes();
        // Bytes after a message are padding; a greeting has zeros for it.
        let greeting = matches!(message, Message::Hello { .. });
        assert!(greeting || data.starts_with(&written));
        let again = Message::read(&written).expect("what was read is in range");
        assert_eq!(again.map(|again| again.bytes()), Some(written));
        match message {
            Message::Send { train, .. } | Message::Expect { train, .. }
                if train.check().is_ok() =>
            {
                assert!(u64::from(train.count) * u64::from(train.payload) <= 64 << 20);
                assert!(u64::from(train.count) * train.gap_ns <= 12_000_000_000);
            }
            // Waiting for an announced train takes no longer than a train.
            Message::Report { seen, .. } => assert!(seen.gap_ns <= 12e9),
            _ => {}
        }
    }
    arrivals(data);
    let sent = 1 << 40;
    if let Ok(results) = serde_json::from_slice::<Results>(data)
        && let Ok(Some(transfer)) = results.received(sent, Duration::from_secs(10))
    {
        assert!(transfer.bytes <= sent && transfer.time >= Duration::from_secs(5));
    }
    if let Ok(Some(interval)) = granted(data) {
        assert!(interval <= Duration::from_secs(1));
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(Some(report)) = DatagramReport::read(text)
    {
        assert!(report.sent.checked_add(report.received.bytes).is_some());
    }
}

/// Fuzzes packets of a train, in any order, at any time.
fn arrivals(data: &[u8]) {
    let mut arrivals = Arrivals::of(Train {
        id: 1,
        payload: 100,
        count: 40,
        gap_ns: 0,
    });
    for chunk in data.chunks_exact(20) {
        let long = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&chunk[at..at + 8]);
            u64::from_be_bytes(bytes)
        };
        let mut index = [0; 4];
        index.copy_from_slice(&chunk[..4]);
        let arrival = Arrival {
            index: u32::from_be_bytes(index),
            sent_ns: long(4),
            came_ns: long(12),
        };
        let taken = arrivals.take(arrival);
        assert!(taken.is_err() == (arrival.index >= 40));
    }
    assert!(arrivals.seen().received <= 40);
    let _ = arrivals.seen().check();
}

/// The planted mistake: a train with a number of packets that no seed has.
#[cfg(feature = "planted")]
fn planted(message: &Message) {
    if let Message::Expect { train, .. } = message {
        assert!(
            train.count != 137_201,
            "the planted mistake: 137201 packets"
        );
    }
}

#[cfg(not(feature = "planted"))]
fn planted(_: &Message) {}
