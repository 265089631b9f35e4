// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A history of verifications: how long each service kept its promises, when it did not, and what
//! this means for a promised availability.
//!
//! A service is available while everything else that was promised about it is kept. A verification
//! counts until the next one, at most for [`HOLD`]. Beyond that, and while a service could not be
//! measured, its state is unknown. So availability is a range: unknown time may have been either.

use crate::{Domain, Fate, Quantity, Service};
use std::collections::BTreeMap;
use std::ops::Range;
use weirgate_units::{Arrange as _, Span};

/// The longest time for which a verification counts.
pub const HOLD: Span = Span::from_secs(2 * 60 * 60);

/// The largest number of runs in a history. The runs that ended first are removed.
pub const MOST_RUNS: usize = 20_000;

/// What a verification found about a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Every promise was kept.
    Kept,
    /// These were broken.
    Broken(Vec<Quantity>),
    /// It could not be measured.
    Unknown,
}

/// Consecutive verifications that found the same about a service, at most [`HOLD`] apart. Times are
/// in Unix seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The name of the service.
    pub service: String,
    /// What they found.
    pub condition: Condition,
    /// The time of the first one.
    pub from: u64,
    /// The time of the last one.
    pub until: u64,
    /// Their number.
    pub count: u32,
}

/// All runs, in any order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// The runs.
    pub runs: Vec<Run>,
}

impl History {
    /// Adds a verification at a time in Unix seconds.
    pub fn add(&mut self, now: u64, domain: &Domain, fates: &[Fate]) {
        let mut last: BTreeMap<String, usize> = BTreeMap::new();
        for (at, run) in self.runs.iter().enumerate() {
            let other = last.entry(run.service.clone()).or_insert(at);
            if self.runs[*other].until <= run.until {
                *other = at;
            }
        }
        for (service, fate) in domain.services.iter().zip(fates) {
            let condition = Condition::of(fate);
            let last = last.get(&service.name).map(|at| &mut self.runs[*at]);
            let held = |run: &Run| (run.until..=run.until.saturating_add(hold())).contains(&now);
            match last.filter(|run| run.condition == condition && held(run)) {
                Some(run) => {
                    run.until = now;
                    run.count = run.count.saturating_add(1);
                }
                None => self.runs.push(Run {
                    service: service.name.clone(),
                    condition,
                    from: now,
                    until: now,
                    count: 1,
                }),
            }
        }
        if let Some(excess @ 1..) = self.runs.len().checked_sub(MOST_RUNS) {
            self.runs.arrange_by_key(|run| run.until);
            self.runs.drain(..excess);
        }
    }

    /// Judges every service over a calendar month, as known at a time in Unix seconds. Services are
    /// in the order of the domain.
    #[must_use]
    pub fn judged(&self, domain: &Domain, month: &Range<u64>, now: u64) -> Vec<Audit> {
        let mut runs: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
        for run in &self.runs {
            runs.entry(&run.service).or_default().push(run);
        }
        let services = domain.services.iter();
        let judged = services.map(|service| {
            let mut own = runs.remove(service.name.as_str()).unwrap_or_default();
            own.arrange_by_key(|run| run.from);
            Audit::of(service, &own, month, now)
        });
        judged.collect()
    }
}

impl Condition {
    fn of(fate: &Fate) -> Self {
        let Fate::Judged(comparisons) = fate else {
            return Self::Unknown;
        };
        let broken = comparisons.iter().filter(|one| !one.kept);
        let broken: Vec<Quantity> = broken.map(|one| one.quantity).collect();
        if broken.is_empty() {
            Self::Kept
        } else {
            Self::Broken(broken)
        }
    }
}

/// Whether a promise about a month is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// It is, whatever happened in the unknown time.
    Kept,
    /// It is not, even if all was well in the unknown time.
    Broken,
    /// Too much time is unknown.
    Open,
}

impl Judgement {
    /// Compares a limit with the least and the largest possible figure.
    fn of(limit: Span, least: Span, most: Span) -> Self {
        match (least > limit, most > limit) {
            (true, _) => Self::Broken,
            (false, true) => Self::Open,
            (false, false) => Self::Kept,
        }
    }

    /// Returns it as a word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Broken => "broken",
            Self::Open => "unknown",
        }
    }
}

/// A time in which promises of a service were broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Break {
    /// Which promises.
    pub broken: Vec<Quantity>,
    /// The beginning, in Unix seconds: the first verification that found it.
    pub from: u64,
    /// The end, in Unix seconds: the first verification that found something else, or the time
    /// until which the last one counts.
    pub until: u64,
}

