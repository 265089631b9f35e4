// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Times of the day and week at which rules are there.

use crate::codes;
use crate::field::{self, FieldKind, Row, Table, Word, row, words};
use crate::named::season;
use crate::read::{choose, one_of};
use std::collections::BTreeMap;
use weirgate_document::{Reader, Value};
use weirgate_units::Arrange as _;

const DAY: i64 = 86_400;
const WEEK: i64 = 7 * DAY;

/// Times in a week, in UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// One where the clock's offset from UTC is always the same, otherwise one
    /// for each offset.
    pub seasons: Vec<Season>,
}

impl Schedule {
    /// How many parts of days it has, of all seasons.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.seasons.iter().map(|season| season.spans.len()).sum()
    }
}

/// The times with one offset from UTC, and what is meant in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Season {
    /// Seconds since 1970 from..=to; none where it is always.
    pub intervals: Vec<(u64, u64)>,
    /// Seconds of the day from..=to, and the days on which they are meant,
    /// Sunday is 0; apart from each other.
    pub spans: Vec<TimeSpan>,
}

/// A part of some days.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeSpan {
    /// The days, sorted.
    pub days: Vec<u8>,
    /// The first second.
    pub from: u32,
    /// The last second.
    pub to: u32,
}

/// A day of the week, Sunday is 0.
#[derive(Debug, Clone, Copy)]
struct Day(u8);

words!(Day:
    "mon" => Self(1),
    "tue" => Self(2),
    "wed" => Self(3),
    "thu" => Self(4),
    "fri" => Self(5),
    "sat" => Self(6),
    "sun" => Self(0),
);

/// The table.
pub(crate) const TABLE: Table = Table {
    name: "schedule",
    about: "Times of day and week",
    rows: &[&ROWS],
};

/// The fields as they are written.
#[derive(Default)]
struct Written {
    hours: Option<Vec<Value<String>>>,
    days: Option<Vec<Value<String>>>,
    offset: Option<Value<String>>,
    zone: Option<Value<String>>,
}

const ROWS: &[Row<Written>] = &[
    row!(Written: "hours": FieldKind::List("08:00-17:30") => hours, "Parts of a day")
        .default("all day"),
    row!(Written: "days": Day::LIST => days, "The days on which the hours begin")
        .default("every day"),
    row!(Written: "utc-offset": FieldKind::Text("+01:00") => offset,
        "How far the clock meant here is ahead of UTC")
    .default("\"+00:00\""),
    row!(Written: "zone": FieldKind::Text("Europe/Copenhagen") => zone,
        "The zone whose clock is meant, with its summer time"),
];

/// Reads `[schedule.NAME]`.
pub(crate) fn read(mut table: Reader<'_, '_>) -> Option<Schedule> {
    let mut written = Written::default();
    field::read(&mut table, ROWS, &(), &mut written);
    let Written {
        hours,
        days,
        offset,
        zone,
    } = written;
    let problems = table.problems();
    let mut usable = true;
    let mut complain = |span, wrong: String, right: String| {
        problems.error(codes::SCHEDULE, span, wrong, right);
        usable = false;
    };
    if hours.is_none() && days.is_none() {
        complain(
            table.span(),
            "this schedule states no time".to_owned(),
            "write `hours = \"18:00-23:30\"`, `days = [\"sat\", \"sun\"]`, or both".to_owned(),
        );
    }
    let mut ranges = Vec::new();
    for text in hours.iter().flatten() {
        match range(&text.value) {
            Some(range) => ranges.push(range),
            None => complain(
                text.span.clone(),
                format!("`{}` is not a part of a day", text.value),
                "write it such as `08:00-17:30`; `22:00-06:00` goes past midnight".to_owned(),
            ),
        }
    }
    if hours.is_none() {
        ranges.push((0, DAY));
    }
    let mut on: Vec<u8> = Vec::new();
    for text in days.iter().flatten() {
        match one_of(&text.value, Day::WORDS) {
            Some(day) => on.push(day.0),
            None => complain(
                text.span.clone(),
                format!("`{}` is not a day", text.value),
                choose(&text.value, Day::WORDS),
            ),
        }
    }
    if days.is_none() {
        on = (0..7).collect();
    }
    if let (Some(_), Some(zone)) = (&offset, &zone) {
        complain(
            zone.span.clone(),
            "this schedule has both `zone` and `utc-offset`".to_owned(),
            "keep `zone`, which follows summer time, or `utc-offset`, which does not".to_owned(),
        );
    }
    let ahead = match &offset {
        None => 0,
        Some(text) => ahead_of_utc(&text.value).unwrap_or_else(|| {
            complain(
                text.span.clone(),
                format!("`{}` is not an offset from UTC", text.value),
                "write it such as `+01:00` or `-03:30`".to_owned(),
            );
            0
        }),
    };
    let offsets = match &zone {
        None => vec![(ahead, Vec::new())],
        Some(name) => season::offsets(&name.value).unwrap_or_else(|near| {
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => "write a name of the tz database, such as `Europe/Copenhagen`".to_owned(),
            };
            complain(
                name.span.clone(),
                format!("there is no zone `{}`", name.value),
                hint,
            );
            Vec::new()
        }),
    };
    let season = |(ahead, intervals)| Season {
        intervals,
        spans: spans(&on, &ranges, ahead),
    };
    usable.then(|| Schedule {
        seasons: offsets.into_iter().map(season).collect(),
    })
}

/// `08:00-17:30` in seconds, the end beyond the day where it is past midnight.
fn range(text: &str) -> Option<(i64, i64)> {
    let (from, to) = text.split_once('-')?;
    let (from, to) = (clock(from)?, clock(to)?);
    if from == to || from >= DAY {
        return None;
    }
    Some((from, if to > from { to } else { to + DAY }))
}

fn clock(text: &str) -> Option<i64> {
    let (hour, minute) = text.trim().split_once(':')?;
    let two = |part: &str| {
        let plain = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<i64>().ok().filter(|_| plain)
    };
    let (hour, minute) = (two(hour)?, two(minute)?);
    let seconds = hour * 3600 + minute * 60;
    (minute < 60 && seconds <= DAY).then_some(seconds)
}

fn ahead_of_utc(text: &str) -> Option<i64> {
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let seconds = clock(rest)?;
    (seconds <= 14 * 3600).then_some(sign * seconds)
}

/// The times in UTC, cut at midnights, days with the same hours together.
fn spans(days: &[u8], ranges: &[(i64, i64)], ahead: i64) -> Vec<TimeSpan> {
    let mut pieces: Vec<(i64, i64)> = Vec::new();
    for day in days {
        for (from, to) in ranges {
            let start = (i64::from(*day) * DAY + from - ahead).rem_euclid(WEEK);
            pieces.push((start, start + to - from));
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
        // Friday 23:00 to Saturday 01:00 in a zone one hour ahead.
        let found = spans(&[5], &[(23 * 3600, 25 * 3600)], 3600);
        assert_eq!(
            found,
            [TimeSpan {
                days: vec![5],
                from: 22 * 3600,
                to: 86_399
            }]
        );
        let found = spans(&[6], &[(0, 2 * 3600)], -3600);
        assert_eq!(found[0].from, 3600);
        let found = spans(&[6], &[(0, 3600)], 7200);
        assert_eq!((found[0].days.clone(), found[0].from), (vec![5], 79_200));
        let always = spans(&[0, 1, 2, 3, 4, 5, 6], &[(0, DAY)], 3600);
        assert_eq!(always.len(), 1);
        assert_eq!((always[0].from, always[0].to), (0, 86_399));
    }
}
