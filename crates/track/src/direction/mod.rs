// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One direction of the line: its rate, and the steps that find it.

mod load;
mod pace;
mod rate;

use crate::model::{Limits, Reason};
use load::{ERROR_BYTES, JUST, KEPT, KNOWN, Load};
use pace::{Known, STEADY};
pub(crate) use rate::part;
use rate::{MILLISECOND, SECOND, rate_of};
use weirgate_units::Direction;

pub(crate) use pace::Shows;

/// The time over which the growth of an upstream queue tells what the line carries.
const GROWTH: u64 = 400 * MILLISECOND;
/// After this many answers during a queue, their median is the queue's delay.
const ENOUGH: u32 = 2;
/// The arriving rate counts as equal to the shaper's if it differs by at most this many
/// thousandths, or by the error of a reading.
const TOLERANCE: u64 = 70;
/// The arriving rate is clearly lower if it is lower by this many hundredths.
const LESS: u64 = 8;
/// A queue that stands for this long may be the delay of another path.
const DOUBTFUL: u64 = 600 * MILLISECOND;
/// A queue of at least this many nanoseconds is drained at half the rate.
const DEEP: u64 = 150 * MILLISECOND;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing has been in progress since then.
    Hold { since: u64 },
    /// An experiment: the rate is raised.
    Try {
        since: u64,
        until: u64,
        step: usize,
        before: u64,
        /// How far the step is above the known rate, in thousandths.
        above: u64,
    },
    /// A queue is being drained.
    Drain {
        since: u64,
        /// The estimated rate of the line, and its upper bound.
        estimate: u64,
        most: u64,
        /// Upstream: the delay of the queue when enough answers had shown it, and the number of
        /// answers.
        first: u64,
        answers: u32,
        /// Bytes and time while the queue was seen, and the same since it was last seen.
        standing: (u64, u64),
        since_seen: (u64, u64),
        /// Downstream: the shortest delay of the queue, since when it has been that, and the
        /// total known time since then in which the line had nothing to send.
        shortest: u64,
        shrunk: u64,
        spare: u64,
        /// The test for another path: since when the rate has been lowered, and the arriving rate
        /// and the delay until then.
        test: Option<(u64, u64, u64)>,
    },
}

/// One direction.
#[derive(Debug)]
pub(crate) struct LineState {
    direction: Direction,
    limits: Limits,
    pub(crate) rate: u64,
    phase: Phase,
    load: Load,
    pause: u64,
    before_blind: Option<u64>,
    known: Known,
}

/// The verdict about a delay that does not get shorter.
#[derive(Debug)]
pub(crate) enum Doubt {
    /// No verdict yet.
    None,
    /// A test begins, at this rate.
    Lower(Change),
    /// It is the delay of the path.
    AnotherPath,
}

/// A new rate and the reason.
pub(crate) type Change = (u64, Reason);

impl LineState {
    pub(crate) fn new(direction: Direction, limits: Limits) -> Self {
        Self {
            direction,
            limits,
            rate: limits.base,
            phase: Phase::Hold { since: 0 },
            load: Load::default(),
            pause: STEADY.soon,
            before_blind: None,
            known: Known::new(limits.base),
        }
    }

    /// Takes a reading of the counters.
    pub(crate) fn load(&mut self, at: u64, bytes: u64, backlog: u64) {
        let shaped = self.shaped();
        let Some(span) = self.load.take(at, bytes, backlog, shaped) else {
            self.phase = Phase::Hold { since: at };
            self.known.begin(at);
            return;
        };
        if span == 0 {
            return;
        }
        let seen = rate_of(bytes, span);
        let is_down = self.direction == Direction::Down;
        let is_deaf = self.is_deaf(at, 0);
        if let Phase::Drain {
            since,
            since_seen,
            spare,
            estimate,
            shrunk,
            test,
            ..
        } = &mut self.phase
        {
            // An outage tells nothing about a queue.
            if is_deaf {
                *since = since.saturating_add(span);
                *shrunk = shrunk.saturating_add(span);
                *test = None;
                return;
            }
            // Downstream, senders adapt to the shaper, and no more arrives than it lets through.
            // This tells nothing about the line, except that it could carry more.
            let error = part(shaped, TOLERANCE, 1_000).max(rate_of(ERROR_BYTES, span));
            if is_down && shaped < *estimate && seen.abs_diff(shaped) <= error {
                *spare = spare.saturating_add(part(span, *estimate - shaped, *estimate));
            } else {
                since_seen.0 = since_seen.0.saturating_add(bytes);
                since_seen.1 = since_seen.1.saturating_add(span);
            }
        }
    }

    /// Whether the answers are delayed by an outage. Upstream, an idle line is no sign of one.
    pub(crate) fn is_deaf(&self, at: u64, answers: u64) -> bool {
        self.direction == Direction::Down && self.load.is_deaf(at, answers)
    }

