// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Urgency and importance as separate properties (DRT: Mylonas, sections 2.3 and 3.1). They are
//! conditions of a rule. A conditioner also assigns them by the nominal bit rate of the sender
//! (`conditioner/nominal.rs`). DRT has no standard code points; those here are from the pool for
//! local use (`aqm/drt.c`).

use crate::codes;
use crate::condition::code_point;
use crate::condition::facts::ConditionRow;
use crate::field::{FieldKind, Word, words};
use crate::read::{choose, one_of, understood_list};
use weirgate_document::{Reader, Value};
use weirgate_units::Dscp;

/// DRT's two delay classes: how urgent a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    RealTime,
    Elastic,
}

words!(Urgency: "real-time" => Self::RealTime, "elastic" => Self::Elastic);

/// The highest importance.
pub(crate) const MOST: u8 = 6;

impl Urgency {
    const BOTH: [Self; 2] = [Self::RealTime, Self::Elastic];

    /// Returns the code point of an importance from 1 to 6: `u iii 11`.
    pub(crate) fn code_point(self, importance: u8) -> Dscp {
        let urgent = u8::from(self == Self::RealTime) << 5;
        Dscp::new(urgent | importance << 2 | 3).unwrap_or_default()
    }
}

pub(crate) fn urgency(text: &str) -> Result<Urgency, (String, String)> {
    one_of(text, Urgency::WORDS).ok_or_else(|| {
        let wrong = format!("`{text}` is not an urgency");
        (wrong, choose(text, Urgency::WORDS))
    })
}

/// Parses one level or a range of levels.
fn importance(text: &str) -> Result<(u8, u8), (String, String)> {
    let level = |text: &str| {
        let found = text.trim().parse::<u8>().ok();
        found.filter(|level| (1..=MOST).contains(level))
    };
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    match (level(from), level(to)) {
        (Some(from), Some(to)) if from <= to => Ok((from, to)),
        _ => Err((
            format!("`{text}` is not an importance"),
            format!("write 1 to {MOST}, the most important, or a range such as `4-6`"),
        )),
    }
}

pub(crate) const URGENCY: ConditionRow = ConditionRow::new(
    "urgency",
    Urgency::LIST,
    "The DRT delay class that the code point encodes",
    |cell, when| code_point::add(when, asked(cell.table)),
);

pub(crate) const IMPORTANCE: ConditionRow = ConditionRow::new(
    "importance",
    FieldKind::List("4-6"),
    "The DRT importance that the code point encodes: 1 to 6, ranges; with `urgency` both must \
     hold",
    |cell, when| {
        // If `urgency` is present too, its row reads both fields.
        if !cell.table.has("urgency") {
            code_point::add(when, asked(cell.table));
        }
    },
);

/// Returns the code points for `urgency` and `importance` of a rule. If only one of them is
/// present, every value of the other matches. If neither is present, the result is empty.
fn asked(table: &mut Reader<'_, '_>) -> Vec<Value<Dscp>> {
    let urgencies = understood_list(table, "urgency", codes::TOS, urgency);
    let levels = understood_list(table, "importance", codes::TOS, importance);
    let Some(span) = urgencies
        .first()
        .map(|one| one.clone().map(|_| ()))
        .or_else(|| levels.first().map(|one| one.clone().map(|_| ())))
    else {
        return Vec::new();
    };
    for key in ["dscp", "tos"] {
        if table.has(key) {
            table.problems().error(
                codes::TOS,
                table.span_of(key),
                format!(
                    "`{key}` excludes `urgency` and `importance`, which also select code points"
                ),
                "make two rules, or list the code points, such as `RT6`, in `dscp`",
            );
        }
    }
    let asks =
        |urgency: Urgency| urgencies.is_empty() || urgencies.iter().any(|one| one.value == urgency);
    let wants = |level: u8| {
        let within = |one: &Value<(u8, u8)>| (one.value.0..=one.value.1).contains(&level);
        levels.is_empty() || levels.iter().any(within)
    };
    let levels = || (1..=MOST).filter(|level| wants(*level));
    let points = Urgency::BOTH.into_iter().filter(|one| asks(*one));
    points
        .flat_map(|urgency| levels().map(move |level| urgency.code_point(level)))
        .map(|code| span.clone().map(|()| code))
        .collect()
}
