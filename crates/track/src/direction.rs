// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One direction of the line: its rate, and what is being done to know it.

use crate::model::{Limits, LineDirection, Reason};
use std::collections::VecDeque;

const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;
/// What is remembered of the load.
const KEPT: u64 = 2 * SECOND;
/// The stretch of the load that tells what the line carries when a queue shows:
/// it has stood for about so long then.
const JUST: u64 = 200 * MILLISECOND;
/// The same upstream, where the growth of the queue is what tells.
const GROWTH: u64 = 400 * MILLISECOND;
/// Of a queue that was seen to stand for so long, what came through is known.
const KNOWN: u64 = 150 * MILLISECOND;
/// So many answers of a queue have a median that is the queue's.
const ENOUGH: u32 = 2;
/// Pauses between experiments: after one that went well, and the most after
/// some that did not.
const SOON: u64 = 2 * SECOND;
const LATER: u64 = 4 * SECOND;
/// What the first step of an experiment brings above the known rate, in
/// thousandths, and the steps that follow it.
const FIRST: u64 = 30;
const STEPS: [u64; 4] = [60, 120, 240, 400];
/// A queue of this many nanoseconds or more is drained at half the rate.
const DEEP: u64 = 150 * MILLISECOND;

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: u64,
    span: u64,
    bytes: u64,
    full: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing is being done since then.
    Hold { since: u64 },
    /// The rate is raised to see what happens.
    Try {
        since: u64,
        until: u64,
        step: usize,
        before: u64,
    },
    /// A queue is given time to go.
    Drain {
        since: u64,
        /// What the line is thought to carry, and the most that it can.
        estimate: u64,
        most: u64,
        /// Upstream: how long the queue was when enough answers had shown it,
        /// and how many have.
        first: u64,
        answers: u32,
        /// Bytes and time while the queue was seen to stand; and what has come
        /// since it was last seen.
        standing: (u64, u64),
        since_seen: (u64, u64),
    },
}

/// One direction.
#[derive(Debug)]
pub(crate) struct LineState {
    direction: LineDirection,
    limits: Limits,
    pub(crate) rate: u64,
    phase: Phase,
    samples: VecDeque<Sample>,
    last: Option<u64>,
    pause: u64,
    before_blind: Option<u64>,
}

/// A new rate and why.
pub(crate) type Change = (u64, Reason);

impl LineState {
    pub(crate) fn new(direction: LineDirection, limits: Limits) -> Self {
        Self {
            direction,
            limits,
            rate: limits.base,
            phase: Phase::Hold { since: 0 },
            samples: VecDeque::new(),
            last: None,
            pause: SOON,
            before_blind: None,
        }
    }

    /// Takes what counters reported.
    pub(crate) fn load(&mut self, at: u64, bytes: u64, backlog: u64) {
        let Some(last) = self.last.replace(at) else {
            self.phase = Phase::Hold { since: at };
            return;
        };
        let span = at.saturating_sub(last);
        if span == 0 {
            return;
        }
        let full = backlog > 0 || rate_of(bytes, span) >= self.shaped() / 10 * 9;
        self.samples.push_back(Sample {
            at,
            span,
            bytes,
            full,
        });
        let old = |one: &Sample| at.saturating_sub(one.at) > KEPT;
        while self.samples.front().is_some_and(old) {
            self.samples.pop_front();
        }
        if let Phase::Drain { since_seen, .. } = &mut self.phase {
            since_seen.0 = since_seen.0.saturating_add(bytes);
            since_seen.1 = since_seen.1.saturating_add(span);
        }
    }

    /// What the shaper lets through.
    fn shaped(&self) -> u64 {
        part(self.rate, 1_000_000 - self.limits.margin_ppm, 1_000_000)
    }

    fn within(&self, rate: u64) -> u64 {
        rate.clamp(self.limits.floor, self.limits.ceiling)
    }

    fn lately(&self, at: u64, window: u64) -> impl Iterator<Item = &Sample> {
        let from = at.saturating_sub(window);
        self.samples.iter().filter(move |one| one.at > from)
    }

    /// Bits per second that crossed the line in the last stretch of time.
    fn carried(&self, at: u64, window: u64) -> u64 {
        let (bytes, span) = self
            .lately(at, window)
            .fold((0u64, 0u64), |(bytes, span), one| {
                (bytes.saturating_add(one.bytes), span + one.span)
            });
        rate_of(bytes, span)
    }

