// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes any bytes as a capture, pcap or pcapng: reading it for a discipline (`weirgate aqm record
//! --capture`) and for a policy (`weirgate explain`).

use weirgate_aqm::Packet;
use weirgate_explain::{is_capture, read_capture};

#[path = "../../crates/workshop/src/frames.rs"]
mod frames;

/// More packets than any input can have, at 16 bytes each.
const MOST: usize = 4_096 / 16;

pub fn run(data: &[u8]) {
    let mut packets = 0;
    let read = frames::each(data, |packet| {
        packets += 1;
        planted(packet);
        assert!(packet.ecn <= 3);
        assert_eq!(packet.len, packet.wire);
        true
    });
    assert!(packets <= MOST, "{packets} packets");
    if let Err(mistake) = read {
        assert!(!mistake.is_empty());
    }
    let mut one = 0;
    let _ = frames::each(data, |_| {
        one += 1;
        false
    });
    assert_eq!(one, packets.min(1), "it ends when it is asked to");
    if is_capture(data) {
        assert!(read_capture(data).packets.len() <= MOST);
    }
}

/// The planted mistake: a marked packet of odd length, which no seed has.
#[cfg(feature = "planted")]
fn planted(packet: &Packet) {
    let marked = packet.ecn == 3 && packet.len % 2 == 1;
    assert!(!marked, "the planted mistake: {} bytes, marked", packet.len);
}

#[cfg(not(feature = "planted"))]
fn planted(_: &Packet) {}
