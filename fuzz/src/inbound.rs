// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes the programs for arriving packets (`bpf/inbound`), compiled for this machine: windows,
//! datagrams and the filter. Packets are valid ones with deliberate peculiarities: fragments,
//! extension headers, a VLAN, padding, several segments in one packet, lengths of 0, and options of
//! every kind. Then some of their bytes are changed.
//!
//! Besides "no crash", this must hold: each program changes only the fields that it is meant to
//! change, correct checksums remain correct, and no lock remains held.

mod frame;
mod native;

use frame::{Bytes, Frame};
use native::Programs;

/// The maximum number of packets of one input.
const MOST: usize = 200;

pub fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let mut programs = Programs::fresh(&mut bytes);
    for _ in 0..MOST {
        if bytes.0.is_empty() {
            break;
        }
        let mut frame = Frame::read(&mut bytes);
        programs.look(&frame);
        let before = frame.bytes.clone();
        programs.window(&mut frame);
        windows_only(&before, &frame, programs.resets);
        if frame.out {
            continue;
        }
        let before = frame.bytes.clone();
        programs.udp(&mut frame);
        assert_eq!(before, frame.bytes, "a datagram is not written to");
        programs.filter(&mut frame);
        marks_only(&before, &frame);
    }
    assert_eq!(programs.missed(), 0, "a lock was left taken");
}

/// Returns the offsets at which two frames differ.
fn differences(before: &[u8], after: &[u8]) -> Vec<usize> {
    (0..before.len())
        .filter(|at| before[*at] != after[*at])
        .collect()
}

/// Returns the sum of a frame's words, from which checksums are computed (RFC 1071). It does not
/// change if a checksum compensates for each change.
fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2);
    words
        .map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)))
        .fold(0, |sum, word| (sum + word) % 0xffff)
}

/// Checks that only a window, the maximum segment size of a SYN, or the flags of a packet that
/// becomes a reset changed, and the checksum.
fn windows_only(before: &[u8], frame: &Frame, resets: bool) {
    let differs = differences(before, &frame.bytes);
    assert!(differs.len() <= 6, "{differs:?} of {before:?}");
    assert!(
        frame.out || resets || differs.is_empty(),
        "what arrives is not written to"
    );
    assert!(
        differs.iter().all(|at| *at >= frame.network + 20),
        "{differs:?}"
    );
    let what = if cfg!(feature = "planted") {
        "the planted mistake: "
    } else {
        ""
    };
    assert_eq!(
        sum(before),
        sum(&frame.bytes),
        "{what}a checksum, {differs:?} of {before:?}"
    );
}

/// Checks that only the ECN bits changed, and the checksum of IPv4.
fn marks_only(before: &[u8], frame: &Frame) {
    let at = frame.network;
    let differs = differences(before, &frame.bytes);
    let may = [at + 1, at + 10, at + 11];
    assert!(
        differs.iter().all(|one| may.contains(one)),
        "{differs:?} of {before:?}"
    );
    if frame.protocol == 0x0800 {
        assert_eq!(sum(before), sum(&frame.bytes), "{differs:?} of {before:?}");
    } else {
        assert!(
            differs.iter().all(|one| *one == at + 1),
            "{differs:?} of {before:?}"
        );
    }
}
