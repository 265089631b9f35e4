// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The verdict of all reflectors about the queue before the line.

use crate::model::{Decided, Decision};
use crate::passive::Passive;
use crate::reflector::Reflector;
use std::collections::{BTreeMap, VecDeque};
use weirgate_units::Arrange as _;

const SECOND: u64 = 1_000_000_000;
/// After this time a probe counts as lost.
const LOST: u64 = 3 * SECOND / 2;
/// Older answers do not count, unless probes are so rare that fewer than [`VOTES`] would.
const FRESH: u64 = SECOND;
/// The number of last answers whose median counts.
const VOTES: usize = 3;
/// After this time and this many probes without an answer, the tracker is blind.
const BLIND: u64 = 3 * SECOND / 2;
const BLIND_PROBES: u32 = 5;
/// This many answers in a row end blindness.
const SEES: u32 = 5;
/// The maximum number of outstanding probes that are stored.
const MOST: usize = 256;

/// The voter that is not a reflector: round trips of the traffic itself.
const PASSIVE: u16 = u16::MAX;

/// How much longer than its minimum one answer took.
#[derive(Debug, Clone, Copy)]
struct Vote {
    at: u64,
    /// The voter; [`PASSIVE`] for round trips of the traffic itself.
    reflector: u16,
    rtt: u64,
    one_way: Option<[u64; 2]>,
}

/// The verdict of all voters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct QueueDelay {
    /// The median of the last deltas, in nanoseconds.
    pub(crate) delta: u64,
    /// The smaller of the last two deltas: a low one shows that the queue is gone already.
    pub(crate) least: u64,
    /// The same as `delta` for each direction, where times are reported.
    pub(crate) one_way: Option<[u64; 2]>,
}

#[derive(Debug)]
pub(crate) struct Votes {
    reflectors: Vec<Reflector>,
    under_way: BTreeMap<(u16, u32), u64>,
    last: VecDeque<Vote>,
    answered: Option<u64>,
    unanswered: u32,
    in_a_row: u32,
    pub(crate) blind: bool,
    since_late: Option<u64>,
    passive: Passive,
    /// The age up to which answers count.
    fresh: u64,
}

impl Votes {
    /// `probe_ns` is the time between two probes.
    pub(crate) fn new(reflectors: u16, probe_ns: u64) -> Self {
        Self {
            reflectors: vec![Reflector::default(); reflectors.into()],
            fresh: FRESH.max(probe_ns.saturating_mul(VOTES as u64)),
            under_way: BTreeMap::new(),
            last: VecDeque::new(),
            answered: None,
            unanswered: 0,
            in_a_row: 0,
            blind: false,
            since_late: None,
            passive: Passive::default(),
        }
    }

    pub(crate) fn sent(&mut self, at: u64, reflector: u16, id: u32) {
        // The oldest one is the most likely to be lost.
        if self.under_way.len() >= MOST {
            let oldest = self.under_way.iter().min_by_key(|(_, at)| **at);
            if let Some(key) = oldest.map(|(key, _)| *key) {
                self.under_way.remove(&key);
            }
        }
        self.answered.get_or_insert(at);
        self.unanswered = self.unanswered.saturating_add(1);
        self.under_way.insert((reflector, id), at);
    }

    /// Takes an answer. An answer to no outstanding probe is ignored.
    pub(crate) fn reply(
        &mut self,
        at: u64,
        reflector: u16,
        id: u32,
        one_way_us: Option<(i64, i64)>,
        loaded: bool,
    ) {
        let Some(sent) = self.under_way.remove(&(reflector, id)) else {
            return;
        };
        let Some(one) = self.reflectors.get_mut(usize::from(reflector)) else {
            return;
        };
        self.answered = Some(at);
        self.unanswered = 0;
        self.in_a_row = self.in_a_row.saturating_add(1);
        one.count(true);
        let rtt = i64::try_from(at.saturating_sub(sent)).unwrap_or(i64::MAX / 2);
        // A day in either direction: a larger difference does not come from a clock.
        let sane = |us: i64| us.clamp(-86_400_000_000, 86_400_000_000) * 1_000;
        let vote = Vote {
            at,
            reflector,
            rtt: one.rtt.delta(at, rtt, loaded),
            one_way: one_way_us.map(|(up, down)| {
                [
                    one.one_way[0].delta(at, sane(up), loaded),
                    one.one_way[1].delta(at, sane(down), loaded),
                ]
            }),
        };
        self.push(vote);
    }

