// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The inputs of a controller, and its decisions.

use crate::direction::part;
use std::fmt;
use weirgate_units::Direction;

/// The whole of a rate, in millionths.
const WHOLE: u64 = 1_000_000;

/// The limits of the rate of one direction, in bits per second on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The lowest rate, and the rate while nothing can be measured.
    pub floor: u64,
    /// The initial rate.
    pub base: u64,
    /// The highest rate.
    pub ceiling: u64,
    /// How far below the rate the shaper stays, in millionths of the rate.
    pub margin_ppm: u64,
    /// How far below the rate it stays at least, in bits per second: a margin that does not
    /// shrink with the rate.
    pub margin_bits: u64,
}

impl Limits {
    /// Returns what the shaper lets through if the line has `rate`.
    pub(crate) fn shaped(&self, rate: u64) -> u64 {
        part(rate, WHOLE - self.margin_ppm, WHOLE).min(rate.saturating_sub(self.margin_bits))
    }

    /// Returns the rate of the line at which the shaper lets through this many thousandths of
    /// `shaped`.
    pub(crate) fn unshaped(&self, shaped: u64, thousandths: u64) -> u64 {
        let kept = (WHOLE - self.margin_ppm).max(1);
        let share = part(shaped, thousandths * 1_000, kept);
        share.max(part(shaped, thousandths, 1_000).saturating_add(self.margin_bits))
    }
}

/// The settings of a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The limits upstream; `None` if that is not followed.
    pub up: Option<Limits>,
    /// The limits downstream; `None` if that is not followed.
    pub down: Option<Limits>,
    /// The number of reflectors; 0 if only round trips of the traffic itself are measured.
    pub reflectors: u16,
    /// Nanoseconds between two probes, to any reflectors.
    pub probe_ns: u64,
    /// A longer queue is too long, not counting two full packets of each direction in use;
    /// nanoseconds.
    pub delay_ns: u64,
    /// A full packet's bytes on the wire.
    pub packet: u64,
}

impl Settings {
    /// Returns the limits of a direction.
    #[must_use]
    pub const fn limits(&self, direction: Direction) -> Option<&Limits> {
        match direction {
            Direction::Up => self.up.as_ref(),
            Direction::Down => self.down.as_ref(),
        }
    }

    /// Returns why the settings cannot be used; `None` if they can.
    #[must_use]
    pub fn wrong(&self) -> Option<&'static str> {
        let ordered = |limits: &Limits| {
            limits.floor > 0
                && limits.floor <= limits.base
                && limits.base <= limits.ceiling
                && limits.ceiling <= 1 << 50
                && limits.margin_ppm < WHOLE
        };
        if self.up.is_none() && self.down.is_none() {
            return Some("no direction is followed");
        }
        if !Direction::BOTH
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

/// An observation. Times are nanoseconds since an arbitrary start, at most [`Input::LATEST`], and
/// do not go backwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// A probe left.
    Sent {
        /// When.
        at: u64,
        /// The index of the reflector.
        reflector: u16,
        /// The probe's number, which no other outstanding probe has.
        id: u32,
    },
    /// Its answer came.
    Reply {
        /// When.
        at: u64,
        /// The index of the reflector.
        reflector: u16,
        /// The probe's number.
        id: u32,
        /// One-way times in microseconds, if the reflector reports times. The first is the
        /// reflector's clock at the probe's arrival less ours at its departure. The second is our
        /// clock at the answer's arrival less the reflector's at its departure. The clocks need
        /// not agree: only changes count.
        one_way_us: Option<(i64, i64)>,
    },
    /// The shortest round trip of the traffic itself to one outside end, of those that ended
    /// since the last report. It takes effect when the counters of the same reading come.
    Passive {
        /// When.
        at: u64,
        /// The number of the end, which no other end has had.
        end: u32,
        /// Nanoseconds.
        round_trip: u64,
    },
    /// The counters of a direction since the last report.
    Load {
        /// When.
        at: u64,
        /// Which direction.
        direction: Direction,
        /// Bytes on the wire that crossed the line: downstream, those that arrived before the
        /// shaper; upstream, those that the shaper sent.
        bytes: u64,
        /// Bytes that wait in the shaper.
        backlog: u64,
    },
}

impl Input {
    /// The latest time: 146 years after the beginning. Sums of two times fit a
    /// number.
    pub const LATEST: u64 = 1 << 62;

    /// Returns the time of the input.
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

/// The reason for a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The initial rate.
    Start,
    /// A queue stands before the line: the rate goes down to what the line carries, and lower
    /// until the queue is gone.
    Queue,
    /// The queue is gone: the rate is what the line was measured to carry.
    Drained,
    /// An experiment: the shaper is filled and the delay is short.
    Try,
    /// The experiment succeeded or showed nothing: the rate is the known one.
    Tried,
    /// No answer comes: nothing can be measured, and the rate is the floor.
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

/// Why a reflector has no vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// It answers less than half of its probes.
    Silent,
    /// It has contradicted all others for long.
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

/// A decision of the controller, with its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// When: the time of the input that led to it.
    pub at: u64,
    /// What.
    pub what: Decided,
}

/// A decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    /// A direction has this rate from now on.
    Rate {
        /// Which direction.
        direction: Direction,
        /// The line's rate in bits per second on the wire; the shaper stays below it by its
        /// margin.
        rate: u64,
        /// Why.
        reason: Reason,
    },
    /// A reflector loses its vote, or gets it back.
    Reflector {
        /// Which one, from 0.
        index: u16,
        /// Why it has no vote; `None` if it has one again.
        trouble: Option<Trouble>,
    },
}
