// SPDX-License-Identifier: Apache-2.0 OR MIT
//! L4S packets that come in bursts, as from a radio, in `aqm/dualpi2.c`.

use crate::support::{MS, link, packet, queue};
use weirgate_aqm::{Action, Packet, Queue};

const LEN: u32 = 1_500;
const ECT_1: u32 = 1;

/// Returns how many of 2,000 L4S packets are marked on a 20 Mbit/s link, where a packet takes 0.6
/// ms. They arrive at an empty queue in bursts of `of` packets, one burst every 10 ms.
fn marks_of_bursts(of: u64, params: &[(&str, u64)]) -> u32 {
    let mut all: Queue<()> = queue("dualpi2", &link(20_000_000), params);
    let mut marks = 0;
    for burst in 0..2_000 / of {
        let at = burst * 10 * MS;
        for number in 0..of {
            let came = Packet {
                ecn: ECT_1,
                ..packet(at + number * 20_000, LEN)
            };
            all.arrive(&came, 0, ());
        }
        for number in 0..of {
            let sent = all.depart(at + number * 600_000 + of * 20_000).sent;
            marks += u32::from(sent.expect("a packet").0.action == Action::Mark);
        }
    }
    marks
}

/// Bursts that leave the link idle in between are not marked once they have been detected; two
/// packets at once are not a burst. A standing queue is marked however its packets arrive.
#[test]
fn bursts_make_the_step_longer_and_a_queue_that_stands_does_not() {
    let never = [("bursts_ns", 0)];
    assert!(marks_of_bursts(8, &never) > 1_000, "the step alone");
    let marks = marks_of_bursts(8, &[]);
    assert!(
        marks < 100,
        "{marks} of 2,000, and those of the first bursts"
    );
    // The packets take 9.6 ms, and the step grows by at most 10 ms.
    let marks = marks_of_bursts(16, &[("bursts_ns", MS)]);
    assert!(marks > 1_000, "{marks}");

    let mut all: Queue<()> = queue("dualpi2", &link(20_000_000), &[]);
    let mut marks = 0;
    for number in 0..2_000_u64 {
        // Two packets at once, as often as the link sends two, behind a queue of 3 ms.
        let at = number / 2 * 1_200_000;
        let came = Packet {
            ecn: ECT_1,
            ..packet(at, LEN)
        };
        all.arrive(&came, 0, ());
        if number >= 5 {
            let sent = all.depart(at + number % 2 * 600_000).sent;
            marks += u32::from(sent.expect("a packet").0.action == Action::Mark);
        }
    }
    assert!(marks > 1_900, "{marks} of 1,995");
}
