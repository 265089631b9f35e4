// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides whether one link is up, from replies, silence and its carrier.
//!
//! Other evidence against a link makes it suspected: then it is probed more often, and given up
//! after half the silence. Only silence or a lost carrier makes a link fail; a suspicion alone
//! never does.
//!
//! A link is given up after a time without replies, and used again after a much longer time of
//! replies without a gap. If it fails again soon after its return, that longer time doubles. So an
//! unstable link is used less and less often.

use weirgate_units::Span;

/// How many consecutive rounds of probes must be unanswered, in addition to the silence: a machine
/// that was suspended has sent no probes.
const ROUNDS: u32 = 3;
/// How often the time of replies may double.
const MOST_DOUBLINGS: u32 = 5;
/// A link that held for this many times `steady` after its return starts again without doublings.
const AS_NEW: u64 = 10;

/// The times after which a link counts as dead, and as usable again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// The time between two rounds of probes, as long as these are answered.
    pub every: Span,
    /// The longest silence of the hosts.
    pub silence: Span,
    /// How long replies must last, without a gap of half the silence and one round, before a link is
    /// used again.
    pub steady: Span,
}

impl Default for Timing {
    /// Probes every 500 ms; given up after 2 s; used again after 10 s.
    fn default() -> Self {
        Self {
            every: Span::from_millis(500),
            silence: Span::from_secs(2),
            steady: Span::from_secs(10),
        }
    }
}

/// The condition of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Down,
    Up,
    /// It is up, but there is evidence against it since the last reply.
    Suspected,
}

/// The health of one link. Times are in nanoseconds of a monotonic clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    timing: Timing,
    /// Whether any hosts are probed.
    asks: bool,
    carrier: bool,
    condition: Condition,
    /// The time of the last reply; at first, of the beginning.
    heard: u64,
    /// The rounds of probes since then, and the time of the last one that counts.
    unanswered: u32,
    asked: u64,
    /// The begin of replies without a gap, if the link is down.
    good: Option<u64>,
    /// The time of its return, and how often `steady` is doubled.
    returned: Option<u64>,
    doublings: u32,
}

impl Health {
    /// Creates a link that counts as up or down from now on. If `asks`, hosts are probed; otherwise
    /// only the carrier decides.
    #[must_use]
    pub const fn new(timing: Timing, asks: bool, up: bool, now: u64) -> Self {
        Self {
            timing,
            asks,
            carrier: true,
            condition: if up { Condition::Up } else { Condition::Down },
            heard: now,
            unanswered: 0,
            asked: now,
            good: if asks || up { None } else { Some(now) },
            returned: None,
            doublings: 0,
        }
    }

    /// Returns whether the link should be used.
    #[must_use]
    pub const fn is_up(&self) -> bool {
        !matches!(self.condition, Condition::Down)
    }

    /// Returns the time until the next round of probes. It is a quarter of the usual time while the
    /// last round is unanswered, so that a few lost packets do not look like silence, and while the
    /// link is suspected.
    #[must_use]
    pub fn every(&self) -> Span {
        let every = self.timing.every.as_nanos();
        Span::from_nanos(if self.unanswered > 1 || self.is_suspected() {
            every / 4
        } else {
            every
        })
    }

    /// Returns how long replies must last before the link is used again.
    #[must_use]
    pub fn patience(&self) -> Span {
        let steady = self.timing.steady.as_nanos();
        Span::from_nanos(steady.saturating_mul(1 << self.doublings))
    }

    /// Notes whether the device has a carrier, which takes effect at once.
    pub fn carrier(&mut self, now: u64, carrier: bool) {
        if carrier == self.carrier {
            self.at(now);
            return;
        }
        self.carrier = carrier;
        self.good = None;
        if !carrier {
            self.fail(now);
        } else if !self.asks {
            self.good = Some(now);
        }
        self.at(now);
    }

    /// Notes whether hosts can be probed. While this machine itself prevents it, only the carrier
    /// decides.
    pub fn probed(&mut self, now: u64, asks: bool) {
        if asks == self.asks {
            self.at(now);
            return;
        }
        self.asks = asks;
        self.unanswered = 0;
        self.heard = now;
        self.asked = now;
        if self.is_suspected() {
            self.condition = Condition::Up;
        }
        self.good = (!asks && !self.is_up() && self.carrier).then_some(now);
        self.at(now);
    }

    /// Begins or ends a suspicion of the link. A later reply ends it too.
    pub fn suspect(&mut self, now: u64, suspected: bool) {
        if self.is_up() && self.asks {
            self.condition = if suspected {
                Condition::Suspected
            } else {
                Condition::Up
            };
        }
        self.at(now);
    }

    /// Returns whether it is up but suspected.
    #[must_use]
    pub const fn is_suspected(&self) -> bool {
        matches!(self.condition, Condition::Suspected)
    }

    /// Notes that all hosts were probed.
    pub fn ask(&mut self, now: u64) {
        if self.unanswered < ROUNDS {
            self.asked = now;
        }
        self.unanswered = self.unanswered.saturating_add(1);
        self.at(now);
    }

    /// Notes a reply of one of them.
    pub fn answer(&mut self, now: u64) {
        if !self.is_up() {
            // Detect a gap before this reply.
            self.at(now);
        }
        self.heard = now;
        if self.is_suspected() {
            self.condition = Condition::Up;
        }
        self.unanswered = 0;
        if !self.is_up() && self.carrier && self.good.is_none() {
            self.good = Some(now);
        }
    }

    /// Notes that time has passed.
    pub fn at(&mut self, now: u64) {
        if self.is_up() {
            if self.ends().is_some_and(|end| now >= end) {
                self.fail(now);
            }
            return;
        }
        if self.asks && now >= self.gap() {
            self.good = None;
        }
        if self.returns().is_some_and(|end| now >= end) {
            self.condition = Condition::Up;
            self.good = None;
            self.returned = Some(now);
        }
    }

    /// Returns when [`Health::at`] has to be called again, unless there is other input before.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        if self.is_up() {
            self.ends()
        } else {
            self.returns()
        }
    }

    /// Returns the time at which the silence is too long.
    fn ends(&self) -> Option<u64> {
        let Timing { every, silence, .. } = self.timing;
        let part = if self.is_suspected() { 2 } else { 1 };
        let silent = self.heard.saturating_add(silence.as_nanos() / part);
        let asked = self.asked.saturating_add(every.as_nanos() / part);
        (self.asks && self.unanswered >= ROUNDS).then(|| silent.max(asked))
    }

    /// Returns the time at which replies have a gap. A single lost round makes none: otherwise a
    /// link that loses one packet in a hundred would not be used again for hours.
    fn gap(&self) -> u64 {
        self.heard
            .saturating_add(self.timing.silence.as_nanos() / 2)
            .saturating_add(self.timing.every.as_nanos())
    }

    /// Returns the time at which replies have lasted long enough.
    fn returns(&self) -> Option<u64> {
        let good = self.good.filter(|_| self.carrier)?;
        Some(good.saturating_add(self.patience().as_nanos()))
    }

    fn fail(&mut self, now: u64) {
        if !self.is_up() {
            return;
        }
        self.condition = Condition::Down;
        self.good = None;
        let lasted = self.returned.map(|returned| now.saturating_sub(returned));
        let as_new = self.timing.steady.as_nanos().saturating_mul(AS_NEW);
        self.doublings = match lasted {
            Some(lasted) if lasted < as_new => (self.doublings + 1).min(MOST_DOUBLINGS),
            _ => 0,
        };
    }
}
