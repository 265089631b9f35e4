// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `[class.NAME]`: the classes of every port.

use super::{TOP, field};
use crate::codes;
use crate::{Behaviour, Class, Position};
use std::collections::BTreeMap;
use std::str::FromStr;
use weirgate_document::registry::{Field, Number, Own, Table, Text};
use weirgate_document::{Reader, SourceSpan, Value};
use weirgate_units::{ParseError, Share};

/// The largest number of classes: one for each behaviour (`Behaviour::ALL`).
const MOST: usize = Behaviour::ALL.len();

/// The total of all shares in millionths.
const WHOLE: u64 = 1_000_000;

/// The word for a share that follows from the precedence of the class.
const PRECEDENCE: &str = "precedence";

/// The largest factor of over-subscription.
const MOST_FACTOR: f64 = 1000.0;

pub(super) const CLASS: Field<Own> = Field::new(
    "class",
    Own("a table for each name"),
    "The classes of every port. A domain whose routers have only circuits has no classes and no \
     customers",
)
.required("add a table `[class.NAME]`");

const BEHAVIOUR: Field<Text> = Field::new(
    "behaviour",
    Text,
    "`EF`, `AF1` to `AF4`, `CS1` to `CS7`, `RT` and `NRT` \
     ([DRT](../conditioners.md#urgency-and-importance)), `DF` or `LE`; each at most once; `DF` is \
     required",
)
.required("name it: EF, AF1 to AF4, CS1 to CS7, RT, NRT, DF or LE");
const SHARE: Field<Own> = Field::new(
    "share",
    Own("percentage, or `\"precedence\"`"),
    "The class's share of each port; for `EF` also its largest share. Required except for `LE`. \
     Classes with `\"precedence\"` divide what the stated shares leave, in proportion to their IP \
     precedence plus 1 ([weights](../domain.md#weights-by-precedence))",
);
const OVERSUBSCRIPTION: Field<Number> = Field::new(
    "oversubscription",
    Number,
    "How many times the class's guarantee on a port may be promised there, 1 to 1000 \
     ([over-subscription](../domain.md#over-subscription)). Not for `EF`, `DF` and `LE`",
)
.default("1");

pub(super) const OF_CLASS: Table = Table::new(
    "[class.NAME]",
    "A class",
    &[&BEHAVIOUR, &SHARE, &OVERSUBSCRIPTION],
);

/// A share as it is written.
enum Written {
    Percentage(Share),
    Precedence,
}

impl FromStr for Written {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text == PRECEDENCE {
            return Ok(Self::Precedence);
        }
        text.parse().map(Self::Percentage)
    }
}

pub(super) fn classes(root: &mut Reader<'_, '_>) -> BTreeMap<String, Class> {
    let mut classes = BTreeMap::new();
    let mut used: BTreeMap<Behaviour, String> = BTreeMap::new();
    let mut by_precedence: Vec<(String, SourceSpan)> = Vec::new();
    let mut sum: u64 = 0;
    for (name, mut table) in field::named_tables(root, &CLASS, MOST) {
        let behaviour = behaviour(&mut table);
        let written = table.parsed::<Written>(SHARE.name);
        let stated = SHARE.is_in(&mut table);
        let Some(behaviour) = behaviour else {
            let _ = OVERSUBSCRIPTION.get(&mut table);
            continue;
        };
        let oversubscription = oversubscription(&mut table, behaviour);
        if let Some(other) = used.insert(behaviour, name.value.clone()) {
            let message = format!("class `{other}` has the behaviour {behaviour} already");
            let hint = "give each behaviour one class";
            let span = table.span_of(BEHAVIOUR.name);
            table.problems().error(codes::NAME, span, message, hint);
        }
        let none = behaviour == Behaviour::LowerEffort;
        if none && stated {
            let hint = "take `share` away: lower effort has what others leave";
            let message = "lower effort has no share";
            let span = table.span_of(SHARE.name);
            table.problems().error(codes::SHARE, span, message, hint);
        }
        if !none && !stated {
            table.missing::<()>(
                SHARE.name,
                "give its part of each port, such as `share = \"20%\"`",
            );
        }
        let share = written.and_then(|Value { value, span, .. }| match value {
            Written::Percentage(share) => {
                add(&table, share, span, &mut sum);
                Some(share)
            }
            Written::Precedence => {
                by_precedence.push((name.value.clone(), span));
                None
            }
        });
        let position = Position {
            span: name.span.clone(),
            line: name.line,
        };
        let class = Class {
            behaviour,
            share,
            by_precedence: false,
            oversubscription,
            position,
        };
        classes.insert(name.value, class);
    }
    divide(root, &mut classes, &by_precedence, sum);
    if !used.contains_key(&Behaviour::Default) {
        let hint = "add a class with `behaviour = \"DF\"`";
        let message = "no class has the default behaviour";
        root.problems().error(codes::EMPTY, TOP, message, hint);
    }
    classes
}

