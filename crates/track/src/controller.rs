// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Combines the answers of the reflectors with the counters of the line.

use crate::direction::{Change, Doubt, LineState, Shows};
use crate::model::{Decided, Decision, Input, Reason, Settings};
use crate::votes::{QueueDelay, Votes};
use weirgate_units::Direction;

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLISECOND;

/// Follows the rates of one line.
#[derive(Debug)]
pub struct Controller {
    settings: Settings,
    votes: Votes,
    lines: [Option<LineState>; 2],
    blind: bool,
    /// The start of the time without load in either direction.
    idle: Option<u64>,
    now: u64,
    begun: bool,
    /// Whether the traffic's own round trips were reported since the last look.
    heard: bool,
}

impl Controller {
    /// Makes a controller at the base rates. An error says why the settings cannot be used.
    pub fn new(settings: Settings) -> Result<Self, &'static str> {
        if let Some(wrong) = settings.wrong() {
            return Err(wrong);
        }
        let line = |direction| Some(LineState::new(direction, *settings.limits(direction)?));
        Ok(Self {
            votes: Votes::new(settings.reflectors, settings.probe_ns),
            lines: Direction::BOTH.map(line),
            settings,
            blind: false,
            idle: None,
            now: 0,
            begun: false,
            heard: false,
        })
    }

    /// Returns the settings.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the present rate of a direction in bits per second on the wire; `None` if it is
    /// not followed.
    #[must_use]
    pub fn rate(&self, direction: Direction) -> Option<u64> {
        self.lines[direction.index()].as_ref().map(|line| line.rate)
    }

    /// Returns whether nothing can be measured, because no reflector answers.
    #[must_use]
    pub const fn blind(&self) -> bool {
        self.blind
    }

    /// Returns whether there is no traffic whose round trips could be measured.
    #[must_use]
    pub const fn idle(&self) -> bool {
        self.idle.is_some()
    }

    /// Returns whether an experiment runs, or a queue is being drained.
    #[must_use]
    pub fn busy(&self) -> bool {
        let mut lines = self.lines.iter().flatten();
        lines.any(|line| line.trying() || line.draining())
    }

    /// Returns the time until the next probe. It is shorter during an experiment or a queue, and
    /// longer after the line has been idle for long.
    #[must_use]
    pub fn pause(&self) -> u64 {
        let busy = self.busy();
        let calm = self
            .idle
            .is_some_and(|since| self.now.saturating_sub(since) >= 30 * SECOND);
        match (busy, calm) {
            (true, _) => self.settings.probe_ns / 2,
            (false, false) => self.settings.probe_ns,
            (false, true) => self.settings.probe_ns.saturating_mul(10).min(SECOND),
        }
    }

    /// Takes an input, and returns the decisions that follow. An input that is older than the
    /// last one counts as of the last one's time. An input after [`Input::LATEST`] counts as of
    /// that time.
    pub fn take(&mut self, input: &Input) -> Vec<Decision> {
        let mut tell = Vec::new();
        let at = input.at().min(Input::LATEST).max(self.now);
        self.now = at;
        if !self.begun {
            self.begun = true;
            for direction in Direction::BOTH {
                if let Some(rate) = self.rate(direction) {
                    let reason = Reason::Start;
                    let what = Decided::Rate {
                        direction,
                        rate,
                        reason,
                    };
                    tell.push(Decision { at, what });
                }
            }
        }
        let news;
        match *input {
            Input::Sent { reflector, id, .. } => {
                self.votes.sent(at, reflector, id);
                return tell;
            }
            Input::Reply {
                reflector,
                id,
                one_way_us,
                ..
            } => {
                let loaded = self.idle.is_none();
                self.votes.reply(at, reflector, id, one_way_us, loaded);
                news = true;
            }
            Input::Passive {
                end, round_trip, ..
            } => {
                let loaded = self.idle.is_none();
                self.heard |= self.votes.passive(at, end, round_trip, loaded);
                return tell;
            }
            Input::Load {
                direction,
                bytes,
                backlog,
                ..
            } => {
                news = std::mem::take(&mut self.heard);
                if let Some(line) = &mut self.lines[direction.index()] {
                    line.load(at, bytes, backlog);
                }
                let loaded = self.lines.iter().flatten().any(|line| line.loaded(at));
                if loaded {
                    self.idle = None;
                } else {
                    self.idle.get_or_insert(at);
                }
                self.votes.loaded(at, loaded);
            }
        }
        self.look(at, news, &mut tell);
        tell
    }

    fn look(&mut self, at: u64, news: bool, tell: &mut Vec<Decision>) {
        let threshold = self.threshold(at);
        self.votes.look(at, threshold, tell);
        if self.votes.blind != self.blind {
            self.blind = self.votes.blind;
            for (direction, line) in Direction::BOTH.into_iter().zip(&mut self.lines) {
                if let Some(line) = line {
                    let change = if self.blind {
                        line.blind(at)
                    } else {
                        line.sees(at)
                    };
                    tell.push(decision(at, direction, change));
                }
            }
        }
        if self.blind {
            return;
        }
        let Some(delay) = self.votes.delay(at) else {
            return;
        };
        let late = self.late(at, &delay, threshold);
        let helpless = delay.delta > threshold
            && Direction::BOTH.into_iter().all(|direction| {
                let line = self.lines[direction.index()].as_ref();
                !late[direction.index()] || line.is_none_or(LineState::at_floor)
            });
        self.votes.helpless(at, helpless);
        let shows = self.shows(threshold);
        let up_late = late[Direction::Up.index()];
        for direction in Direction::BOTH {
            let own = self.own_threshold(direction);
            let (delta, least) = match delay.one_way {
                Some(both) => (
                    both[direction.index()],
                    delay.least.min(both[direction.index()]),
                ),
                None => (delay.delta, delay.least),
            };
            let limit = if delay.one_way.is_some() {
                own
            } else {
                threshold
            };
            let Some(line) = &mut self.lines[direction.index()] else {
                continue;
            };
            let is_deaf = line.is_deaf(at, shows.answers);
            let is_clear = line.draining() && least < limit / 2;
            // If the upstream is late, both directions may be.
            let doubt = if is_deaf || is_clear || up_late {
                Doubt::None
            } else {
                line.doubt(at, delta, shows.answers)
            };
            let change = if let Doubt::Lower(change) = doubt {
                Some(change)
            } else if matches!(doubt, Doubt::AnotherPath) {
                self.votes.another_path();
                line.no_queue(at)
            } else if is_deaf && (late[direction.index()] || line.trying()) {
                None
            } else if late[direction.index()] {
                if !line.draining() {
                    self.votes.begin();
                }
                line.late(at, delta, news)
            } else if is_clear {
                let change = line.clear(at);
                // Earlier answers are about the queue that is gone.
                self.votes.forget();
                change
            } else if line.trying() {
                line.go_on(at, &shows, delay.delta)
            } else {
                None
            };
            if let Some(change) = change {
                tell.push(decision(at, direction, change));
            }
        }
        self.begin(at, &delay, &shows, tell);
    }

    /// Begins an experiment if it can show something. Only one direction has an experiment at a
    /// time: with two, the cause of a queue would be unknown.
    fn begin(&mut self, at: u64, delay: &QueueDelay, shows: &Shows, tell: &mut Vec<Decision>) {
        if delay.delta > shows.threshold / 2 || self.busy() {
            return;
        }
        for direction in Direction::BOTH {
            let Some(line) = &mut self.lines[direction.index()] else {
                continue;
            };
            if !line.may_try(at) {
                continue;
            }
            if let Some(change) = line.try_more(at, shows) {
                tell.push(decision(at, direction, change));
            }
            return;
        }
    }

    /// Returns the directions in which a queue stands.
    fn late(&self, at: u64, delay: &QueueDelay, threshold: u64) -> [bool; 2] {
        if delay.delta <= threshold {
            return [false; 2];
        }
        let of = |test: &dyn Fn(&LineState) -> bool| {
            [0, 1].map(|index| self.lines[index].as_ref().is_some_and(test))
        };
        let any = |directions: [bool; 2]| directions[0] || directions[1];
        let loaded = of(&|line| line.loaded(at) || line.draining());
        if let Some(one_way) = delay.one_way {
            // The two add up to the whole, so at least one is half of it.
            let half = (delay.delta / 2).min(one_way[0].max(one_way[1]));
            return [0, 1].map(|index| loaded[index] && one_way[index] >= half.max(1));
        }
        // The direction that drains a queue, or the one with an experiment; otherwise every
        // loaded direction.
        let draining = of(&LineState::draining);
        let trying = of(&|line| line.trying() && line.loaded(at));
        if any(draining) {
            draining
        } else if any(trying) {
            trying
        } else {
            loaded
        }
    }

    /// Returns the delay above which a queue stands: the permitted delay, and the time of two
    /// packets for each direction in use. When the probe arrives, one packet may be in
    /// transmission here and one at the far end.
    fn threshold(&self, at: u64) -> u64 {
        let packets = self
            .lines
            .iter()
            .flatten()
            .filter(|line| line.loaded(at) || line.draining())
            .map(|line| line.packet_ns(2 * self.settings.packet));
        packets.fold(self.settings.delay_ns, u64::saturating_add)
    }

    /// Returns that delay for a single direction.
    fn own_threshold(&self, direction: Direction) -> u64 {
        let line = self.lines[direction.index()].as_ref();
        let packet = line.map_or(0, |line| line.packet_ns(2 * self.settings.packet));
        self.settings.delay_ns.saturating_add(packet)
    }

    /// Returns when a queue that an experiment causes becomes known.
    fn shows(&self, threshold: u64) -> Shows {
        // Without reflectors, two readings make a vote, whatever the interval of probes.
        let interval = match self.settings.reflectors {
            0 => self.settings.probe_ns.min(100 * MILLISECOND),
            _ => self.settings.probe_ns,
        };
        let answers = interval.saturating_add(self.votes.round_trip());
        Shows {
            threshold,
            answers: answers.min(2 * SECOND),
        }
    }
}

fn decision(at: u64, direction: Direction, (rate, reason): Change) -> Decision {
    let what = Decided::Rate {
        direction,
        rate,
        reason,
    };
    Decision { at, what }
}