/// A service over a month.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audit {
    /// The time that has passed of the month.
    pub passed: Span,
    /// The time in which a promise was broken.
    pub down: Span,
    /// The time of which nothing is known.
    pub unknown: Span,
    /// The longest known outage.
    pub longest: Span,
    /// The longest possible outage: time without a known break counts if nothing is known of it.
    pub possible: Span,
    /// When promises were broken.
    pub breaks: Vec<Break>,
    /// Whether the availability is kept, if one is promised. While the month lasts, the down time
    /// so far is compared with that of the whole month.
    pub availability: Option<Judgement>,
    /// Whether the longest outage is kept, if one is promised.
    pub outage: Option<Judgement>,
}

impl Audit {
    fn of(service: &Service, runs: &[&Run], month: &Range<u64>, now: u64) -> Self {
        let stop = month.end.min(now);
        let mut audit = Self {
            passed: seconds(&(month.start..stop)),
            ..Self::default()
        };
        let mut clock = Clock::default();
        let mut at = month.start;
        for (number, run) in runs.iter().enumerate() {
            let next = runs.get(number + 1).map_or(u64::MAX, |next| next.from);
            let end = run.until.saturating_add(hold()).min(next).min(stop);
            let known = run.from.max(at)..end;
            if known.is_empty() {
                continue;
            }
            clock.unknown(seconds(&(at..known.start)));
            at = known.end;
            match &run.condition {
                Condition::Kept => clock.up(),
                Condition::Unknown => clock.unknown(seconds(&known)),
                Condition::Broken(broken) => {
                    clock.down(seconds(&known));
                    audit.breaks.push(Break {
                        broken: broken.clone(),
                        from: known.start,
                        until: known.end,
                    });
                }
            }
        }
        clock.unknown(seconds(&(at..stop)));
        audit.down = clock.down;
        audit.unknown = clock.unknown;
        (audit.longest, audit.possible) = (clock.longest, clock.possible);
        let most = audit.down + audit.unknown;
        // Without any measurement, a month that has just begun is not kept.
        let is_known = audit.unknown < audit.passed;
        let judged = |limit, least, most| {
            if is_known {
                Judgement::of(limit, least, most)
            } else {
                Judgement::Open
            }
        };
        let limit = service.unavailable(seconds(month));
        let availability = limit.map(|limit| judged(limit, audit.down, most));
        let outage = service.outage;
        let outage = outage.map(|limit| judged(limit, audit.longest, audit.possible));
        (audit.availability, audit.outage) = (availability, outage);
        audit
    }

    /// Returns the smallest and largest possible availability so far; `None` if no time has passed.
    #[must_use]
    pub fn available(&self) -> Option<[f64; 2]> {
        let passed = self.passed.as_nanos();
        let part = |down: Span| {
            let up = passed.saturating_sub(down.as_nanos());
            up as f64 / passed as f64
        };
        (passed > 0).then(|| [part(self.down + self.unknown), part(self.down)])
    }

    /// Returns whether everything is kept. If an availability or a longest outage is promised,
    /// these decide. Otherwise no promise may have been broken, and something must be known.
    #[must_use]
    pub fn sound(&self) -> bool {
        let mut judged = self.availability.into_iter().chain(self.outage).peekable();
        if judged.peek().is_some() {
            return judged.all(|one| one == Judgement::Kept);
        }
        self.breaks.is_empty() && self.unknown < self.passed
    }
}

/// Adds up times, and finds the longest in a row.
#[derive(Debug, Default)]
struct Clock {
    down: Span,
    unknown: Span,
    longest: Span,
    possible: Span,
    /// The present outage, as known and as possible.
    now: [Span; 2],
}

impl Clock {
    fn up(&mut self) {
        self.now = [Span::ZERO; 2];
    }

    fn down(&mut self, span: Span) {
        self.down = self.down + span;
        self.now = self.now.map(|now| now + span);
        self.longest = self.longest.max(self.now[0]);
        self.possible = self.possible.max(self.now[1]);
    }

    fn unknown(&mut self, span: Span) {
        if span > Span::ZERO {
            self.unknown = self.unknown + span;
            self.now = [Span::ZERO, self.now[1] + span];
            self.possible = self.possible.max(self.now[1]);
        }
    }
}

fn seconds(range: &Range<u64>) -> Span {
    Span::from_secs(range.end.saturating_sub(range.start))
}

fn hold() -> u64 {
    HOLD.as_nanos() / 1_000_000_000
}
