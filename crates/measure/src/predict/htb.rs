// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The token buckets of a two-level HTB tree, by the rules of `sch_htb`.
//!
//! The thesis's figures of section 7.3 are about these buckets. A leaf with its own tokens sends
//! regardless of the root, and a class may overdraw by a packet. With `htb_hysteresis` it sends
//! until it has overdrawn its whole burst, and then waits until its bucket is at zero
//! (`htb_class_mode`, net/sched/sch_htb.c). This module is the arithmetic of those rules, without
//! the kernel's code, queues or clock.

/// Nanoseconds; tokens are time, as in the kernel.
pub(super) type Nanos = i64;

/// The longest time for which a bucket accumulates tokens (`mbuffer`).
const LONGEST: Nanos = 60_000_000_000;

/// The mode of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Sends on its own tokens.
    Own,
    /// Sends on the root's tokens, if the root has any.
    Borrow,
    /// Has used up its ceiling.
    Wait,
}

/// A rate with its bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bucket {
    /// Bit/s.
    pub(super) rate: f64,
    /// Bytes.
    pub(super) burst: f64,
}

impl Bucket {
    fn time(self, bytes: f64) -> Nanos {
        (bytes * 8e9 / self.rate) as Nanos
    }
}

/// The buckets of one class.
#[derive(Debug, Clone)]
pub(super) struct Account {
    assured: Bucket,
    ceiling: Bucket,
    /// The priority; a lower number is served first.
    pub(super) priority: u32,
    tokens: Nanos,
    ceiling_tokens: Nanos,
    counted: Nanos,
    mode: Mode,
    /// When its mode is checked next.
    due: Option<Nanos>,
}

impl Account {
    /// Makes a class with full buckets at time 0.
    pub(super) fn new(assured: Bucket, ceiling: Bucket, priority: u32) -> Self {
        Self {
            assured,
            ceiling,
            priority,
            tokens: assured.time(assured.burst),
            ceiling_tokens: ceiling.time(ceiling.burst),
            counted: 0,
            mode: Mode::Own,
            due: None,
        }
    }

    /// Returns the class's mode after `passed`, and the time until it may change.
    fn state(&self, passed: Nanos, hysteresis: bool) -> (Mode, Nanos) {
        let owing = |granted: bool, bucket: Bucket| {
            if hysteresis && granted {
                -bucket.time(bucket.burst)
            } else {
                0
            }
        };
        let under_ceiling = self.ceiling_tokens + passed;
        if under_ceiling < owing(self.mode != Mode::Wait, self.ceiling) {
            return (Mode::Wait, -under_ceiling);
        }
        let own = self.tokens + passed;
        if own >= owing(self.mode == Mode::Own, self.assured) {
            return (Mode::Own, 0);
        }
        (Mode::Borrow, -own)
    }

    fn passed(&self, now: Nanos) -> Nanos {
        (now - self.counted).min(LONGEST)
    }

    fn look(&mut self, now: Nanos, hysteresis: bool) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        let (mode, delay) = self.state(self.passed(now), hysteresis);
        self.mode = mode;
        self.due = (mode != Mode::Own).then(|| now + delay.max(1));
    }

    fn charge(&mut self, now: Nanos, bytes: f64, borrowed: bool, hysteresis: bool) {
        let passed = self.passed(now);
        self.tokens = if borrowed {
            self.tokens + passed
        } else {
            spent(self.tokens + passed, self.assured, bytes)
        };
        self.ceiling_tokens = spent(self.ceiling_tokens + passed, self.ceiling, bytes);
        self.counted = now;
        let before = self.mode;
        let (mode, delay) = self.state(0, hysteresis);
        self.mode = mode;
        if mode != before {
            self.due = (mode != Mode::Own).then(|| now + delay.max(1));
        }
    }
}

fn spent(tokens: Nanos, bucket: Bucket, bytes: f64) -> Nanos {
    (tokens.min(bucket.time(bucket.burst)) - bucket.time(bytes)).max(1 - LONGEST)
}