    /// Whether the shaper was full for most of that time.
    fn filled(&self, at: u64, window: u64) -> bool {
        let (full, span) = self.lately(at, window).fold((0, 0), |(full, span), one| {
            (full + if one.full { one.span } else { 0 }, span + one.span)
        });
        span >= window / 10 * 7 && full >= span / 10 * 6
    }

    /// Whether it can be what a queue comes from.
    pub(crate) fn loaded(&self, at: u64) -> bool {
        self.filled(at, JUST) || self.carried(at, KEPT) >= self.shaped() / 5
    }

    pub(crate) const fn draining(&self) -> bool {
        matches!(self.phase, Phase::Drain { .. })
    }

    pub(crate) const fn trying(&self) -> bool {
        matches!(self.phase, Phase::Try { .. })
    }

    pub(crate) const fn at_floor(&self) -> bool {
        self.rate <= self.limits.floor
    }

    /// The time that a packet of so many bytes takes.
    pub(crate) fn packet_ns(&self, bytes: u64) -> u64 {
        part(bytes, 8 * SECOND, self.rate)
    }

    /// A queue of so many nanoseconds stands before the line. `news` where an
    /// answer says so now that was not known before.
    pub(crate) fn late(&mut self, at: u64, delta: u64, news: bool) -> Option<Change> {
        match self.phase {
            Phase::Hold { .. } => {
                let window = if self.direction == LineDirection::Up {
                    GROWTH
                } else {
                    JUST
                };
                self.pause = SOON;
                self.fall(at, delta, window)
            }
            Phase::Try { since, .. } => {
                self.pause = (self.pause * 2).min(LATER);
                self.fall(at, delta, at.saturating_sub(since).max(JUST))
            }
            Phase::Drain { .. } => self.still(at, delta, news),
        }
    }

    /// The first word of a queue.
    fn fall(&mut self, at: u64, delta: u64, window: u64) -> Option<Change> {
        let seen = self.carried(at, window);
        let estimate = match self.direction {
            // While a queue stands there, what comes is what the line carries.
            LineDirection::Down => seen,
            // What was sent in `window` needs the queue's time more to pass.
            LineDirection::Up => part(seen, window, window + delta.min(window)),
        };
        let estimate = self.within(estimate.min(self.rate));
        self.phase = Phase::Drain {
            since: at,
            estimate,
            most: self.rate,
            first: delta,
            answers: 0,
            standing: (0, 0),
            since_seen: (0, 0),
        };
        self.become_at(self.within(drained(estimate, delta)), Reason::Queue)
    }

    /// It stands there still.
    fn still(&mut self, at: u64, delta: u64, news: bool) -> Option<Change> {
        let Phase::Drain {
            since,
            estimate,
            most,
            first,
            answers,
            standing,
            since_seen,
        } = &mut self.phase
        else {
            return None;
        };
        if news {
            standing.0 = standing.0.saturating_add(since_seen.0);
            standing.1 = standing.1.saturating_add(since_seen.1);
            *since_seen = (0, 0);
            *answers = answers.saturating_add(1);
            // Before, the delay is one that was waited for or the mean of a
            // queue and none: how it grows would say nothing.
            if self.direction == LineDirection::Up && *answers <= ENOUGH {
                *first = delta;
                *standing = (0, 0);
            }
        }
        let mut rate = self.rate;
        if standing.1 >= KNOWN {
            let passed = match self.direction {
                LineDirection::Down => standing.1,
                // What was sent passes in the time that it took to send and by
                // which the queue has grown.
                LineDirection::Up => (standing.1 + delta).saturating_sub(*first).max(KNOWN / 2),
            };
            *estimate = rate_of(standing.0, passed).min(*most);
            rate = rate.min(drained(*estimate, delta));
        }
        // It does not get shorter: lower, and again the same time.
        if at.saturating_sub(*since) >= SECOND {
            *since = at;
            rate = rate / 5 * 4;
            *estimate = (*estimate).min(part(rate, 5, 4));
        }
        // A little lower is not worth a change.
        if rate >= self.rate / 20 * 19 {
            return None;
        }
        self.become_at(self.within(rate), Reason::Queue)
    }

