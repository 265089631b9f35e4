// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any packets at the programs for what arrives (`bpf/inbound`), compiled for
//! this machine: windows, datagrams and the filter. Packets are right ones with
//! something unusual about them on purpose (fragments, extension headers, a VLAN,
//! padding, several made one, lengths of nothing, options of every kind), and
//! then some bytes of theirs are others.
//!
//! What must hold beyond "no crash": each program writes only what it is there
//! to write, checksums that were right stay right, and no lock is left taken.

mod frame;
mod native;

use frame::{Bytes, Frame};
use native::Programs;

/// Packets of one input.
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

/// Where two frames differ.
fn differences(before: &[u8], after: &[u8]) -> Vec<usize> {
    (0..before.len())
        .filter(|at| before[*at] != after[*at])
        .collect()
}

/// The sum of a frame's words, by which checksums are made (RFC 1071): it is the
/// same as long as each change is made up for in a checksum.
fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2);
    words
        .map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)))
        .fold(0, |sum, word| (sum + word) % 0xffff)
}

/// A window, the largest segment of a SYN, or the flags of what becomes a reset,
/// and the checksum.
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

/// ECN's two bits, and the checksum of IPv4.
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
