// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets that go to the L4S queue of DualPI2 by their code point, NQB (RFC 9956).

use crate::support::{MS, link, packet, queue};
use weirgate_aqm::{Action, Packet, Queue};

const LEN: u32 = 1_500;
const NQB: u32 = 45;

/// p', of 2^56 (`DUALPI2_ONE`).
fn base(queue: &Queue<impl Sized>) -> f64 {
    queue.var("probability").expect("a number") as f64 / (1_u64 << 56) as f64
}

/// The queue that a packet with an ECN field and a code point goes to is the L4S
/// An NQB packet goes to the L4S queue. A packet is in that queue if it leaves before a classic
/// packet that arrived first.
#[test]
fn nqb_goes_to_the_l4s_queue() {
    for (ecn, flow, params, first) in [
        (0, NQB, &[][..], true),
        (2, NQB, &[], true),
        (0, 46, &[], false),
        (0, NQB, &[("nqb_code", 64)], false),
        (1, 0, &[("nqb_code", 64)], true),
    ] {
        let mut all: Queue<u32> = queue("dualpi2", &link(10_000_000), params);
        all.arrive(&packet(0, LEN), 0, 1);
        let other = Packet {
            ecn,
            flow,
            ..packet(0, LEN)
        };
        all.arrive(&other, 0, 2);
        let sent = all.depart(MS).sent.expect("a packet").2;
        assert_eq!(sent == 2, first, "ECN field {ecn}, code point {flow}");
    }
}

/// NQB packets are dropped, or marked with ECT(0), as often as classic ones: the code point
/// improves delay alone. Their own delay marks none of them.
#[test]
fn nqb_is_no_way_around_the_classic_probability() {
    // Both queues take equal turns, and p' rises slowly while both are backlogged.
    let params = [
        ("scheduler", 1),
        ("classic_percent", 50),
        ("alpha", 1),
        ("beta", 1),
    ];
    for ecn in [0, 2] {
        let mut all: Queue<bool> = queue("dualpi2", &link(10_000_000), &params);
        let (mut looked, mut struck) = ([0_u32; 2], [0_u32; 2]);
        let mut now = 0;
        while base(&all) < 0.45 {
            now += MS;
            while all.packets() < 80 {
                for nqb in [false, true] {
                    let flow = if nqb { NQB } else { 0 };
                    all.arrive(
                        &Packet {
                            flow,
                            ecn,
                            ..packet(now, LEN)
                        },
                        0,
                        nqb,
                    );
                }
            }
            let gone = all.depart(now);
            for (_, nqb) in gone.dropped {
                looked[usize::from(nqb)] += 1;
                struck[usize::from(nqb)] += 1;
            }
            let (verdict, _, nqb) = gone.sent.expect("a packet");
            looked[usize::from(nqb)] += 1;
            if verdict.action == Action::Mark {
                assert_eq!(verdict.why(), "early", "marked by its own delay");
                struck[usize::from(nqb)] += 1;
            }
        }
        assert!(
            struck.iter().all(|count| *count > 400),
            "{struck:?} of {looked:?}"
        );
        let [classic, nqb] = [0, 1].map(|side| f64::from(struck[side]) / f64::from(looked[side]));
        // Four standard deviations of the difference of two such counts.
        let off = 4.0 * classic * (2.0 / f64::from(struck[0])).sqrt();
        assert!((classic - nqb).abs() < off, "{struck:?} of {looked:?}");
    }
}
