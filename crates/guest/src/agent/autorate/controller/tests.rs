// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::{Change, Controller, LOAD_NS, Limits, PING_NS, PINGERS, Pinger, Why};

const LIMITS: Limits = Limits {
    least: 2_000.0,
    base: 8_000.0,
    most: 12_000.0,
};
const MS: u64 = 1_000_000;

/// A controller of the downstream, with its echo replies and load at simulated times.
struct Line {
    controller: Controller,
    at_ns: u64,
    asked: usize,
}

impl Line {
    fn new() -> Self {
        Self {
            controller: Controller::new([None, Some(LIMITS)], 12_000.0),
            at_ns: 0,
            asked: 0,
        }
    }

    fn kbit(&self) -> f64 {
        self.controller.sides[1].as_ref().unwrap().kbit
    }

    /// Simulates `ms` milliseconds with this round-trip time. `load` of the downstream rate is
    /// used, and half a megabit per second upstream.
    fn pass(&mut self, ms: u64, round_trip_ms: u64, load: f64) -> Vec<Change> {
        let mut changes = Vec::new();
        let end_ns = self.at_ns + ms * MS;
        while self.at_ns < end_ns {
            self.at_ns += PING_NS;
            let trip = round_trip_ms * MS;
            changes.extend(
                self.controller
                    .answer(self.at_ns, self.asked % PINGERS, trip),
            );
            self.asked += 1;
            if self.at_ns.is_multiple_of(LOAD_NS) {
                let achieved = [500.0, load * self.kbit()];
                changes.extend(self.controller.load(self.at_ns, achieved));
            }
        }
        changes
    }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6 * b.abs().max(1.0)
}

#[test]
fn a_baseline_falls_at_once_and_rises_slowly() {
    let mut pinger = Pinger::default();
    assert!(close(pinger.late_ms(20.0, true), 0.0));
    // 0.1 * 20 + 0.9 * 10, and 10 less than that.
    assert!(close(pinger.late_ms(10.0, true), -1.0));
    assert!(close(pinger.late_ms(111.0, false), 111.0 - 11.1));
    assert!(close(pinger.baseline_ms.unwrap(), 11.1));
    // Only replies without load update the average.
    assert!(close(pinger.quiet_ms, -0.095));
}

#[test]
fn a_rate_rises_by_a_twenty_fifth_at_high_load_up_to_the_most() {
    let mut line = Line::new();
    let changes = line.pass(1_000, 20, 0.9);
    let whys: Vec<Why> = changes.iter().map(|one| one.why).collect();
    assert_eq!(whys, [Why::High; 5]);
    assert!(close(line.kbit(), 8_000.0 * 1.04_f64.powi(5)));
    line.pass(3_000, 20, 0.9);
    assert!(close(line.kbit(), LIMITS.most));
    assert_eq!(line.pass(1_000, 20, 0.9), []);
}

#[test]
fn it_rises_less_where_answers_are_nearly_late() {
    let mut line = Line::new();
    line.pass(400, 20, 0.5);
    // 20 ms late each way, minus a packet's 1.5 ms: almost half of the way to 30 ms.
    line.pass(600, 60, 0.5);
    let changes = line.pass(200, 60, 0.9);
    let late_ms = changes[0].late_ms - 1.5;
    assert!((18.0..18.5).contains(&late_ms), "{late_ms}");
    let factor = changes[0].kbit / 8_000.0;
    assert!(
        close(factor, 1.04 - 0.04 * (late_ms - 10.0) / 20.0),
        "{factor}"
    );
}

#[test]
fn three_late_answers_of_six_are_bloat_and_a_rate_falls_by_how_late_they_are() {
    let mut line = Line::new();
    line.pass(400, 20, 0.5);
    // Replies are 100 ms late each way, so the third one is enough. The mean is 50 ms, minus a
    // packet's 1.5 ms.
    assert_eq!(line.pass(100, 220, 0.5), []);
    let changes = line.pass(50, 220, 0.5);
    assert_eq!(changes.len(), 1);
    assert_eq!((changes[0].direction, changes[0].why), (1, Why::Bloat));
    let part = (changes[0].late_ms - 1.5 - 30.0) / 30.0;
    assert!((0.6..0.65).contains(&part), "{part}");
    assert!(close(line.kbit(), 8_000.0 * (0.99 - 0.24 * part)));
    // The next decrease comes after 300 ms, with the full factor.
    let before = line.kbit();
    assert_eq!(line.pass(300, 220, 0.9), []);
    assert_eq!(line.pass(50, 220, 0.9).len(), 1);
    assert!(close(line.kbit(), before * 0.75));
    line.pass(5_000, 220, 0.9);
    assert!(close(line.kbit(), LIMITS.least));
}

#[test]
fn a_threshold_is_later_by_a_packet() {
    let mut line = Line::new();
    line.pass(400, 20, 0.5);
    // 31 ms is below the threshold of 30 ms plus a packet's 1.5 ms.
    assert_eq!(line.pass(1_000, 82, 0.5), []);
    assert_ne!(line.pass(1_000, 84, 0.5), []);
}

#[test]
fn at_low_load_a_rate_returns_to_the_base_by_a_hundredth_a_second() {
    for (round_ms, load, factor) in [(20, 0.9, 0.99), (300, 0.9, 1.01)] {
        let mut line = Line::new();
        line.pass(400, 20, 0.5);
        line.pass(800, round_ms, load);
        // Late replies leave the window.
        line.pass(2_000, 20, 0.5);
        let before = line.kbit();
        let changes = line.pass(3_600, 20, 0.5);
        let times = i32::try_from(changes.len()).unwrap();
        assert!((3..=4).contains(&times), "{changes:?}");
        assert!(changes.iter().all(|one| one.why == Why::Low));
        assert!(close(line.kbit(), before * f64::powi(factor, times)));
        line.pass(60_000, 20, 0.5);
        line.pass(60_000, 20, 0.5);
        assert!(close(line.kbit(), LIMITS.base));
    }
}

#[test]
fn after_a_minute_of_little_nobody_is_asked() {
    let mut line = Line::new();
    line.pass(60_000, 20, 0.1);
    assert!(line.controller.asks());
    line.pass(400, 20, 0.1);
    assert!(!line.controller.asks());
    assert_eq!(line.pass(1_000, 500, 0.1), []);
    line.pass(200, 20, 0.5);
    assert!(line.controller.asks());
}

#[test]
fn in_a_stall_rates_stay() {
    let mut line = Line::new();
    line.pass(2_000, 20, 0.9);
    let at_ns = line.at_ns;
    let silent = |controller: &mut Controller, after_ns, up| {
        controller.load(at_ns + after_ns, [up, 7_000.0])
    };
    assert_eq!(silent(&mut line.controller, 2 * LOAD_NS, 9.0), []);
    // If both directions carry traffic, replies are lost but the line is not stalled.
    let changes = silent(&mut line.controller, 8 * LOAD_NS, 11.0);
    assert_eq!(changes.len(), 1, "{changes:?}");
}