/// A root and its leaves.
#[derive(Debug, Clone)]
pub(super) struct Htb {
    pub(super) root: Account,
    pub(super) leaves: Vec<Account>,
    pub(super) hysteresis: bool,
}

impl Htb {
    /// Returns the leaf that sends next, if any is allowed to, and whether it borrows. `waiting`
    /// says which leaves have packets.
    pub(super) fn next(&mut self, now: Nanos, waiting: &[bool]) -> Option<(usize, bool)> {
        let hysteresis = self.hysteresis;
        for leaf in &mut self.leaves {
            leaf.look(now, hysteresis);
        }
        if let Some(leaf) = self.first(Mode::Own, waiting) {
            return Some((leaf, false));
        }
        self.root.look(now, hysteresis);
        if self.root.mode != Mode::Own {
            return None;
        }
        self.first(Mode::Borrow, waiting).map(|leaf| (leaf, true))
    }

    fn first(&self, mode: Mode, waiting: &[bool]) -> Option<usize> {
        let able = self.leaves.iter().zip(waiting).enumerate();
        able.filter(|(_, (leaf, waits))| **waits && leaf.mode == mode)
            .min_by_key(|(_, (leaf, _))| leaf.priority)
            .map(|(index, _)| index)
    }

    /// Charges a packet of a leaf to the leaf and the root.
    pub(super) fn charge(&mut self, now: Nanos, leaf: usize, borrowed: bool, bytes: f64) {
        self.leaves[leaf].charge(now, bytes, borrowed, self.hysteresis);
        self.root.charge(now, bytes, false, self.hysteresis);
    }

    /// Returns when a class's mode may change next; no check is needed before.
    pub(super) fn due(&self) -> Option<Nanos> {
        let classes = self.leaves.iter().chain(std::iter::once(&self.root));
        classes.filter_map(|class| class.due).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(rate: f64) -> Bucket {
        let burst = 2000.0;
        Bucket { rate, burst }
    }

    fn tree(hysteresis: bool) -> Htb {
        let root = Account::new(bucket(512e3), bucket(512e3), 0);
        let leaf = |rate, priority| Account::new(bucket(rate), bucket(512e3), priority);
        Htb {
            root,
            leaves: vec![leaf(102e3, 0), leaf(204e3, 5)],
            hysteresis,
        }
    }

    /// Returns how many packets a backlogged last leaf sends in a time, and how many at most at one
    /// moment after the first 10 s.
    fn sent(mut htb: Htb, bytes: f64, until: Nanos) -> (u32, u32) {
        let (mut now, mut count, mut longest) = (0, 0, 0);
        while now < until {
            let mut burst = 0;
            while let Some((leaf, borrowed)) = htb.next(now, &[false, true]) {
                htb.charge(now, leaf, borrowed, bytes);
                burst += 1;
            }
            count += burst;
            if now > 10_000_000_000 {
                longest = longest.max(burst);
            }
            now = htb.due().unwrap();
        }
        (count, longest)
    }

    #[test]
    fn one_class_alone_gets_the_roots_rate() {
        // 106 bytes are 1.656 ms of 512 kbit/s.
        let (count, longest) = sent(tree(false), 106.0, 100_000_000_000);
        let expected = 512e3 * 100.0 / 848.0;
        assert!((f64::from(count) - expected).abs() < 40.0, "{count}");
        assert!(longest <= 2, "{longest}");
    }

    #[test]
    fn with_hysteresis_it_sends_its_burst_at_once() {
        let (count, longest) = sent(tree(true), 106.0, 100_000_000_000);
        let expected = 512e3 * 100.0 / 848.0;
        assert!((f64::from(count) - expected).abs() < 60.0, "{count}");
        // 2000 bytes are 19 packets of 106, and one overdraws.
        assert!((19..=40).contains(&longest), "{longest}");
    }

    #[test]
    fn own_tokens_need_no_root() {
        let mut htb = tree(false);
        while let Some((leaf, borrowed)) = htb.next(0, &[false, true]) {
            htb.charge(0, leaf, borrowed, 1696.0);
        }
        assert_eq!(htb.next(1, &[true, true]), Some((0, false)));
    }
}
