// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the programs that keep connections in order when they change class, with the kernel's test
//! runs.

use super::filter::{Chance, frame};
use super::window::{ACK, SYN, Segment, window};
use std::thread::sleep;
use std::time::Duration;
use weirgate_bpf::{Order, OrderTotals};

const FIN: u8 = 1;
const RST: u8 = 4;

const WEB: u32 = 0x2_0010;
const BULK: u32 = 0x2_0011;

/// A full segment's payload.
const FULL: usize = 1_448;

fn loaded() -> Order {
    Order::load().unwrap_or_else(|error| panic!("{error}"))
}

/// One connection with outgoing data.
struct Connection<'o> {
    order: &'o Order,
    version: u8,
    port: u16,
    /// The sequence number of the next byte.
    next: u32,
}

impl Connection<'_> {
    fn segment(&self, out: bool) -> Segment<'static> {
        Segment {
            version: self.version,
            port: self.port,
            out,
            flags: ACK,
            seq: 1,
            ack: 1,
            window: 60_000,
            options: &[],
            payload: 0,
        }
    }

    /// Sends a segment with this sequence number, and returns its class afterwards.
    fn leaves(&self, segment: &Segment<'_>, first: u32, class: u32) -> u32 {
        let frame = Segment {
            seq: first,
            ..*segment
        }
        .frame();
        let (after, class) = self.order.run(false, &frame, class).expect("a run");
        assert!(after == frame, "what leaves is not written to");
        class
    }

    /// Sends the next data segment, for which the tables choose a class; returns its class
    /// afterwards.
    fn sends(&mut self, class: u32) -> u32 {
        let segment = Segment {
            payload: FULL,
            ..self.segment(true)
        };
        let went = self.leaves(&segment, self.next, class);
        self.next = self.next.wrapping_add(FULL as u32);
        went
    }

    /// Returns the window that the sender sees in an acknowledgement of this number.
    fn acknowledged(&self, ack: u32) -> u16 {
        let segment = Segment {
            ack,
            ..self.segment(false)
        };
        let frame = segment.frame();
        let (after, class) = self.order.run(true, &frame, 7).expect("a run");
        assert_eq!(class, 7, "what arrives keeps its class");
        window(&segment, &frame, &after)
    }

    /// Makes its handshake, started by either side, with the number of its first byte.
    fn shakes(&mut self, first: u32, begins: bool) {
        let flags = if begins { SYN } else { SYN | ACK };
        let syn = Segment {
            flags,
            ..self.segment(true)
        };
        assert_eq!(self.leaves(&syn, first, BULK), BULK);
        self.next = first.wrapping_add(1);
        let answer = Segment {
            flags: if begins { SYN | ACK } else { ACK },
            ack: self.next,
            ..self.segment(false)
        };
        let frame = answer.frame();
        let (after, _) = self.order.run(true, &frame, 0).expect("a run");
        assert!(after == frame, "nothing is written to a handshake");
    }
}

fn connection(order: &Order, version: u8, port: u16) -> Connection<'_> {
    Connection {
        order,
        version,
        port,
        next: 0,
    }
}

/// From the first segment for another class to the first one that is in it; also if sequence
/// numbers wrap, and if the other side starts the connection.
#[test]
#[ignore = "runs in the lab's kernel"]
fn moves() {
    let order = loaded();
    let mut expected = OrderTotals::default();
    for version in [4, 6] {
        for (port, first, begins) in [
            (1_001, 5_000, true),
            (1_002, 5_000, false),
            (1_003, u32::MAX - 4_000, true),
            (1_004, (1 << 31) - 4_000, false),
        ] {
            let mut one = connection(&order, version, port);
            one.shakes(first, begins);
            let begin = one.next;
            // The handshake's class has no backlog.
            assert_eq!(one.sends(WEB), WEB);
            for _ in 0..3 {
                assert_eq!(one.sends(WEB), WEB);
            }
            let full = FULL as u32;
            assert_eq!(one.acknowledged(begin.wrapping_add(full)), 60_000);
            // Data for the other class stays in the old one. Two segments do not stop the sender.
            assert_eq!((one.sends(BULK), one.sends(BULK)), (WEB, WEB));
            assert_eq!(one.acknowledged(begin.wrapping_add(2 * full)), 60_000);
            assert_eq!(one.sends(BULK), WEB);
            assert_eq!(one.acknowledged(begin.wrapping_add(3 * full)), 0);
            // A retransmission stays too, and proves nothing.
            let again = Segment {
                payload: FULL,
                ..one.segment(true)
            };
            let lost = begin.wrapping_add(3 * full);
            assert_eq!(one.leaves(&again, lost, BULK), WEB);
            assert_eq!(one.acknowledged(lost), 0);
            assert_eq!(one.acknowledged(one.next.wrapping_sub(1)), 0);
            // A pure acknowledgement moves at once.
            let bare = one.segment(true);
            assert_eq!(one.leaves(&bare, one.next, BULK), BULK);
            let reset = Segment {
                flags: RST,
                ..one.segment(true)
            };
            assert_eq!(one.leaves(&reset, one.next, BULK), WEB);
            // The last byte's acknowledgement opens the window again, and the connection moves.
            assert_eq!(one.acknowledged(one.next), 60_000);
            assert_eq!(one.sends(BULK), BULK);
            assert_eq!(one.acknowledged(one.next.wrapping_sub(full)), 60_000);
            // A FIN is part of the sequence too.
            let end = Segment {
                flags: ACK | FIN,
                ..one.segment(true)
            };
            assert_eq!(one.acknowledged(one.next), 60_000);
            assert_eq!(one.leaves(&end, one.next, BULK), BULK);
            assert_eq!(one.sends(WEB), BULK);
            expected.moved += 2;
            expected.closed += 3;
        }
    }
    assert_eq!(order.totals().expect("a map"), expected);
}