    /// No queue is there any more; true if that ends something.
    pub(crate) fn clear(&mut self, at: u64) -> Option<Change> {
        let Phase::Drain { estimate, .. } = self.phase else {
            return None;
        };
        self.phase = Phase::Hold { since: at };
        self.become_at(self.within(estimate), Reason::Drained)
    }

    /// Whether an experiment would show something now.
    pub(crate) fn may_try(&self, at: u64) -> bool {
        let Phase::Hold { since } = self.phase else {
            return false;
        };
        self.rate < self.limits.ceiling
            && at.saturating_sub(since) >= self.pause
            && self.filled(at, SECOND)
    }

    /// Begins one; each step lasts for `length`.
    pub(crate) fn try_more(&mut self, at: u64, length: u64) -> Option<Change> {
        let before = self.rate;
        let kept = (1_000_000 - self.limits.margin_ppm).max(1);
        let rate = part(self.rate, (1_000 + FIRST) * 1_000, kept);
        self.phase = Phase::Try {
            since: at,
            until: at.saturating_add(length),
            step: 0,
            before,
        };
        self.become_at(self.within(rate.max(before)), Reason::Try)
    }

    /// Goes on with an experiment, or ends it. `doubtful` where the delay is
    /// neither short nor long.
    pub(crate) fn go_on(&mut self, at: u64, length: u64, doubtful: bool) -> Option<Change> {
        let Phase::Try {
            since,
            until,
            step,
            before,
        } = self.phase
        else {
            return None;
        };
        if at < until {
            return None;
        }
        let span = at.saturating_sub(since);
        let seen = self.carried(at, span);
        if !self.filled(at, span) || seen < self.shaped() / 10 * 9 {
            // Nobody wanted more. What did come is known to be possible.
            let kept = (1_000_000 - self.limits.margin_ppm).max(1);
            let known = part(seen, 1_000_000, kept);
            self.phase = Phase::Hold { since: at };
            let rate = known.clamp(before, self.rate.max(before));
            return self.become_at(self.within(rate), Reason::Tried);
        }
        if doubtful && at < until.saturating_add(length) {
            return None;
        }
        self.pause = SOON;
        if self.rate >= self.limits.ceiling {
            self.phase = Phase::Hold { since: at };
            return None;
        }
        let known = self.rate;
        let more = STEPS[step.min(STEPS.len() - 1)];
        self.phase = Phase::Try {
            since: at,
            until: at.saturating_add(length),
            step: step + 1,
            before: known,
        };
        self.become_at(self.within(part(known, 1_000 + more, 1_000)), Reason::Try)
    }

    /// Nothing can be known.
    pub(crate) fn blind(&mut self, at: u64) -> Change {
        let known = match self.phase {
            Phase::Hold { .. } => self.rate,
            Phase::Try { before, .. } => before,
            Phase::Drain { estimate, .. } => estimate,
        };
        self.before_blind = Some(known);
        self.phase = Phase::Hold { since: at };
        self.rate = self.limits.floor;
        (self.rate, Reason::Blind)
    }

    /// Something can be known again.
    pub(crate) fn sees(&mut self, at: u64) -> Change {
        let known = self.before_blind.take().unwrap_or(self.limits.base);
        self.phase = Phase::Hold { since: at };
        self.pause = SOON;
        self.rate = self.within(known);
        (self.rate, Reason::Sees)
    }

    fn become_at(&mut self, rate: u64, reason: Reason) -> Option<Change> {
        if rate == self.rate {
            return None;
        }
        self.rate = rate;
        Some((rate, reason))
    }
}

/// `whole * share / of`, at most what a number can hold.
fn part(whole: u64, share: u64, of: u64) -> u64 {
    let exact = u128::from(whole) * u128::from(share) / u128::from(of.max(1));
    u64::try_from(exact).unwrap_or(u64::MAX)
}

/// Bits per second.
fn rate_of(bytes: u64, span: u64) -> u64 {
    part(bytes, 8 * SECOND, span)
}

/// A rate below the line's at which a queue is gone in a few tenths of a
/// second: between nineteen twentieths and half of it.
fn drained(estimate: u64, delta: u64) -> u64 {
    let less = part(delta.min(DEEP), 500, DEEP).max(50);
    part(estimate, 1_000 - less, 1_000)
}
