// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the ACK filter of BPF engines drops: only what a later acknowledgement of the connection
//! says as well.

use proptest::prelude::*;
use std::collections::VecDeque;
use weirgate_aqm::{AckFlow, AckSegment, AckStep, AcksKept};

/// A queue of one connection's packets, each with a place of its own.
struct Waiting {
    kept: AcksKept,
    flow: Option<AckFlow>,
    /// Place, time of arrival, and the number of the segment that is there.
    queue: VecDeque<(u32, u64, usize)>,
    places: u32,
    left: Vec<usize>,
}

impl Waiting {
    fn new(kept: AcksKept) -> Self {
        Self {
            kept,
            flow: None,
            queue: VecDeque::new(),
            places: 0,
            left: Vec::new(),
        }
    }

    fn at(&self, place: u32, arrived_ns: u64) -> Option<usize> {
        let mut all = self.queue.iter();
        all.position(|one| (one.0, one.1) == (place, arrived_ns))
    }

    fn arrive(&mut self, number: usize, now: &AckSegment) {
        let at_ns = number as u64;
        let mut flow = self.flow.unwrap_or_else(|| AckFlow::new(now));
        let last = self.at(flow.last, flow.last_ns);
        let before = self.at(flow.before, flow.before_ns);
        match (flow.decide(now, self.kept), last, before) {
            (AckStep::Replace, Some(last), _) => {
                self.queue[last].2 = number;
                flow.replaced(now);
            }
            (AckStep::Shift, Some(last), Some(before)) => {
                self.queue[before].2 = self.queue[last].2;
                self.queue[last].2 = number;
                flow.replaced(now);
            }
            _ => {
                // Few places, which are used again and again.
                self.places = self.places % 8 + 1;
                flow.queued(now, self.places, at_ns);
                self.queue.push_back((self.places, at_ns, number));
            }
        }
        self.flow = Some(flow);
    }

    fn depart(&mut self) {
        let left = self.queue.pop_front();
        self.left.extend(left.map(|one| one.2));
    }
}

/// Returns which of the segments leave if all of them wait.
fn left(kept: AcksKept, segments: &[AckSegment]) -> Vec<usize> {
    let mut waiting = Waiting::new(kept);
    for (number, segment) in segments.iter().enumerate() {
        waiting.arrive(number, segment);
    }
    for _ in segments {
        waiting.depart();
    }
    waiting.left
}

fn pure(ack: u32) -> AckSegment {
    AckSegment {
        ack,
        stamp: 0,
        echo: 0,
        form: AckSegment::form(5, 0x10, 0),
    }
}

#[test]
fn so_many_wait() {
    let rising: Vec<AckSegment> = (1..=6).map(|number| pure(number * 1_448)).collect();
    assert_eq!(left(AcksKept::One, &rising), [5]);
    assert_eq!(left(AcksKept::Two, &rising), [4, 5]);
    assert_eq!(left(AcksKept::All, &rising), [0, 1, 2, 3, 4, 5]);
    // The numbers wrap around.
    let around: Vec<AckSegment> = (0..4)
        .map(|at| pure(0xffff_ff00_u32.wrapping_add(at * 100)))
        .collect();
    assert_eq!(left(AcksKept::One, &around), [3]);
}

#[test]
fn what_says_more_is_kept() {
    let with = |form: u32, ack: u32| AckSegment { form, ..pure(ack) };
    let cases = [
        (
            "duplicates",
            vec![pure(7), pure(7), pure(7), pure(7), pure(9)],
        ),
        ("ECE", vec![pure(7), with(AckSegment::form(5, 0x50, 0), 9)]),
        ("CWR", vec![pure(7), with(AckSegment::form(5, 0x90, 0), 9)]),
        ("AE", vec![pure(7), with(AckSegment::form(5, 0x110, 0), 9)]),
        ("CE", vec![with(AckSegment::form(5, 0x10, 3), 7), pure(9)]),
        (
            "another length",
            vec![with(AckSegment::form(8, 0x10, 0), 7), pure(9)],
        ),
        ("data between", vec![pure(7), with(0, 8), pure(9)]),
        ("an older one", vec![pure(9), pure(7)]),
    ];
    for (what, segments) in cases {
        let all: Vec<usize> = (0..segments.len()).collect();
        for kept in [AcksKept::One, AcksKept::Two] {
            assert_eq!(left(kept, &segments), all, "{what}");
        }
    }
    let stamped = |ack, stamp, echo| AckSegment {
        stamp,
        echo,
        ..pure(ack)
    };
    let newer = [stamped(7, 20, 5), stamped(8, 19, 5), stamped(9, 19, 4)];
    assert_eq!(left(AcksKept::One, &newer), [0, 1, 2]);
}

fn segment() -> impl Strategy<Value = AckSegment> {
    let form = prop::sample::select(vec![
        0,
        AckSegment::form(5, 0x10, 0),
        AckSegment::form(5, 0x10, 0),
        AckSegment::form(5, 0x10, 0),
        AckSegment::form(5, 0x50, 0),
        AckSegment::form(8, 0x10, 2),
    ]);
    (0_u32..6, 0_u32..3, 0_u32..3, form).prop_map(|(step, stamp, echo, form)| AckSegment {
        ack: step,
        stamp,
        echo,
        form,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4_000) })]

    /// Whatever arrives and leaves: packets leave in the order of arrival. Each dropped one is a
    /// pure acknowledgement that is the first with its number, and one that leaves later has its
    /// form, acknowledges more, and has no older timestamps.
    #[test]
    fn only_the_superfluous_is_dropped(
        steps in prop::collection::vec((segment(), 0_usize..3), 1..60),
        one in any::<bool>(),
        wrap in any::<bool>(),
    ) {
        let mut waiting = Waiting::new(if one { AcksKept::One } else { AcksKept::Two });
        let mut ack = if wrap { u32::MAX - 9 } else { 1_000 };
        let mut segments: Vec<AckSegment> = Vec::new();
        for (number, (made, departures)) in steps.into_iter().enumerate() {
            // A step of 5 goes back by one.
            ack = ack.wrapping_add(if made.ack == 5 { u32::MAX } else { made.ack });
            let now = AckSegment { ack, ..made };
            segments.push(now);
            waiting.arrive(number, &now);
            for _ in 0..departures {
                waiting.depart();
            }
        }
        while !waiting.queue.is_empty() {
            waiting.depart();
        }
        prop_assert!(waiting.left.is_sorted(), "{:?}", waiting.left);
        let no_older = |now: u32, before: u32| now.wrapping_sub(before) as i32 >= 0;
        for (number, gone) in segments.iter().enumerate() {
            if waiting.left.contains(&number) {
                continue;
            }
            prop_assert!(gone.form != 0);
            prop_assert!(number == 0 || segments[number - 1].ack != gone.ack);
            let instead = waiting.left.iter().find(|later| **later > number);
            let instead = &segments[*instead.expect("another one")];
            prop_assert_eq!(instead.form, gone.form);
            prop_assert!(instead.ack != gone.ack && no_older(instead.ack, gone.ack));
            prop_assert!(no_older(instead.stamp, gone.stamp) && no_older(instead.echo, gone.echo));
        }
    }
}
