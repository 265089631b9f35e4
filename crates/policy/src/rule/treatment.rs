// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `[dscp]` and `[marks]`: what is done with code points, and which bits
//! of marks are ours.

use crate::codes;
use crate::condition::control_group;
use crate::condition::number::number;
use crate::field::{self, Cell, FieldKind, Row, Table, row};
use crate::model::Directions;
use crate::read::in_two;
use weirgate_document::{Problems, Reader, Value};
use weirgate_signatures::BITS;
use weirgate_units::Dscp;

/// The bits of a connection's mark without `[marks]`: 255 kept rules.
const MARK_MASK: u32 = 0x00ff_0000;

/// What is done with code points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DscpTreatment {
    /// The line of its table, from 1.
    pub line: u32,
    /// Directions in which code points are cleared before any rule sees them.
    pub distrust: Option<Directions>,
    /// Directions in which they are cleared after the rules.
    pub wash: Option<Directions>,
    /// Code points that clearing leaves.
    pub except: Vec<Dscp>,
    /// Code points written in place of others, before any rule sees them.
    pub map: Vec<(Dscp, Dscp)>,
}

/// Non-queue-building traffic keeps its code point: clearing it would put it
/// into the queue that it asks to be kept out of.
const NQB: u8 = 45;

/// `[dscp]`.
pub(crate) const DSCP: Table = Table {
    name: "dscp",
    about: "What is done with code points",
    rows: &[&DSCP_ROWS],
};

/// `[marks]`.
pub(crate) const MARKS: Table = Table {
    name: "marks",
    about: "The bits of marks that are weirgate's",
    rows: &[&MARKS_ROWS],
};

/// The fields of `[dscp]` as they are written.
#[derive(Default)]
struct Written {
    distrust: Option<Value<Directions>>,
    wash: Option<Value<Directions>>,
    map: Vec<(Dscp, Dscp)>,
    except: Option<Vec<Value<Dscp>>>,
}

type DscpRow = Row<Written>;
type MarksRow = Row<Marks>;

const DSCP_ROWS: &[DscpRow] = &[
    row!(Written: "distrust" => distrust, "Cleared before any rule sees them"),
    row!(Written: "wash" => wash, "Cleared after the rules"),
    DscpRow::new(
        "map",
        FieldKind::Map,
        "Written in place of others before any rule sees them",
        |cell, dscp| dscp.map = map(cell),
    ),
    row!(Written: "except": FieldKind::List("NQB") => except, "Code points that clearing leaves")
        .default("\"NQB\""),
];

const MARKS_ROWS: &[MarksRow] = &[
    MarksRow::new(
        "mask",
        FieldKind::Text("0x0000ff00"),
        "The bits, which stand together",
        |cell, marks| {
            if let Some(found) = cell.understood(codes::MARK, run) {
                marks.mask = found.value;
            }
        },
    )
    .default("\"0x00ff0000\""),
    MarksRow::new(
        "payload",
        FieldKind::Text("0x07000000"),
        "Three bits of a packet's mark that say what its payload betrays",
        |cell, marks| {
            if let Some(found) = cell.understood(codes::MARK, payload) {
                marks.payload_lowest = found.value;
            }
        },
    )
    .default("\"0x07000000\""),
    MarksRow::new(
        "cgroup",
        FieldKind::Text("0xf0000000"),
        "Those that number its sender's control group",
        |cell, marks| {
            if let Some(found) = cell.understood(codes::MARK, control_group::mask) {
                marks.control_groups = found.value;
            }
        },
    )
    .default("\"0xf0000000\""),
    MarksRow::new(
        "inside",
        FieldKind::Text("0x0000ff00"),
        "The same for its inside host",
        |cell, marks| marks.inside = cell.understood(codes::MARK, control_group::mask),
    ),
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
    let except = match written.except {
        Some(list) => list.into_iter().map(|value| value.value).collect(),
        None => Dscp::new(NQB).into_iter().collect(),
    };
    DscpTreatment {
        line: table.line(),
        distrust: written.distrust.map(|found| found.value),
        wash: written.wash.map(|found| found.value),
        except,
        map: written.map,
    }
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

/// The lowest of the bits for what payloads betray, without `[marks]`.
const PAYLOAD_LOWEST: u8 = 24;

/// Bits of marks.
#[derive(Debug, Clone)]
pub(crate) struct Marks {
    /// Those of a connection's mark that keep decisions.
    pub(crate) mask: u32,
    /// The lowest of those of a packet's that say what a payload betrays.
    pub(crate) payload_lowest: u8,
    /// Those of a packet's that number its sender's control group.
    pub(crate) control_groups: u32,
    /// Those of a connection's that keep which inside host it is of.
    pub(crate) inside: Option<Value<u32>>,
}

impl Default for Marks {
    fn default() -> Self {
        Self {
            mask: MARK_MASK,
            payload_lowest: PAYLOAD_LOWEST,
            control_groups: control_group::MASK,
            inside: None,
        }
    }
}

/// The bits for what payloads betray, by the lowest of them.
fn payload(text: &str) -> Result<u8, (String, String)> {
    let mask = number(text)?;
    let lowest = mask.trailing_zeros();
    if mask.checked_shr(lowest) != Some((1 << BITS) - 1) {
        return Err((
            format!("`{text}` is not {BITS} bits that stand together"),
            "write a mask such as `0x07000000`".to_owned(),
        ));
    }
    Ok(lowest as u8)
}

/// A mask whose bits stand together.
fn run(text: &str) -> Result<u32, (String, String)> {
    let mask = number(text)?;
    let run = mask.checked_shr(mask.trailing_zeros()).unwrap_or(0);
    if mask == 0 || run & run.wrapping_add(1) != 0 {
        return Err((
            format!("the bits of `{text}` do not stand together"),
            "write a mask such as `0x00ff0000`".to_owned(),
        ));
    }
    Ok(mask)
}

/// Reads `[marks]`.
pub(crate) fn read_marks(mut table: Reader<'_, '_>) -> Marks {
    let mut marks = Marks::default();
    field::read(&mut table, MARKS_ROWS, &(), &mut marks);
    marks
}
