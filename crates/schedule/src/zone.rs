// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When a zone's clock has which offset from UTC, by the tz database that came
//! with this version.

use crate::spans;
use std::collections::BTreeMap;
use weirgate_document::nearest;

use zones::{LAWS, ZONES};

/// `ZONES`: names, each with its law's place in `LAWS`. A law is the times in seconds
/// since 1970 at which the offset changes, with the seconds ahead of UTC from then on.
/// The first is that of 1970. `build.rs` says which years it knows.
#[expect(clippy::unreadable_literal, reason = "nobody reads what is generated")]
mod zones {
    include!(concat!(env!("OUT_DIR"), "/zones.rs"));
}

/// Later than any time that a kernel's clock says: about the year 2255.
const ALWAYS: u64 = 9_000_000_000;

/// Seconds east of Greenwich, and when a zone has them: times from and to.
pub(crate) type Offset = (i64, Vec<(u64, u64)>);

/// A clock, by which hours are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clock {
    /// Seconds ahead of UTC, each with the times at which it is so, in seconds
    /// since 1970 from..=to; none where it is always. The last second of one is the
    /// first of the next.
    offsets: Vec<Offset>,
}

impl Default for Clock {
    fn default() -> Self {
        Self::ahead(0)
    }
}

impl Clock {
    /// One that is always so many seconds ahead of UTC.
    fn ahead(seconds: i64) -> Self {
        Self {
            offsets: vec![(seconds, Vec::new())],
        }
    }

    /// Reads `+01:00` or `-03:30`, at most 14 hours: what it is ahead of UTC. `None` for
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

    /// The clock of a zone of the tz database.
    ///
    /// # Errors
    ///
    /// The most similar name, if one is, where no zone has this name.
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
        // Winter comes first and last, 25 summers between.
        assert_eq!((found[0].1.len(), found[1].1.len()), (26, 25));
        assert_eq!(found[0].1[25].1, ALWAYS);
        // Southern summers, half an hour.
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