    /// Tests whether the delay is a queue's or the path's. The test begins if answers take as
    /// long as before although the line has had nothing to send, or if they have done so for
    /// long. It lowers the rate. If less arrives with the same delay, the path has changed.
    pub(crate) fn doubt(&mut self, at: u64, delta: u64, answers: u64) -> Doubt {
        let (seen, shaped) = (self.came(at, KNOWN), self.shaped());
        let lower = self.within(part(self.rate, 100 - 2 * LESS, 100));
        let is_less = lower < part(self.rate, 100 - LESS, 100);
        let Phase::Drain {
            since,
            shortest,
            shrunk,
            spare,
            test,
            ..
        } = &mut self.phase
        else {
            return Doubt::None;
        };
        if let Some((then, came, was)) = *test {
            // Senders notice it only after the whole delay.
            let heard = answers.saturating_add(was).saturating_add(KNOWN);
            if at.saturating_sub(then) < heard {
                return Doubt::None;
            }
            (*test, *spare, *since, *shrunk) = (None, 0, at, at);
            // The arriving rate has to be the lowered one. Otherwise the line carries more and
            // the queue is real, or nobody uses the line any more.
            let asked = shaped / 2..=part(shaped, 1_000 + TOLERANCE, 1_000);
            let less = seen < part(came, 100 - LESS, 100) && asked.contains(&seen);
            let same = (part(was, 85, 100)..=part(was, 115, 100)).contains(&delta);
            return if less && same {
                Doubt::AnotherPath
            } else {
                Doubt::None
            };
        }
        if delta < *shortest / 5 * 4 {
            (*shortest, *shrunk, *spare) = (delta, at, 0);
        } else if self.direction == Direction::Down
            && is_less
            && (*spare >= shortest.saturating_add(20 * MILLISECOND)
                || at.saturating_sub(*shrunk) >= DOUBTFUL)
        {
            *test = Some((at, seen, delta));
            self.rate = lower;
            return Doubt::Lower((lower, Reason::Queue));
        }
        Doubt::None
    }

    /// There was no queue: the rate from before the test returns.
    pub(crate) fn no_queue(&mut self, at: u64) -> Option<Change> {
        let Phase::Drain { estimate, .. } = self.phase else {
            return None;
        };
        self.phase = Phase::Hold { since: at };
        self.become_at(self.within(estimate), Reason::Drained)
    }

    /// The recent arriving rate in bits per second; downstream without outages.
    fn came(&self, at: u64, window: u64) -> u64 {
        match self.direction {
            Direction::Down => self.load.came(at, window),
            Direction::Up => self.load.carried(at, window),
        }
    }

    /// Returns the rate that the shaper lets through.
    fn shaped(&self) -> u64 {
        self.limits.shaped(self.rate)
    }

    fn within(&self, rate: u64) -> u64 {
        rate.clamp(self.limits.floor, self.limits.ceiling)
    }

