// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans: named rates. The columns are named as in `ShapedDevices.csv`.
//!
//! A plan has one line without hours and days, and one line for each part of the week with other
//! terms.

use crate::codes::{HOURS, SIZE};
use crate::files::located::FileMistakes;
use crate::files::raw::{Collected, RATES, RawPlan, RawRates, identifier};
use crate::files::table::{Cell, Column, Header, Row};
use crate::model::Pair;
use weirgate_document::did_you_mean;
use weirgate_schedule::{Clock, Day, Hours, Schedule, hours};
use weirgate_units::Size;

/// Further columns of a plan: bursts in MB, the hours of the line, quotas in GB, and the plan
/// beyond the quota.
pub(crate) const MORE: [&str; 8] = [
    "Download Burst MB",
    "Upload Burst MB",
    "Hours",
    "Days",
    "Zone",
    "Download Quota GB",
    "Upload Quota GB",
    "Beyond",
];

/// The columns of a file of plans: the name, then [`RATES`] and [`MORE`].
pub(crate) const COLUMNS: &[Column] = &[
    Column::needed("Plan"),
    Column::free(RATES[0]),
    Column::free(RATES[1]),
    Column::needed(RATES[2]),
    Column::needed(RATES[3]),
    Column::free(MORE[0]),
    Column::free(MORE[1]),
    Column::free(MORE[2]),
    Column::free(MORE[3]),
    Column::free(MORE[4]),
    Column::free(MORE[5]),
    Column::free(MORE[6]),
    Column::free(MORE[7]),
    Column::free("Comment"),
];

/// The index of the first of [`MORE`] among the columns.
const FIRST: usize = 1 + RATES.len();

/// The units of bursts and quotas with their largest values. A burst must fit into 32 bits in
/// the engine's row.
pub(crate) const MB: Unit = Unit {
    name: "MB",
    bytes: 1_000_000,
    most: 4_000,
};
pub(crate) const GB: Unit = Unit {
    name: "GB",
    bytes: 1_000_000_000,
    most: 10_000_000,
};

/// A unit of bytes and the largest number of it.
#[derive(Clone, Copy)]
pub(crate) struct Unit {
    name: &'static str,
    bytes: u64,
    most: u64,
}

impl Unit {
    /// Writes a size in this unit.
    pub(crate) fn write(self, size: Size, text: &mut String) {
        let (whole, rest) = (size.as_bytes() / self.bytes, size.as_bytes() % self.bytes);
        text.push_str(&whole.to_string());
        if rest > 0 {
            let digits = self.bytes.ilog10() as usize;
            let rest = format!(".{rest:0digits$}");
            text.push_str(rest.trim_end_matches('0'));
        }
    }

    /// Parses a field in this unit; an empty field is zero. A malformed one is reported.
    fn read(self, cell: &Cell<'_>, column: &str, mistakes: &FileMistakes<'_, '_>) -> Size {
        if cell.text.is_empty() {
            return Size::default();
        }
        let number: Option<f64> = cell.text.parse().ok();
        let most = 0.0..=self.most as f64;
        if let Some(number) = number.filter(|number| most.contains(number)) {
            return Size::bytes((number * self.bytes as f64).round() as u64);
        }
        let message = format!("`{}` is no `{column}`", cell.text);
        let hint = format!("write a number of {}, from 0 to {}", self.name, self.most);
        mistakes.error(SIZE, &cell.span, message, hint);
        Size::default()
    }
}

