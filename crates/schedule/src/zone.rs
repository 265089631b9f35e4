// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The offsets of time zones from UTC, by the tz database of this version's build.

use crate::spans;
use std::collections::BTreeMap;
use weirgate_document::nearest;

use zones::{LAWS, ZONES};

/// `ZONES` has names, each with the index of its rules in `LAWS`. Rules are the times in seconds
/// since 1970 at which the offset changes, each with the new offset in seconds ahead of UTC. The
/// first time is in 1970. `build.rs` says which years are covered.
#[expect(clippy::unreadable_literal, reason = "nobody reads what is generated")]
mod zones {
    include!(concat!(env!("OUT_DIR"), "/zones.rs"));
}

/// Later than any time of a kernel's clock: about the year 2255.
const ALWAYS: u64 = 9_000_000_000;

/// Seconds east of Greenwich, and the intervals in which a zone has this offset.
pub(crate) type Offset = (i64, Vec<(u64, u64)>);

/// The clock of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clock {
    /// Offsets in seconds ahead of UTC, each with its intervals in seconds since 1970, both ends
    /// inclusive; empty means always. The last second of an interval is the first of the next one.
    offsets: Vec<Offset>,
}

impl Default for Clock {
    fn default() -> Self {
        Self::ahead(0)
    }
}

impl Clock {
    /// Makes a clock that is always this far ahead of UTC.
    fn ahead(seconds: i64) -> Self {
        Self {
            offsets: vec![(seconds, Vec::new())],
        }
    }

    /// Parses `+01:00` or `-03:30`, at most 14 hours, as the time ahead of UTC. Returns `None` for
    /// any other text.
    #[must_use]
    pub fn ahead_of_utc(text: &str) -> Option<Self> {
        let (sign, rest) = match text.split_at_checked(1)? {
            ("+", rest) => (1, rest),
            ("-", rest) => (-1, rest),
            _ => return None,
        };
        let seconds = spans::clock(rest)?;
        (seconds <= 14 * 3600).then(|| Self::ahead(sign * seconds))
    }

    /// Returns the clock of a zone in the tz database.
    ///
    /// # Errors
    ///
    /// Returns the most similar name, if there is one, if no zone has this name.
    pub fn of_zone(zone: &str) -> Result<Self, Option<&'static str>> {
        let found = ZONES
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(zone));
        let Some((_, law)) = found else {
            return Err(nearest(zone, ZONES.iter().map(|(name, _)| *name)));
        };
        let law = LAWS[usize::from(*law)];
        if let [(_, always)] = law {
            return Ok(Self::ahead(i64::from(*always)));
        }
        let ends = law.iter().skip(1).map(|(from, _)| u64::from(*from));
        let mut seasons: BTreeMap<i64, Vec<(u64, u64)>> = BTreeMap::new();
        for ((from, ahead), end) in law.iter().zip(ends.chain([ALWAYS])) {
            let intervals = seasons.entry(i64::from(*ahead)).or_default();
            intervals.push((u64::from(*from), end));
        }
        Ok(Self {
            offsets: seasons.into_iter().collect(),
        })
    }

    pub(crate) fn offsets(&self) -> &[Offset] {
        &self.offsets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summer_time_begins_and_ends_when_the_law_says() {
        let found = Clock::of_zone("Europe/Copenhagen").unwrap().offsets;
        let ahead: Vec<i64> = found.iter().map(|(ahead, _)| *ahead).collect();
        assert_eq!(ahead, [3600, 7200]);
        // 29 March and 25 October 2026, 01:00 UTC.
        assert_eq!(found[0].1[0], (0, 1_774_746_000));
        assert_eq!(found[1].1[0], (1_774_746_000, 1_792_890_000));
        // Winters are first and last, with 25 summers between them.
        assert_eq!((found[0].1.len(), found[1].1.len()), (26, 25));
        assert_eq!(found[0].1[25].1, ALWAYS);
        // Lord Howe Island: half an hour in the southern summer.
        let island = Clock::of_zone("Australia/Lord_Howe").unwrap().offsets;
        assert_eq!((island[0].0, island[1].0), (37_800, 39_600));
    }

    #[test]
    fn a_zone_without_summer_time_is_one_offset() {
        assert_eq!(Clock::of_zone("Asia/Tokyo"), Ok(Clock::ahead(32_400)));
        assert_eq!(
            Clock::of_zone("Europe/Copenhage"),
            Err(Some("Europe/Copenhagen"))
        );
        assert_eq!(Clock::of_zone("Moon"), Err(None));
    }
}
