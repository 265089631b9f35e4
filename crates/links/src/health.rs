// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether one link is up, by replies, silence and its carrier.
//!
//! What else speaks against a link makes it suspected: it is asked more often, and given up
//! after half the silence. Without silence it is never given up, so that nothing but a
//! lost carrier speaks for itself.
//!
//! A link is given up after a time without an answer, and used again after a
//! much longer time of answers without a gap. If it fails again soon after its
//! return, that time doubles, so that a link which comes and goes is used less
//! and less often.

use weirgate_units::Span;

/// So many rounds of questions in a row must be unanswered beside the silence:
/// a machine that slept has not asked.
const ROUNDS: u32 = 3;
/// The time of answers doubles so often at most.
const MOST_DOUBLINGS: u32 = 5;
/// A link that held for so many of these times after its return is as good as
/// new.
const AS_NEW: u64 = 10;

/// The times after which a link counts as dead and as usable again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// The time between two rounds of questions, as long as they are answered.
    pub every: Span,
    /// The longest silence of the hosts.
    pub silence: Span,
    /// How long there must be answers, without a gap of half the silence, before
    /// a link is used again.
    pub steady: Span,
}

impl Default for Timing {
    /// Every 500 ms; given up after 2 s; used again after 10 s.
    fn default() -> Self {
        Self {
            every: Span::from_millis(500),
            silence: Span::from_secs(2),
            steady: Span::from_secs(10),
        }
    }
}

/// What is made of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Down,
    Up,
    /// It is up, and something speaks against it since it was heard.
    Suspected,
}

/// The health of one link. Times are nanoseconds of a clock that does not go
/// back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    timing: Timing,
    /// Whether anybody is asked.
    asks: bool,
    carrier: bool,
    condition: Condition,
    /// The last answer; at first, the beginning.
    heard: u64,
    /// Rounds of questions since then, and when the last that counts was asked.
    unanswered: u32,
    asked: u64,
    /// Since when there are answers without a gap, where the link is down.
    good: Option<u64>,
    /// When it was used again, and how often the time is doubled.
    returned: Option<u64>,
    doublings: u32,
}

impl Health {
    /// A link that counts as up or down from now on. With `asks` hosts are probed; else only the
    /// carrier decides.
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

    /// Whether the link is to be used.
    #[must_use]
    pub const fn is_up(&self) -> bool {
        !matches!(self.condition, Condition::Down)
    }

    /// The time until the next round of questions: a quarter of the usual while the
    /// last is unanswered, so that packets lost by chance do not look like silence, and while
    /// the link is suspected.
    #[must_use]
    pub fn every(&self) -> Span {
        let every = self.timing.every.as_nanos();
        Span::from_nanos(if self.unanswered > 1 || self.is_suspected() {
            every / 4
        } else {
            every
        })
    }

    /// How long answers must last before the link is used again.
    #[must_use]
    pub fn patience(&self) -> Span {
        let steady = self.timing.steady.as_nanos();
        Span::from_nanos(steady.saturating_mul(1 << self.doublings))
    }

    /// The device has gained or lost its carrier, which takes effect at once.
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

    /// Something speaks against the link, or no longer. Answers that come later speak for it.
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

    /// Whether it is up, and something speaks against it.
    #[must_use]
    pub const fn is_suspected(&self) -> bool {
        matches!(self.condition, Condition::Suspected)
    }

    /// All hosts were asked.
    pub fn ask(&mut self, now: u64) {
        if self.unanswered < ROUNDS {
            self.asked = now;
        }
        self.unanswered = self.unanswered.saturating_add(1);
        self.at(now);
    }

    /// One of them answered.
    pub fn answer(&mut self, now: u64) {
        if !self.is_up() {
            // There may have been a gap before.
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

    /// Time passed.
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

    /// When [`Health::at`] has something to say again, unless there are other
    /// inputs before.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        if self.is_up() {
            self.ends()
        } else {
            self.returns()
        }
    }

    /// When silence has lasted too long.
    fn ends(&self) -> Option<u64> {
        let Timing { every, silence, .. } = self.timing;
        let part = if self.is_suspected() { 2 } else { 1 };
        let silent = self.heard.saturating_add(silence.as_nanos() / part);
        let asked = self.asked.saturating_add(every.as_nanos() / part);
        (self.asks && self.unanswered >= ROUNDS).then(|| silent.max(asked))
    }

    /// When answers have a gap.
    fn gap(&self) -> u64 {
        self.heard
            .saturating_add(self.timing.silence.as_nanos() / 2)
    }

    /// When answers have lasted long enough.
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
