// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Times of day, split at midnight UTC.

use crate::{DAY, Day, TimeSpan, WEEK};
use std::collections::BTreeMap;
use weirgate_units::Arrange as _;

/// A time of day in seconds. The end exceeds a day if it is after midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hours {
    from: i64,
    to: i64,
}

impl Hours {
    /// A whole day.
    pub const DAY: Self = Self { from: 0, to: DAY };
}

/// Parses `08:00-17:30`; `22:00-06:00` ends on the next day. Returns `None` for any other text.
#[must_use]
pub fn hours(text: &str) -> Option<Hours> {
    let (from, to) = text.split_once('-')?;
    let (from, to) = (clock(from)?, clock(to)?);
    if from == to || from >= DAY {
        return None;
    }
    Some(Hours {
        from,
        to: if to > from { to } else { to + DAY },
    })
}

/// Parses `17:30` to seconds, at most `24:00`.
pub(crate) fn clock(text: &str) -> Option<i64> {
    let (hour, minute) = text.trim().split_once(':')?;
    let two = |part: &str| {
        let plain = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<i64>().ok().filter(|_| plain)
    };
    let (hour, minute) = (two(hour)?, two(minute)?);
    let seconds = hour * 3600 + minute * 60;
    (minute < 60 && seconds <= DAY).then_some(seconds)
}

/// Returns the times in UTC for a clock that is `ahead` seconds ahead; days with equal times are
/// merged.
pub(crate) fn of(days: &[Day], ranges: &[Hours], ahead: i64) -> Vec<TimeSpan> {
    let mut pieces: Vec<(i64, i64)> = Vec::new();
    for day in days {
        for range in ranges {
            let start = (*day as i64 * DAY + range.from - ahead).rem_euclid(WEEK);
            pieces.push((start, start + range.to - range.from));
        }
    }
    let mut each: BTreeMap<u8, Vec<(i64, i64)>> = BTreeMap::new();
    for (from, to) in pieces {
        let mut at = from;
        while at < to {
            let midnight = (at / DAY + 1) * DAY;
            let end = to.min(midnight);
            let day = (at.rem_euclid(WEEK) / DAY) as u8;
            let within = at.rem_euclid(DAY);
            each.entry(day)
                .or_default()
                .push((within, within + end - at));
            at = end;
        }
    }
    let mut together: BTreeMap<(i64, i64), Vec<u8>> = BTreeMap::new();
    for (day, mut list) in each {
        list.arrange();
        let mut merged: Vec<(i64, i64)> = Vec::new();
        for (from, to) in list {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        for span in merged {
            together.entry(span).or_default().push(day);
        }
    }
    together
        .into_iter()
        .map(|((from, to), days)| TimeSpan {
            days,
            from: from as u32,
            to: (to - 1) as u32,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nights_and_zones_cross_midnight() {
        let part = |from: i64, to: i64| Hours {
            from: from * 3600,
            to: to * 3600,
        };
        // Friday 23:00 to Saturday 01:00 in a zone one hour ahead.
        let found = of(&[Day::Fri], &[part(23, 25)], 3600);
        assert_eq!(
            found,
            [TimeSpan {
                days: vec![5],
                from: 22 * 3600,
                to: 86_399
            }]
        );
        let found = of(&[Day::Sat], &[part(0, 2)], -3600);
        assert_eq!(found[0].from, 3600);
        let found = of(&[Day::Sat], &[part(0, 1)], 7200);
        assert_eq!((found[0].days.clone(), found[0].from), (vec![5], 79_200));
        let always = of(&Day::ALL, &[Hours::DAY], 3600);
        assert_eq!(always.len(), 1);
        assert_eq!((always[0].from, always[0].to), (0, 86_399));
    }
}
