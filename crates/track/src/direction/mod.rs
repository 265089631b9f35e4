// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One direction of the line: its rate, and what is being done to know it.

mod load;
mod pace;
mod rate;

use crate::model::{Limits, LineDirection, Reason};
use load::{ERROR_BYTES, JUST, KEPT, KNOWN, Load};
use pace::{Known, STEADY};
use rate::{MILLISECOND, SECOND, part, rate_of};

pub(crate) use pace::Shows;

/// The same upstream, where the growth of the queue is what tells.
const GROWTH: u64 = 400 * MILLISECOND;
/// So many answers of a queue have a median that is the queue's.
const ENOUGH: u32 = 2;
/// What comes is what the shaper lets through if it differs by no more than so many
/// thousandths, or by the error of a look.
const TOLERANCE: u64 = 70;
/// What comes is clearly less by so many hundredths.
const LESS: u64 = 8;
/// A queue that stands for so long is doubted.
const DOUBTFUL: u64 = 600 * MILLISECOND;
/// A queue of this many nanoseconds or more is drained at half the rate.
const DEEP: u64 = 150 * MILLISECOND;

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
        /// By how many thousandths the step is higher than what is known.
        above: u64,
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
        /// Downstream: how short the queue has been, since when, and for how long in all since
        /// then the line had nothing to send, as far as is known.
        shortest: u64,
        shrunk: u64,
        spare: u64,
        /// Since when less is asked for to see whether less comes; what came until then, and
        /// how late.
        test: Option<(u64, u64, u64)>,
    },
}

/// One direction.
#[derive(Debug)]
pub(crate) struct LineState {
    direction: LineDirection,
    limits: Limits,
    pub(crate) rate: u64,
    phase: Phase,
    load: Load,
    pause: u64,
    before_blind: Option<u64>,
    known: Known,
}

/// What is thought of a delay that does not get shorter.
#[derive(Debug)]
pub(crate) enum Doubt {
    /// Nothing yet.
    None,
    /// This rate will tell.
    Lower(Change),
    /// It is the path's.
    AnotherPath,
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
            load: Load::default(),
            pause: STEADY.soon,
            before_blind: None,
            known: Known::new(limits.base),
        }
    }

    /// Takes what counters reported.
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
        let is_down = self.direction == LineDirection::Down;
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
            // An outage says nothing of a queue.
            if is_deaf {
                *since = since.saturating_add(span);
                *shrunk = shrunk.saturating_add(span);
                *test = None;
                return;
            }
            // Downstream no more comes than the shaper has room for once senders have heard
            // of it. That says nothing of the line, but that it could carry more.
            let error = part(shaped, TOLERANCE, 1_000).max(rate_of(ERROR_BYTES, span));
            if is_down && shaped < *estimate && seen.abs_diff(shaped) <= error {
                *spare = spare.saturating_add(part(span, *estimate - shaped, *estimate));
            } else {
                since_seen.0 = since_seen.0.saturating_add(bytes);
                since_seen.1 = since_seen.1.saturating_add(span);
            }
        }
    }

    /// Whether what answers say is of an outage. Upstream an idle line says nothing of it.
    pub(crate) fn is_deaf(&self, at: u64, answers: u64) -> bool {
        self.direction == LineDirection::Down && self.load.is_deaf(at, answers)
    }

    /// Doubts that a queue delays answers, which may be the path's: they take as long as
    /// before although the line has had nothing to send, or for long. Then less is asked for.
    /// Where less comes, and as late as before, the path is another one.
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
            // Senders hear of it only after all that delays them.
            let heard = answers.saturating_add(was).saturating_add(KNOWN);
            if at.saturating_sub(then) < heard {
                return Doubt::None;
            }
            (*test, *spare, *since, *shrunk) = (None, 0, at, at);
            // What comes has to be what was asked for: neither a line that carries more, whose
            // queue is real, nor one that nobody uses any more.
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
        } else if self.direction == LineDirection::Down
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

    /// There was no queue: back to what came when it was thought of.
    pub(crate) fn no_queue(&mut self, at: u64) -> Option<Change> {
        let Phase::Drain { estimate, .. } = self.phase else {
            return None;
        };
        self.phase = Phase::Hold { since: at };
        self.become_at(self.within(estimate), Reason::Drained)
    }

    /// Bits per second that came lately; downstream outages do not count.
    fn came(&self, at: u64, window: u64) -> u64 {
        match self.direction {
            LineDirection::Down => self.load.came(at, window),
            LineDirection::Up => self.load.carried(at, window),
        }
    }

    /// What the shaper lets through.
    fn shaped(&self) -> u64 {
        part(self.rate, 1_000_000 - self.limits.margin_ppm, 1_000_000)
    }

    fn within(&self, rate: u64) -> u64 {
        rate.clamp(self.limits.floor, self.limits.ceiling)
    }

    /// Whether it can be what a queue comes from.
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

    /// The first word of a queue.
    fn fall(&mut self, at: u64, delta: u64, window: u64) -> Option<Change> {
        let seen = self.came(at, window);
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
            shortest: delta,
            shrunk: at,
            spare: 0,
            test: None,
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
        self.known.learn(at, estimate);
        self.become_at(self.within(estimate), Reason::Drained)
    }

    /// Whether an experiment would show something now.
    pub(crate) fn may_try(&self, at: u64) -> bool {
        let Phase::Hold { since } = self.phase else {
            return false;
        };
        self.rate < self.limits.ceiling
            && at.saturating_sub(since) >= self.pause.min(self.known.pace(at).later)
            && self.load.filled(at, self.known.pace(at).full)
    }

    /// Begins one; each step lasts until a queue that it makes is known.
    pub(crate) fn try_more(&mut self, at: u64, shows: &Shows) -> Option<Change> {
        let before = self.rate;
        let first = self.known.pace(at).first;
        let kept = (1_000_000 - self.limits.margin_ppm).max(1);
        let rate = part(self.rate, (1_000 + first) * 1_000, kept);
        self.phase = Phase::Try {
            since: at,
            until: at.saturating_add(shows.within(first)),
            step: 0,
            before,
            above: first,
        };
        self.become_at(self.within(rate.max(before)), Reason::Try)
    }

    /// Goes on with an experiment, or ends it. `delta` is how long a queue is now.
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
        // At first the senders have not heard of it.
        let heard = span.saturating_sub(shows.answers).max(span / 2);
        let seen = self.came(at, heard);
        // Receive windows ask for a little less than the shaper lets through. Where a queue
        // stands, however short, what does not come is what the line does not carry.
        let least = if delta > shows.threshold / 2 {
            part(self.shaped(), 2_000 - above, 2_000)
        } else {
            self.shaped() / 10 * 9
        };
        if !self.load.filled(at, span) || seen < least {
            // What did come is known to be possible. Where nothing waits for it, nobody wanted
            // more, and the line may carry more than that. Else it is all that it carries.
            let known = if delta <= shows.threshold / 4 {
                let kept = (1_000_000 - self.limits.margin_ppm).max(1);
                part(seen, 1_000_000, kept)
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

/// A rate below the line's at which a queue is gone in a few tenths of a
/// second: between nineteen twentieths and half of it.
fn drained(estimate: u64, delta: u64) -> u64 {
    let less = part(delta.min(DEEP), 500, DEEP).max(50);
    part(estimate, 1_000 - less, 1_000)
}
