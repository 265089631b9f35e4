// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Schedules: times of day and week at which rules apply.

use crate::codes;
use crate::field::{self, FieldKind, Row, Table, Word, row, words};
use crate::read::{choose, one_of};
use weirgate_document::{Reader, Value};
use weirgate_schedule::{Clock, Day, Hours, Schedule, hours as part_of_day};

words!(Day);

/// The table `[schedule.NAME]`.
pub(crate) const TABLE: Table = Table {
    name: "schedule",
    about: "Times of day and week",
    rows: &[&ROWS],
};

/// The fields as written.
#[derive(Default)]
struct Written {
    hours: Option<Vec<Value<String>>>,
    days: Option<Vec<Value<String>>>,
    offset: Option<Value<String>>,
    zone: Option<Value<String>>,
}

const ROWS: &[Row<Written>] = &[
    row!(Written: "hours": FieldKind::List("08:00-17:30") => hours, "Hours of the day")
        .default("all day"),
    row!(Written: "days": Day::LIST => days, "The days on which the hours begin")
        .default("every day"),
    row!(Written: "utc-offset": FieldKind::Text("+01:00") => offset,
        "How far the schedule's clock is ahead of UTC")
    .default("\"+00:00\""),
    row!(Written: "zone": FieldKind::Text("Europe/Copenhagen") => zone,
        "The time zone of the schedule, with its daylight saving time"),
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
    let mut parts: Vec<Hours> = Vec::new();
    for text in hours.iter().flatten() {
        match part_of_day(&text.value) {
            Some(part) => parts.push(part),
            None => complain(
                text.span.clone(),
                format!("`{}` is not a range of hours", text.value),
                "write it such as `08:00-17:30`; `22:00-06:00` goes past midnight".to_owned(),
            ),
        }
    }
    if hours.is_none() {
        parts.push(Hours::DAY);
    }
    let mut on: Vec<Day> = Vec::new();
    for text in days.iter().flatten() {
        match one_of(&text.value, Day::WORDS) {
            Some(day) => on.push(day),
            None => complain(
                text.span.clone(),
                format!("`{}` is not a day", text.value),
                choose(&text.value, Day::WORDS),
            ),
        }
    }
    if days.is_none() {
        on = Day::ALL.to_vec();
    }
    if let (Some(_), Some(zone)) = (&offset, &zone) {
        complain(
            zone.span.clone(),
            "this schedule has both `zone` and `utc-offset`".to_owned(),
            "keep `zone`, which follows daylight saving time, or `utc-offset`, which does not"
                .to_owned(),
        );
    }
    let clock = match (&offset, &zone) {
        (None, None) => Clock::default(),
        (Some(text), _) => Clock::ahead_of_utc(&text.value).unwrap_or_else(|| {
            complain(
                text.span.clone(),
                format!("`{}` is not an offset from UTC", text.value),
                "write it such as `+01:00` or `-03:30`".to_owned(),
            );
            Clock::default()
        }),
        (None, Some(name)) => Clock::of_zone(&name.value).unwrap_or_else(|near| {
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => "write a name of the tz database, such as `Europe/Copenhagen`".to_owned(),
            };
            complain(
                name.span.clone(),
                format!("there is no zone `{}`", name.value),
                hint,
            );
            Clock::default()
        }),
    };
    usable.then(|| Schedule::new(&on, &parts, &clock))
}