/// Reads one line of a file of plans.
pub(crate) fn take(
    row: &Row<'_>,
    header: &Header,
    mistakes: &FileMistakes<'_, '_>,
    into: &mut Collected<'_>,
) {
    let name = header.cell(row, 0);
    let named = identifier(&name, "plan", mistakes);
    let rates = RawRates::read(row, header, 1, mistakes);
    let more = |number: usize| header.cell(row, FIRST + number);
    let pair = |first: usize, unit: Unit| Pair {
        down: unit.read(&more(first), MORE[first], mistakes),
        up: unit.read(&more(first + 1), MORE[first + 1], mistakes),
    };
    let (burst, quota) = (pair(0, MB), pair(5, GB));
    let times = when([more(2), more(3), more(4)], mistakes);
    let beyond = more(7);
    let (Some(name), Ok(times)) = (named, times) else {
        return;
    };
    for (number, rate) in rates.rates.iter().enumerate().skip(2) {
        if rate.is_none() && !rates.wrong {
            let message = format!("the plan `{name}` has no `{}`", RATES[number]);
            mistakes.error(
                crate::codes::RATE,
                &rates.spans[number],
                message,
                "write a number of Mbit/s",
            );
        }
    }
    let has_quota = quota != Pair::default();
    let unused = match (&times, has_quota, beyond.text.is_empty()) {
        (Some(_), true, _) | (Some(_), _, false) => Some((
            "a quota cannot apply to certain hours only",
            "give quota and `Beyond` in the line of the plan that has no hours",
        )),
        (None, false, false) => Some((
            "`Beyond` needs a quota",
            "give a quota too, or leave `Beyond` empty",
        )),
        _ => None,
    };
    if let Some((message, hint)) = unused {
        let at = if beyond.text.is_empty() {
            row.whole()
        } else {
            beyond.span.clone()
        };
        mistakes.error(HOURS, &at, message, hint);
    }
    into.plans.push(RawPlan {
        name: name.to_owned(),
        at: mistakes.at(&header.cell(row, 0).span),
        rates,
        burst,
        times,
        quota,
        beyond: beyond.text.to_owned(),
        beyond_at: mistakes.at(&beyond.span),
    });
}

/// Marks a line whose error was already reported.
struct Wrong;

/// Parses the hours, days and zone of a line, and keeps their text; returns `None` if all are
/// empty.
fn when(
    cells: [Cell<'_>; 3],
    mistakes: &FileMistakes<'_, '_>,
) -> Result<Option<(Schedule, [String; 3])>, Wrong> {
    let written = cells.each_ref().map(|cell| cell.text.to_owned());
    let [parts, days, zone] = cells;
    let wrong = std::cell::Cell::new(false);
    let complain = |cell: &Cell<'_>, message: String, hint: String| {
        mistakes.error(HOURS, &cell.span, message, hint);
        wrong.set(true);
    };
    let mut on = Vec::new();
    for word in listed(days.text) {
        let mut days_of_week = Day::ALL.into_iter();
        if let Some(day) = days_of_week.find(|day| word.eq_ignore_ascii_case(day.name())) {
            on.push(day);
            continue;
        }
        let names = Day::ALL.map(Day::name);
        let hint = did_you_mean(word, names, || format!("write some of {}", names.join(" ")));
        complain(&days, format!("`{word}` is not a day"), hint);
    }
    let mut ranges = Vec::new();
    for word in listed(parts.text) {
        match hours(word) {
            Some(part) => ranges.push(part),
            None => complain(
                &parts,
                format!("`{word}` is not a part of a day"),
                "write it such as `01:00-07:00`; `22:00-06:00` goes past midnight".to_owned(),
            ),
        }
    }
    let clock = match (zone.text, Clock::ahead_of_utc(zone.text)) {
        ("", _) => Clock::default(),
        (_, Some(clock)) => clock,
        (name, None) => Clock::of_zone(name).unwrap_or_else(|near| {
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => "write a name of the tz database, such as `Europe/Copenhagen`, or what \
                         the clock is ahead of UTC, such as `+01:00`"
                    .to_owned(),
            };
            complain(&zone, format!("there is no zone `{name}`"), hint);
            Clock::default()
        }),
    };
    if parts.text.is_empty() && days.text.is_empty() {
        if !zone.text.is_empty() && !wrong.get() {
            let hint = "give hours or days too, or leave the zone empty".to_owned();
            complain(
                &zone,
                "a zone is there without hours or days".to_owned(),
                hint,
            );
        }
        return if wrong.get() { Err(Wrong) } else { Ok(None) };
    }
    if parts.text.is_empty() {
        ranges.push(Hours::DAY);
    }
    if days.text.is_empty() {
        on = Day::ALL.to_vec();
    }
    if wrong.get() {
        return Err(Wrong);
    }
    Ok(Some((Schedule::new(&on, &ranges, &clock), written)))
}

/// Splits a field into words at spaces, commas and semicolons.
fn listed(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', ';', ',']).filter(|word| !word.is_empty())
}
