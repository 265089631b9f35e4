// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `dscp` and `tos`: the code point of the IP header. `urgency` and `importance` (`drt`) test
//! code points too.

use crate::codes;
use crate::condition::facts::{ConditionRow, Conditions, Facts, extent, first, within};
use crate::field::{FieldKind, Word, words};
use crate::read::{choose, one_of};
use weirgate_document::{SourceSpan, Value};
use weirgate_units::Dscp;

/// The accepted code points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodePoints(pub Vec<Value<Dscp>>);

/// A value of the former type-of-service octet (RFC 1349), as a code point.
#[derive(Debug, Clone, Copy)]
struct Tos(u8);

// The fourth value, minimize-cost, used a bit that ECN has now.
words!(Tos: "minimize-delay" => Self(4), "maximize-throughput" => Self(2), "maximize-reliability" => Self(1));

pub(crate) const DSCP: ConditionRow = ConditionRow::new(
    "dscp",
    FieldKind::List("EF"),
    "Code points: names (`EF`, `CS1`, `AF41`, `LE`, `VA`, `NQB`), or numbers from 0 to 63 (`0x2e`)",
    |cell, when| {
        let list = cell.parsed_list();
        if list.is_empty() {
            // Report an empty list; otherwise it would mean "no condition".
            cell.list(codes::TOS, |_| Ok(()));
        }
        add(when, list);
    },
);

pub(crate) const TOS: ConditionRow = ConditionRow::new(
    "tos",
    Tos::LIST,
    "The type of service, which DSCP has replaced (RFC 1349)",
    |cell, when| add(when, cell.list(codes::TOS, tos)),
);

/// Adds code points to those that other fields have added.
pub(super) fn add(when: &mut Conditions, list: Vec<Value<Dscp>>) {
    let mut all = when.take().map_or_else(Vec::new, |CodePoints(all)| all);
    all.extend(list);
    when.add_list(all, CodePoints);
}

fn tos(text: &str) -> Result<Dscp, (String, String)> {
    let found = one_of(text, Tos::WORDS).and_then(|Tos(value)| Dscp::new(value));
    found.ok_or_else(|| match text {
        "minimize-cost" => (
            "`minimize-cost` no longer exists".to_owned(),
            "its bit belongs to ECN since RFC 3168; use `dscp`".to_owned(),
        ),
        _ => (
            format!("`{text}` is not a type of service"),
            format!("{} (code points go into `dscp`)", choose(text, Tos::WORDS)),
        ),
    })
}

impl Facts for CodePoints {
    fn span(&self) -> Option<&SourceSpan> {
        first(&self.0)
    }

    fn covers(&self, later: &Conditions) -> bool {
        let later = later.find::<Self>().map(|later| later.0.as_slice());
        within(&self.0, later, |a, b| a == b)
    }

    fn extent(&self) -> Option<(u128, u128)> {
        let number = |one: &Value<Dscp>| u128::from(one.value.value());
        extent(self.0.iter().map(number).map(|one| (one, one)))
    }
}
