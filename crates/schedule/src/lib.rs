// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Times of the day and week: converts local hours to UTC.
//!
//! ```
//! use weirgate_schedule::{Clock, Day, Schedule, hours};
//!
//! let night = hours("23:00-07:00").unwrap();
//! let clock = Clock::of_zone("Europe/Copenhagen").unwrap();
//! let schedule = Schedule::new(&[Day::Fri], &[night], &clock);
//! // Saturday, 14 February 2026, 05:59 and 06:00 UTC.
//! assert!(schedule.holds(1_771_048_740));
//! assert!(!schedule.holds(1_771_048_800));
//! assert_eq!(schedule.changes(1_771_048_740), 1_771_048_800);
//! ```

mod spans;
mod zone;

pub use spans::{Hours, hours};
pub use zone::Clock;

const DAY: i64 = 86_400;
const WEEK: i64 = 7 * DAY;

/// A day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Day {
    /// Sunday, 0 in a [`TimeSpan`].
    Sun,
    /// Monday.
    Mon,
    /// Tuesday.
    Tue,
    /// Wednesday.
    Wed,
    /// Thursday.
    Thu,
    /// Friday.
    Fri,
    /// Saturday, 6 in a [`TimeSpan`].
    Sat,
}

impl Day {
    /// All days, beginning with Monday.
    pub const ALL: [Self; 7] = [
        Self::Mon,
        Self::Tue,
        Self::Wed,
        Self::Thu,
        Self::Fri,
        Self::Sat,
        Self::Sun,
    ];

    /// Returns the day's name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mon => "mon",
            Self::Tue => "tue",
            Self::Wed => "wed",
            Self::Thu => "thu",
            Self::Fri => "fri",
            Self::Sat => "sat",
            Self::Sun => "sun",
        }
    }
}

/// Times in a week, in UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// One season if the clock's offset from UTC never changes, otherwise one for each offset.
    pub seasons: Vec<Season>,
}

/// The intervals with one offset from UTC, and the times of day in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Season {
    /// Intervals in seconds since 1970, both ends inclusive; empty means always.
    pub intervals: Vec<(u64, u64)>,
    /// Disjoint times of day with their days.
    pub spans: Vec<TimeSpan>,
}

/// A time of day on some days of the week.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeSpan {
    /// The days, sorted; Sunday is 0.
    pub days: Vec<u8>,
    /// The first second of the day.
    pub from: u32,
    /// The last second of the day, inclusive.
    pub to: u32,
}

impl Schedule {
    /// Returns the schedule of hours that begin on these days, by this clock.
    #[must_use]
    pub fn new(days: &[Day], hours: &[Hours], clock: &Clock) -> Self {
        let season = |(ahead, intervals): &(i64, Vec<(u64, u64)>)| Season {
            intervals: intervals.clone(),
            spans: spans::of(days, hours, *ahead),
        };
        Self {
            seasons: clock.offsets().iter().map(season).collect(),
        }
    }

    /// Returns the number of time spans in all seasons.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.seasons.iter().map(|season| season.spans.len()).sum()
    }

    /// Returns whether a time, in seconds since 1970, is within the schedule.
    #[must_use]
    pub fn holds(&self, at: u64) -> bool {
        self.seasons.iter().any(|season| season.holds(at))
    }

    /// Returns the next second after `at` at which the schedule may begin or end, at most a week
    /// away.
    #[must_use]
    pub fn changes(&self, at: u64) -> u64 {
        let seasons = self.seasons.iter();
        let next = seasons.filter_map(|season| season.changes(at)).min();
        next.unwrap_or_else(|| at.saturating_add(WEEK.unsigned_abs()))
    }
}

/// Returns the day of the week and the second of the day of a time since 1970, which began on a
/// Thursday.
fn day_and_second(at: u64) -> (u8, u32) {
    let day = DAY.unsigned_abs();
    (((at / day + 4) % 7) as u8, (at % day) as u32)
}

impl Season {
    /// Returns whether the clock has this offset at that time.
    fn is_now(&self, at: u64) -> bool {
        // The last second of an interval is the first second of the next one.
        let within = |(from, to): &(u64, u64)| (*from..*to).contains(&at);
        self.intervals.is_empty() || self.intervals.iter().any(within)
    }

