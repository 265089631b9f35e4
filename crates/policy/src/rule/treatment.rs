// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `[dscp]`: how code points are cleared or rewritten.

use crate::codes;
use crate::field::{self, Cell, FieldKind, Row, Table, row};
use crate::model::Directions;
use crate::read::in_two;
use weirgate_document::{Problems, Reader, Value};
use weirgate_units::Dscp;

/// How code points are cleared or rewritten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DscpTreatment {
    /// The line number of its table, from 1.
    pub line: u32,
    /// Directions in which code points are cleared before any rule sees them.
    pub distrust: Option<Value<Directions>>,
    /// Directions in which they are cleared after the rules.
    pub wash: Option<Value<Directions>>,
    /// Code points that are not cleared.
    pub except: Vec<Dscp>,
    /// Code points that are replaced before the rules, and their replacements.
    pub map: Vec<(Dscp, Dscp)>,
}

/// The code point of traffic that builds no queue (RFC 9956 section 4).
pub(crate) const NQB: u8 = 45;

/// The table `[dscp]`.
pub(crate) const DSCP: Table = Table {
    name: "dscp",
    about: "How code points are cleared or rewritten",
    rows: &[&DSCP_ROWS],
};

/// The fields of `[dscp]` as written.
#[derive(Default)]
struct Written {
    distrust: Option<Value<Directions>>,
    wash: Option<Value<Directions>>,
    map: Vec<(Dscp, Dscp)>,
    except: Option<Vec<Value<Dscp>>>,
}

type DscpRow = Row<Written>;

const DSCP_ROWS: &[DscpRow] = &[
    row!(Written: "distrust" => distrust,
        "Directions in which code points are cleared before the rules"),
    row!(Written: "wash" => wash, "Directions in which code points are cleared after the rules"),
    DscpRow::new(
        "map",
        FieldKind::Map,
        "Code points to replace before the rules, and their replacements",
        |cell, dscp| dscp.map = map(cell),
    ),
    row!(Written: "except": FieldKind::List("NQB") => except, "Code points that are not cleared")
        .default("\"NQB\""),
];

/// Reads `[dscp]`.
pub(crate) fn read_dscp(mut table: Reader<'_, '_>) -> DscpTreatment {
    let mut written = Written::default();
    field::read(&mut table, DSCP_ROWS, &(), &mut written);
    if let (Some(distrust), false) = (&written.distrust, written.map.is_empty())
        && distrust.value == Directions::Both
    {
        table.problems().error(
            codes::DSCP_TREATMENT,
            distrust.span.clone(),
            "`distrust` clears every code point before `map` sees it",
            "leave out `map`, or trust one direction",
        );
    }
    if in_a_circle(&written.map) {
        table.problems().error(
            codes::DSCP_TREATMENT,
            table.span_of("map"),
            "`map` leads from a code point back to itself",
            "leave one of these entries out",
        );
    }
    let except = match written.except {
        Some(list) => list.into_iter().map(|value| value.value).collect(),
        // NQB is not cleared, because the packet would then enter the queue that it is meant to
        // avoid.
        None => Dscp::new(NQB).into_iter().collect(),
    };
    DscpTreatment {
        line: table.line(),
        distrust: written.distrust,
        wash: written.wash,
        except,
        map: written.map,
    }
}

/// Returns whether a chain of entries leads back to where it began. The entries are written as rules
/// that follow each other, of which no order maps each packet only once then.
fn in_a_circle(map: &[(Dscp, Dscp)]) -> bool {
    map.iter().any(|(from, to)| {
        let next = |at: &Dscp| {
            let mut entries = map.iter();
            entries
                .find(|(one, to)| one == at && to != one)
                .map(|(_, to)| *to)
        };
        from != to
            && std::iter::successors(Some(*to), next)
                .take(map.len())
                .any(|at| at == *from)
    })
}

fn map(cell: &mut Cell<'_, '_, '_, ()>) -> Vec<(Dscp, Dscp)> {
    let problems = cell.problems();
    let mut map = Vec::new();
    if let Some(mut pairs) = cell.table() {
        for from in pairs.keys() {
            let to = pairs.entry_text(&from);
            let from = code_point(&from, problems);
            let to = to.and_then(|to| code_point(&to, problems));
            map.extend(from.zip(to));
        }
    }
    map
}

fn code_point(text: &Value<String>, problems: &Problems) -> Option<Dscp> {
    match text.value.parse::<Dscp>() {
        Ok(found) => Some(found),
        Err(error) => {
            let (wrong, right) = in_two(&error);
            problems.error(codes::DSCP_TREATMENT, text.span.clone(), wrong, right);
            None
        }
    }
}