/// Adds a stated share to the sum in millionths; reports it if it is 0 or the sum too large.
fn add(table: &Reader<'_, '_>, share: Share, span: SourceSpan, sum: &mut u64) {
    *sum += u64::from(share.as_millionths());
    if share.as_millionths() > 0 && *sum <= WHOLE {
        return;
    }
    let message = if *sum > WHOLE {
        format!(
            "the shares up to here sum to {}",
            Share::millionths(u32::try_from(*sum).unwrap_or(u32::MAX))
        )
    } else {
        "a share of 0 guarantees nothing".to_owned()
    };
    let hint = "write shares above 0 that sum to 100% at most";
    table.problems().error(codes::SHARE, span, message, hint);
}

/// Divides what the stated shares leave among the classes with shares by precedence, rounded down
/// to hundredths of a per cent. `sum` is that of the stated shares in millionths.
fn divide(
    root: &Reader<'_, '_>,
    classes: &mut BTreeMap<String, Class>,
    by_precedence: &[(String, SourceSpan)],
    sum: u64,
) {
    const STEP: u64 = 100;
    let weight = |class: &Class| u64::from(class.behaviour.precedence().unwrap_or(0)) + 1;
    let of = by_precedence.iter();
    let all: u64 = of
        .filter_map(|(name, _)| classes.get(name))
        .map(weight)
        .sum();
    let left = WHOLE.saturating_sub(sum);
    for (name, span) in by_precedence {
        let Some(class) = classes.get_mut(name) else {
            continue;
        };
        if class.behaviour.precedence().is_none() {
            let message = format!("{} has no IP precedence", class.behaviour);
            let hint = "write its share as a percentage: the upper bits of its code points are \
                        urgency and importance";
            let problems = root.problems();
            problems.error(codes::UNFIT, span.clone(), message, hint);
        }
        let own = left * weight(class) / all.max(1) / STEP * STEP;
        if own == 0 {
            let message = format!("the stated shares leave nothing for `{name}`");
            let hint = "write smaller shares for the classes with percentages";
            let problems = root.problems();
            problems.error(codes::SHARE, span.clone(), message, hint);
        }
        class.share = u32::try_from(own).ok().map(Share::millionths);
        class.by_precedence = true;
    }
}

/// Reads the factor as a share of the guarantee.
fn oversubscription(table: &mut Reader<'_, '_>, behaviour: Behaviour) -> Share {
    let factor = OVERSUBSCRIPTION.get(table);
    let Some(factor) = factor else {
        return Share::WHOLE;
    };
    let span = table.span_of(OVERSUBSCRIPTION.name);
    let problems = table.problems();
    if !(1.0..=MOST_FACTOR).contains(&factor) {
        let message = "`oversubscription` is out of range";
        let hint = format!("write a number from 1 to {MOST_FACTOR}");
        problems.error(codes::LIMIT, span, message, hint);
        return Share::WHOLE;
    }
    let why = match behaviour {
        // Its bound at each port is the sum of what is promised there.
        Behaviour::Ef => "the time that EF promises needs a guarantee for all of it",
        Behaviour::Default | Behaviour::LowerEffort => "nothing is promised in it",
        _ => return Share::millionths((factor * 1e6).round() as u32),
    };
    let message = format!("{behaviour} cannot be over-subscribed");
    let hint = format!("take `oversubscription` away: {why}");
    problems.error(codes::UNFIT, span, message, hint);
    Share::WHOLE
}

fn behaviour(table: &mut Reader<'_, '_>) -> Option<Behaviour> {
    let text = BEHAVIOUR.get(table)?;
    let found = Behaviour::named(&text.value);
    if found.is_none() {
        let message = format!("`{}` is not a behaviour", text.value);
        let hint = "name it: EF, AF1 to AF4, CS1 to CS7, RT, NRT, DF or LE";
        table
            .problems()
            .error(codes::WORD, text.span, message, hint);
    }
    found
}
