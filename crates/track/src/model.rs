// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a controller is given and what it answers.

use std::fmt;

/// One direction of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LineDirection {
    /// To the outside.
    Up,
    /// From the outside.
    Down,
}

impl LineDirection {
    /// Both, upstream first.
    pub const BOTH: [Self; 2] = [Self::Up, Self::Down];

    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Up => 0,
            Self::Down => 1,
        }
    }
}

/// `up` or `down`.
impl fmt::Display for LineDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Up => "up",
            Self::Down => "down",
        })
    }
}

/// Between which rates one direction is followed; bits per second on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Never below, and here while nothing can be known.
    pub floor: u64,
    /// Where it begins.
    pub base: u64,
    /// Never above.
    pub ceiling: u64,
    /// What the shaper keeps below the rate, in millionths of it.
    pub margin_ppm: u64,
}

/// What a controller is made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Upstream, where it is followed.
    pub up: Option<Limits>,
    /// Downstream, where it is followed.
    pub down: Option<Limits>,
    /// How many reflectors there are; none where the traffic's own round trips
    /// are all that is known.
    pub reflectors: u16,
    /// Nanoseconds between two probes, whoever they go to.
    pub probe_ns: u64,
    /// A longer queue is too long, not counting two full packets of each direction in use;
    /// nanoseconds.
    pub delay_ns: u64,
    /// A full packet's bytes on the wire.
    pub packet: u64,
}

impl Settings {
    /// The limits of a direction.
    #[must_use]
    pub const fn limits(&self, direction: LineDirection) -> Option<&Limits> {
        match direction {
            LineDirection::Up => self.up.as_ref(),
            LineDirection::Down => self.down.as_ref(),
        }
    }

    /// Why they cannot be used; `None` if they can.
    #[must_use]
    pub fn wrong(&self) -> Option<&'static str> {
        let ordered = |limits: &Limits| {
            limits.floor > 0
                && limits.floor <= limits.base
                && limits.base <= limits.ceiling
                && limits.ceiling <= 1 << 50
                && limits.margin_ppm < 1_000_000
        };
        if self.up.is_none() && self.down.is_none() {
            return Some("no direction is followed");
        }
        if !LineDirection::BOTH
            .into_iter()
            .filter_map(|direction| self.limits(direction))
            .all(ordered)
        {
            return Some("the rates have to be in order: 0 < floor <= base <= ceiling");
        }
        if self.reflectors > 64 {
            return Some("there are more than 64 reflectors");
        }
        if !(1_000_000..=10_000_000_000).contains(&self.probe_ns)
            || !(100_000..=10_000_000_000).contains(&self.delay_ns)
            || !(1..=100_000).contains(&self.packet)
        {
            return Some("the interval, the delay or the packet's size is out of range");
        }
        None
    }
}

/// Something that was seen. Times are nanoseconds since any beginning, at most
/// [`Input::LATEST`], and do not go backwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// A probe left.
    Sent {
        /// When.
        at: u64,
        /// To whom, from 0.
        reflector: u16,
        /// Its number, of which no other is under way.
        id: u32,
    },
    /// Its answer came.
    Reply {
        /// When.
        at: u64,
        /// From whom.
        reflector: u16,
        /// The probe's number.
        id: u32,
        /// The reflector's clock less ours when it came to him, and our clock
        /// less his when it left him, in microseconds; where he tells times.
        /// Clocks need not agree: only changes count.
        one_way_us: Option<(i64, i64)>,
    },
    /// The least round trip of the traffic itself to an end outside, of those
    /// that ended since the last time. What follows from it follows when the
    /// counters of the same look are given.
    Passive {
        /// When.
        at: u64,
        /// Which end: a number that no other end has had.
        end: u32,
        /// Nanoseconds.
        round_trip: u64,
    },
    /// What counters reported of a direction, since the last time.
    Load {
        /// When.
        at: u64,
        /// Which direction.
        direction: LineDirection,
        /// Bytes on the wire that crossed the line: downstream what arrived
        /// before the shaper, upstream what the shaper let out.
        bytes: u64,
        /// Bytes that wait in the shaper.
        backlog: u64,
    },
}

impl Input {
    /// The latest time: 146 years after the beginning. Sums of two times fit a
    /// number.
    pub const LATEST: u64 = 1 << 62;

    /// When it was.
    #[must_use]
    pub const fn at(&self) -> u64 {
        match self {
            Self::Sent { at, .. }
            | Self::Reply { at, .. }
            | Self::Passive { at, .. }
            | Self::Load { at, .. } => *at,
        }
    }
}

/// Why a rate is what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It begins.
    Start,
    /// A queue stands before the line: down to what it carries, and lower
    /// until the queue is gone.
    Queue,
    /// The queue is gone: what the line was seen to carry.
    Drained,
    /// An experiment: the shaper is filled and the delay is short.
    Try,
    /// The experiment went well, or showed nothing: this is what is known.
    Tried,
    /// No answer comes: nothing can be known, and the floor is held.
    Blind,
    /// Answers come again.
    Sees,
}

impl Reason {
    /// Each of them.
    pub const ALL: [Self; 7] = [
        Self::Start,
        Self::Queue,
        Self::Drained,
        Self::Try,
        Self::Tried,
        Self::Blind,
        Self::Sees,
    ];
}

/// One word, as in records, metrics and status.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::Queue => "queue",
            Self::Drained => "drained",
            Self::Try => "try",
            Self::Tried => "tried",
            Self::Blind => "blind",
            Self::Sees => "sees",
        })
    }
}

/// What is the matter with a reflector that has no vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// It answers less than half of its probes.
    Silent,
    /// It says for long what no other says.
    Alone,
}

/// `silent` or `alone`.
impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Silent => "silent",
            Self::Alone => "alone",
        })
    }
}

/// An answer of the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// When: the time of the input that led to it.
    pub at: u64,
    /// What.
    pub what: Decided,
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    /// A direction has this rate from now on.
    Rate {
        /// Which direction.
        direction: LineDirection,
        /// The line's rate, bits per second on the wire; the shaper keeps its
        /// margin below.
        rate: u64,
        /// Why.
        reason: Reason,
    },
    /// A reflector's answers do not count any more, or count again.
    Reflector {
        /// Which one, from 0.
        index: u16,
        /// What is the matter; `None` if nothing is any more.
        trouble: Option<Trouble>,
    },
}