    /// Returns whether this direction can be the cause of a queue.
    pub(crate) fn loaded(&self, at: u64) -> bool {
        self.load.filled(at, JUST) || self.load.carried(at, KEPT) >= self.shaped() / 5
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

    /// Returns the time that a packet of `bytes` takes.
    pub(crate) fn packet_ns(&self, bytes: u64) -> u64 {
        part(bytes, 8 * SECOND, self.rate)
    }

    /// A queue of this many nanoseconds stands before the line. `news` is true if a new answer
    /// shows it.
    pub(crate) fn late(&mut self, at: u64, delta: u64, news: bool) -> Option<Change> {
        match self.phase {
            Phase::Hold { .. } => {
                let window = if self.direction == Direction::Up {
                    GROWTH
                } else {
                    JUST
                };
                self.pause = self.known.pace(at).soon;
                self.fall(at, delta, window)
            }
            Phase::Try { since, .. } => {
                let pace = self.known.pace(at);
                self.pause = (self.pause * 2).clamp(pace.soon, pace.later);
                self.fall(at, delta, at.saturating_sub(since).max(JUST))
            }
            Phase::Drain { .. } => self.still(at, delta, news),
        }
    }

    /// The first answer that shows a queue.
    fn fall(&mut self, at: u64, delta: u64, window: u64) -> Option<Change> {
        let seen = self.came(at, window);
        let estimate = match self.direction {
            // While a queue stands there, the arriving rate is what the line carries.
            Direction::Down => seen,
            // The packets sent in `window` need that time and the delay of the queue to pass.
            Direction::Up => part(seen, window, window + delta.min(window)),
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
            shortest: delta,
            shrunk: at,
            spare: 0,
            test: None,
        };
        self.become_at(self.within(drained(estimate, delta)), Reason::Queue)
    }

    /// The queue still stands.
    fn still(&mut self, at: u64, delta: u64, news: bool) -> Option<Change> {
        let Phase::Drain {
            since,
            estimate,
            most,
            first,
            answers,
            standing,
            since_seen,
            ..
        } = &mut self.phase
        else {
            return None;
        };
        if news {
            standing.0 = standing.0.saturating_add(since_seen.0);
            standing.1 = standing.1.saturating_add(since_seen.1);
            *since_seen = (0, 0);
            *answers = answers.saturating_add(1);
            // Before that, the delay is a lower bound, or a mean of times with and without a
            // queue. Its growth would tell nothing.
            if self.direction == Direction::Up && *answers <= ENOUGH {
                *first = delta;
                *standing = (0, 0);
            }
        }
        let mut rate = self.rate;
        if standing.1 >= KNOWN {
            let passed = match self.direction {
                Direction::Down => standing.1,
                // The sent packets pass in the time of sending plus the growth of the queue's
                // delay.
                Direction::Up => (standing.1 + delta).saturating_sub(*first).max(KNOWN / 2),
            };
            *estimate = rate_of(standing.0, passed).min(*most);
            rate = rate.min(drained(*estimate, delta));
        }
        // The queue does not get shorter: the rate goes lower, for the same time again.
        if at.saturating_sub(*since) >= SECOND {
            *since = at;
            rate = rate / 5 * 4;
            *estimate = (*estimate).min(part(rate, 5, 4));
        }
        // A slightly lower rate is not worth a change.
        if rate >= self.rate / 20 * 19 {
            return None;
        }
        self.become_at(self.within(rate), Reason::Queue)
    }

    /// Records that the queue is gone. Returns a change if this ends a drain or an experiment.
    pub(crate) fn clear(&mut self, at: u64) -> Option<Change> {
        let Phase::Drain { estimate, .. } = self.phase else {
            return None;
        };
        self.phase = Phase::Hold { since: at };
        self.known.learn(at, estimate);
        self.become_at(self.within(estimate), Reason::Drained)
    }

    /// Returns whether an experiment can show something now.
    pub(crate) fn may_try(&self, at: u64) -> bool {
        let Phase::Hold { since } = self.phase else {
            return false;
        };
        self.rate < self.limits.ceiling
            && at.saturating_sub(since) >= self.pause.min(self.known.pace(at).later)
            && self.load.filled(at, self.known.pace(at).full)
    }

    /// Begins an experiment. Each step lasts until a queue that it causes would be known.
    pub(crate) fn try_more(&mut self, at: u64, shows: &Shows) -> Option<Change> {
        let before = self.rate;
        let first = self.known.pace(at).first;
        let rate = self.limits.unshaped(self.rate, 1_000 + first);
        self.phase = Phase::Try {
            since: at,
            until: at.saturating_add(shows.within(first)),
            step: 0,
            before,
            above: first,
        };
        self.become_at(self.within(rate.max(before)), Reason::Try)
    }

    /// Continues or ends an experiment. `delta` is the present delay of the queue.
    pub(crate) fn go_on(&mut self, at: u64, shows: &Shows, delta: u64) -> Option<Change> {
        let Phase::Try {
            since,
            until,
            step,
            before,
            above,
        } = self.phase
        else {
            return None;
        };
        if at < until {
            return None;
        }
        let span = at.saturating_sub(since);
        // At first the senders have not noticed the step.
        let heard = span.saturating_sub(shows.answers).max(span / 2);
        let seen = self.came(at, heard);
        // Receive windows request slightly less than the shaper lets through. But if any queue
        // stands, what does not arrive is more than the line carries.
        let least = if delta > shows.threshold / 2 {
            part(self.shaped(), 2_000 - above, 2_000)
        } else {
            self.shaped() / 10 * 9
        };
        if !self.load.filled(at, span) || seen < least {
            // The line carries at least the arriving rate. Without a queue, senders wanted no
            // more, and the line may carry more. With a queue, it carries no more.
            let known = if delta <= shows.threshold / 4 {
                self.limits.unshaped(seen, 1_000)
            } else {
                let pace = self.known.pace(at);
                self.pause = (self.pause * 2).clamp(pace.soon, pace.later);
                seen
            };
            self.phase = Phase::Hold { since: at };
            let rate = known.clamp(before, self.rate.max(before));
            self.known.learn(at, rate);
            return self.become_at(self.within(rate), Reason::Tried);
        }
        let pace = self.known.pace(at);
        // The delay is neither short nor long.
        let doubtful = delta > shows.threshold / 2;
        if doubtful && at < until.saturating_add(until - since) {
            return None;
        }
        self.pause = pace.soon;
        self.known.learn(at, self.rate);
        if self.rate >= self.limits.ceiling {
            self.phase = Phase::Hold { since: at };
            return None;
        }
        let known = self.rate;
        let more = pace.steps[step.min(pace.steps.len() - 1)];
        self.phase = Phase::Try {
            since: at,
            until: at.saturating_add(shows.within(more)),
            step: step + 1,
            before: known,
            above: more,
        };
        self.become_at(self.within(part(known, 1_000 + more, 1_000)), Reason::Try)
    }

    /// Nothing can be measured.
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

    /// Measurements are possible again.
    pub(crate) fn sees(&mut self, at: u64) -> Change {
        let known = self.before_blind.take().unwrap_or(self.limits.base);
        self.phase = Phase::Hold { since: at };
        self.pause = self.known.pace(at).soon;
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

/// A rate below the line's at which a queue drains in a few tenths of a second: between 19/20 and
/// half of the line's rate.
fn drained(estimate: u64, delta: u64) -> u64 {
    let less = part(delta.min(DEEP), 500, DEEP).max(50);
    part(estimate, 1_000 - less, 1_000)
}