    fn push(&mut self, vote: Vote) {
        self.last.push_back(vote);
        while self.last.len() > 4 * VOTES * (self.reflectors.len() + 1) {
            self.last.pop_front();
        }
    }

    /// Takes a round trip of the traffic itself. Returns whether it gives a vote.
    pub(crate) fn passive(&mut self, at: u64, end: u32, round_trip: u64, loaded: bool) -> bool {
        let Some(delta) = self.passive.take(at, end, round_trip, loaded) else {
            return false;
        };
        // The round trips of one reading are one vote, which each of them may change.
        if let Some(last) = self.last.back_mut()
            && last.reflector == PASSIVE
            && last.at == at
        {
            last.rtt = delta;
            return true;
        }
        self.answered = Some(at);
        self.unanswered = 0;
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.push(Vote {
            at,
            reflector: PASSIVE,
            rtt: delta,
            one_way: None,
        });
        true
    }

    /// Whether traffic crosses the line. If there are no reflectors, round trips of this traffic
    /// are expected; a line without load cannot be measured.
    pub(crate) fn loaded(&mut self, at: u64, loaded: bool) {
        if !self.reflectors.is_empty() {
            return;
        }
        if loaded {
            self.answered.get_or_insert(at);
            self.unanswered = self.unanswered.saturating_add(1);
        } else {
            self.answered = None;
            self.unanswered = 0;
        }
    }

    /// Applies the passage of time: probes are lost, reflectors lose their vote, and the tracker
    /// may become blind.
    pub(crate) fn look(&mut self, at: u64, threshold: u64, tell: &mut Vec<Decision>) {
        let reflectors = &mut self.reflectors;
        let mut lost = false;
        self.under_way.retain(|(reflector, _), sent| {
            let late = at.saturating_sub(*sent) >= LOST;
            if late && let Some(one) = reflectors.get_mut(usize::from(*reflector)) {
                one.count(false);
                lost = true;
            }
            !late
        });
        if lost {
            self.in_a_row = 0;
        }
        let silence = self.answered.map_or(0, |then| at.saturating_sub(then));
        if silence >= BLIND && self.unanswered >= BLIND_PROBES {
            self.blind = true;
            self.in_a_row = 0;
        } else if self.in_a_row >= SEES {
            self.blind = false;
        }
        self.judge(at, threshold, tell);
    }

    fn judge(&mut self, at: u64, threshold: u64, tell: &mut Vec<Decision>) {
        let newest = |index: usize| {
            let of = |vote: &&Vote| usize::from(vote.reflector) == index;
            self.last.iter().rev().find(of).map(|vote| vote.rtt)
        };
        let all: Vec<Option<u64>> = (0..self.reflectors.len()).map(newest).collect();
        let late = all.iter().flatten().filter(|rtt| **rtt > threshold).count();
        let known = all.iter().flatten().count();
        for (index, one) in self.reflectors.iter_mut().enumerate() {
            let own = all[index].is_some_and(|rtt| rtt > threshold);
            // Of two reflectors, it is unknown which one is wrong.
            let alone = own && late == 1 && known >= 3;
            if one.judge(at, alone) {
                tell.push(Decision {
                    at,
                    what: Decided::Reflector {
                        index: index as u16,
                        trouble: one.trouble,
                    },
                });
            }
        }
    }