/// A connection that returns to its class before everything is acknowledged has not moved.
#[test]
#[ignore = "runs in the lab's kernel"]
fn returns() {
    let order = loaded();
    for version in [4, 6] {
        let mut one = connection(&order, version, 2_000);
        one.shakes(1, true);
        let begin = one.next;
        one.sends(WEB);
        for _ in 0..6 {
            assert_eq!((one.sends(BULK), one.sends(BULK)), (WEB, WEB));
            assert_eq!(one.sends(WEB), WEB);
            assert_eq!(one.acknowledged(begin + 1), 60_000);
        }
        // Afterwards it is as before.
        for _ in 0..3 {
            assert_eq!(one.sends(BULK), WEB);
        }
        assert_eq!(one.acknowledged(begin + 2), 0);
    }
}

/// Missing information does not keep a connection in its old class forever.
#[test]
#[ignore = "runs in the lab's kernel"]
fn ends() {
    let order = loaded();
    for version in [4, 6] {
        // No acknowledgement was ever seen.
        let mut one = connection(&order, version, 3_000);
        assert_eq!(one.sends(WEB), WEB);
        assert_eq!(one.sends(BULK), BULK);
        // The acknowledged data took another path.
        let mut one = connection(&order, version, 3_001);
        one.shakes(1, true);
        one.sends(WEB);
        assert_eq!(one.acknowledged(one.next + 100_000), 60_000);
        assert_eq!(one.sends(BULK), BULK);
        // Another connection with the same ports.
        let mut one = connection(&order, version, 3_002);
        one.shakes(1, true);
        one.sends(WEB);
        one.sends(WEB);
        one.shakes(900_000_000, true);
        assert_eq!(one.sends(BULK), BULK);
        assert_eq!(one.sends(WEB), BULK);
        // It takes too long.
        let mut one = connection(&order, version, 3_003);
        one.shakes(1, false);
        one.sends(WEB);
        for _ in 0..3 {
            assert_eq!(one.sends(BULK), WEB);
        }
        sleep(Duration::from_millis(1_900));
        assert_eq!(one.acknowledged(3), 0);
        assert_eq!(one.sends(BULK), WEB);
        sleep(Duration::from_millis(101));
        assert_eq!(one.acknowledged(4), 60_000);
        assert_eq!(one.sends(BULK), BULK);
        assert_eq!(one.acknowledged(5), 60_000);
    }
    assert_eq!(order.totals().expect("a map").late, 2);
}

/// Any frame: only a window and its checksum are ever written, and the map does not exceed its
/// maximum size.
#[test]
#[ignore = "runs in the lab's kernel"]
fn any_packet() {
    let order = loaded();
    for version in [4, 6] {
        for protocol in [17, 47] {
            let other = frame(version, protocol, 0, 5_000, 600);
            for arriving in [false, true] {
                let (after, class) = order.run(arriving, &other, BULK).expect("a run");
                assert!(after == other && class == BULK);
            }
        }
    }
    assert_eq!(order.flows().expect("a map"), 0);
    let mut chance = Chance(77);
    let mut closed = 0;
    for _ in 0..30_000 {
        let port = 1 + chance.below(12) as u16;
        let segment = Segment {
            version: 4 + 2 * (port % 2) as u8,
            port,
            out: chance.below(2) == 0,
            flags: [ACK, ACK, ACK, ACK, ACK | 8, SYN | ACK, FIN | ACK, RST]
                [chance.below(8) as usize],
            seq: chance.below(40_000) as u32,
            ack: chance.below(40_000) as u32,
            window: chance.below(1 << 16) as u16,
            options: &[],
            payload: chance.below(3) as usize * 724,
        };
        let mut bytes = segment.frame();
        let spoiled = chance.spoils(&mut bytes);
        let class = [WEB, WEB, BULK][chance.below(3) as usize];
        let Ok((after, went)) = order.run(!segment.out, &bytes, class) else {
            assert!(spoiled, "the kernel runs what is whole");
            continue;
        };
        assert!(went == class || segment.out && [WEB, BULK].contains(&went));
        assert!(!segment.out || after == bytes);
        if after != bytes && !spoiled {
            assert_eq!(window(&segment, &bytes, &after), 0);
            closed += 1;
        }
        let differs = (0..bytes.len()).filter(|at| bytes[*at] != after[*at]);
        assert!(differs.count() <= 4);
    }
    println!("{closed} windows closed, {:?}", order.totals());
    assert!(closed > 100, "{closed}");
    for port in 0..40_000 {
        let mut one = connection(&order, 4 + 2 * (port % 2) as u8, port);
        one.sends(WEB);
    }
    let known = order.flows().expect("a map");
    println!("{known} directions are known");
    assert!((8_000..=16_384).contains(&known), "{known}");
}