    fn holds(&self, at: u64) -> bool {
        if !self.is_now(at) {
            return false;
        }
        let (day, second) = day_and_second(at);
        let spans = self.spans.iter();
        spans
            .filter(|span| span.days.contains(&day))
            .any(|span| (span.from..=span.to).contains(&second))
    }

    fn changes(&self, at: u64) -> Option<u64> {
        let edges = self.intervals.iter().flat_map(|(from, to)| [*from, *to]);
        let midnight = at - u64::from(day_and_second(at).1);
        let days = (0..=7).map(|day| midnight + day * DAY.unsigned_abs());
        let of_spans = days.flat_map(|day| {
            let spans = self.spans.iter();
            let meant = spans.filter(move |span| span.days.contains(&day_and_second(day).0));
            meant.flat_map(move |span| [day + u64::from(span.from), day + u64::from(span.to) + 1])
        });
        let of_spans = of_spans.filter(|edge| self.is_now(edge.saturating_sub(1)));
        edges.chain(of_spans).filter(|edge| *edge > at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use jiff::tz::TimeZoneDatabase;
    use proptest::prelude::*;

    proptest! {
        /// Compares with the clock of a zone in a library that reads the same database.
        #[test]
        fn a_schedule_holds_when_the_clock_says_so(
            zone in prop::sample::select(vec![
                "Europe/Copenhagen", "America/New_York", "Australia/Lord_Howe", "Asia/Tokyo",
                "America/St_Johns", "Pacific/Apia",
            ]),
            from in 0_u32..96,
            length in 1_u32..96,
            day in prop::sample::select(Day::ALL.to_vec()),
            at in 1_767_312_000_u64..2_500_000_000,
        ) {
            let to = (from + length) % 96;
            let text = |quarter: u32| format!("{:02}:{:02}", quarter / 4, quarter % 4 * 15);
            prop_assume!(from != to);
            let own = hours(&format!("{}-{}", text(from), text(to))).unwrap();
            let schedule = Schedule::new(&[day], &[own], &Clock::of_zone(zone).unwrap());
            let tz = TimeZoneDatabase::bundled().get(zone).unwrap();
            let clock = tz.to_datetime(Timestamp::from_second(at as i64).unwrap());
            let quarter = u32::from(clock.hour().unsigned_abs()) * 4
                + u32::from(clock.minute().unsigned_abs()) / 15;
            let today = clock.weekday().to_sunday_zero_offset() as u8;
            let meant = day as u8;
            let next = (meant + 1) % 7;
            let wanted = if from < to {
                today == meant && (from..to).contains(&quarter)
            } else {
                (today == meant && quarter >= from) || (today == next && quarter < to)
            };
            // On the days of an offset change, hours have the offset of their beginning.
            let hours_away = |hours: i64| {
                let other = Timestamp::from_second(at as i64 + hours * 3600).unwrap();
                tz.to_offset(other)
            };
            prop_assume!(hours_away(-36) == hours_away(36));
            prop_assert_eq!(schedule.holds(at), wanted);
            // Nothing changes before the next change, which is at most eight days away.
            let next = schedule.changes(at);
            prop_assert!(next > at && next - at <= 8 * 86_400);
            let between = at + (next - at) / 2;
            prop_assert_eq!(schedule.holds(between), schedule.holds(at));
            prop_assert_eq!(schedule.holds(next - 1), schedule.holds(at));
        }
    }

    #[test]
    fn a_change_of_the_clock_moves_the_hours() {
        let six = hours("06:00-07:00").unwrap();
        let clock = Clock::of_zone("Europe/Copenhagen").unwrap();
        let schedule = Schedule::new(&Day::ALL, &[six], &clock);
        // 28 and 29 March 2026: 05:30 UTC is 06:30, then 04:30 is.
        assert!(schedule.holds(1_774_675_800) && !schedule.holds(1_774_672_200));
        assert!(!schedule.holds(1_774_762_200) && schedule.holds(1_774_758_600));
    }
}
