// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any bytes as a message of `weirgate probe`: what is read is what is written
//! again, and what a train asks for is bounded.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weirgate_probe::{Arrival, Message, seen};

fuzz_target!(|data: &[u8]| {
    if let Some(message) = Message::read(data) {
        planted(&message);
        let written = message.bytes();
        // What is beyond a message is padding, which a greeting has of zeros.
        let greeting = matches!(message, Message::Hello { .. });
        assert!(greeting || data.starts_with(&written));
        let again = Message::read(&written).expect("what was read is a message");
        assert_eq!(again.bytes(), written);
        if let Message::Send { train, .. } | Message::Expect { train, .. } = message
            && train.bearable()
        {
            assert!(u64::from(train.count) * u64::from(train.payload) <= 64 << 20);
        }
    }
    // Any arrivals, in any order, at any time.
    let arrivals: Vec<Arrival> = data
        .chunks_exact(20)
        .map(|chunk| {
            let long = |at: usize| {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&chunk[at..at + 8]);
                u64::from_be_bytes(bytes)
            };
            let mut index = [0; 4];
            index.copy_from_slice(&chunk[..4]);
            Arrival {
                index: u32::from_be_bytes(index),
                sent_ns: long(4),
                came_ns: long(12),
            }
        })
        .collect();
    let told = seen(&arrivals);
    assert!(told.received as usize <= arrivals.len());
});

/// The planted mistake: a train of one number of packets, in none of the seeds.
#[cfg(feature = "planted")]
fn planted(message: &Message) {
    if let Message::Expect { train, .. } = message {
        assert!(train.count != 137_201, "the planted mistake: 137201 packets");
    }
}

#[cfg(not(feature = "planted"))]
fn planted(_: &Message) {}