    /// The present verdict; `None` if too little is known. A probe that is overdue counts with
    /// the time that it has taken so far.
    pub(crate) fn delay(&self, at: u64) -> Option<QueueDelay> {
        let trusted = |reflector: u16| {
            if reflector == PASSIVE {
                return true;
            }
            let all_bad = self.reflectors.iter().all(|one| one.trouble.is_some());
            let one = self.reflectors.get(usize::from(reflector));
            all_bad || one.is_some_and(|one| one.trouble.is_none())
        };
        let mut votes: Vec<Vote> = Vec::new();
        for ((reflector, _), sent) in &self.under_way {
            let least = self.reflectors.get(usize::from(*reflector));
            let Some(least) = least.and_then(|one| one.rtt.least()) else {
                continue;
            };
            let over = at.saturating_sub(*sent).saturating_sub(least.max(0) as u64);
            if trusted(*reflector) && over > 0 {
                votes.push(Vote {
                    at: *sent,
                    reflector: *reflector,
                    rtt: over,
                    one_way: None,
                });
            }
        }
        // The probe that was sent first has waited longest.
        votes.arrange_by_key(|vote| (vote.at, vote.reflector));
        votes.truncate(VOTES);
        let overdue = votes.len();
        let fresh =
            |vote: &&Vote| at.saturating_sub(vote.at) <= self.fresh && trusted(vote.reflector);
        let answers = self.last.iter().rev().filter(fresh).take(VOTES);
        // An outstanding probe counts as an answer only if it has taken longer.
        let answers: Vec<Vote> = answers.copied().collect();
        let longest = answers.iter().map(|vote| vote.rtt).max().unwrap_or(0);
        let mut all: Vec<Vote> = votes
            .into_iter()
            .take(overdue)
            .filter(|vote| vote.rtt > longest)
            .chain(answers.iter().copied())
            .take(VOTES)
            .collect();
        if all.len() < 2 {
            return None;
        }
        let least = all.iter().take(2).map(|vote| vote.rtt).min().unwrap_or(0);
        let one_way = median_of(&answers, |vote| vote.one_way.map(|both| both[0]))
            .zip(median_of(&answers, |vote| vote.one_way.map(|both| both[1])))
            .map(|(up, down)| [up, down]);
        all.arrange_by_key(|vote| vote.rtt);
        Some(QueueDelay {
            // Of two values, the smaller one.
            delta: all[(all.len() - 1) / 2].rtt,
            least,
            one_way,
        })
    }

    /// Starts to look for the minimum of a path that may have changed.
    pub(crate) fn begin(&mut self) {
        self.passive.begin();
        for one in &mut self.reflectors {
            one.begin();
        }
    }

    /// The path has become longer: adopts the minima since the last [`Self::begin`].
    pub(crate) fn another_path(&mut self) {
        self.last.clear();
        self.passive.take_lately();
        for one in &mut self.reflectors {
            one.take_lately();
        }
    }

    /// Forgets all answers about the queue so far.
    pub(crate) fn forget(&mut self) {
        self.last.clear();
    }

    /// Notes whether the delay is long although the rate cannot go lower. After long enough, it
    /// counts as the delay of the path.
    pub(crate) fn helpless(&mut self, at: u64, helpless: bool) {
        if !helpless {
            self.since_late = None;
            return;
        }
        let Some(since) = self.since_late else {
            self.since_late = Some(at);
            self.begin();
            return;
        };
        if at.saturating_sub(since) >= crate::reflector::GIVE_IN {
            self.since_late = None;
            self.passive.give_in(at);
            for one in &mut self.reflectors {
                one.give_in(at);
            }
        }
    }

    /// The shortest round trip that is known, in nanoseconds.
    pub(crate) fn round_trip(&self) -> u64 {
        let all = self.reflectors.iter().filter_map(|one| one.rtt.least());
        all.chain(self.passive.least()).min().unwrap_or(0).max(0) as u64
    }
}

/// The median of the values that exist; `None` if fewer than two do.
fn median_of(votes: &[Vote], of: impl Fn(&Vote) -> Option<u64>) -> Option<u64> {
    let mut all: Vec<u64> = votes.iter().filter_map(of).collect();
    all.arrange();
    (all.len() >= 2).then(|| all[(all.len() - 1) / 2])
}
