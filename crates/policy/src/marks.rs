// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `[marks]`: the bits of marks that weirgate uses, their purposes, and the check that they do
//! not overlap.

use crate::codes;
use crate::condition::control_group::ControlGroups;
use crate::condition::mark;
use crate::condition::number::{Misread, number};
use crate::field::{self, FieldKind, Row, Table};
use crate::model::Rule;
use crate::policy::Policy;
use weirgate_document::{Problems, Reader, SourceSpan, Value};
use weirgate_signatures::BITS;

/// The default bits for stored decisions: 255 rules.
const DECISIONS: u32 = 0x00ff_0000;
/// The default lowest bit for detected payloads.
const PAYLOAD_LOWEST: u8 = 24;
/// The default bits for control groups: 15 groups.
const CONTROL_GROUPS: u32 = 0xf000_0000;
/// The largest number of bits for numbers that each packet is compared with one by one.
const MOST_BITS: u32 = 8;

/// The bits of marks that weirgate uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    /// The contiguous bits of the connection mark that store decisions.
    pub decisions: u32,
    /// The lowest of the packet mark's bits for the protocol detected in the flow's payload.
    pub payload_lowest: u8,
    /// The contiguous bits of the packet mark for the sender's control group.
    pub control_groups: u32,
    /// The contiguous bits of the connection mark for the inside host, if shares and limits
    /// behind NAT need them.
    pub inside: Option<Value<u32>>,
}

impl Default for Marks {
    fn default() -> Self {
        Self {
            decisions: DECISIONS,
            payload_lowest: PAYLOAD_LOWEST,
            control_groups: CONTROL_GROUPS,
            inside: None,
        }
    }
}

impl Marks {
    /// Returns the packet mark's bits for the protocol detected in the flow's payload.
    #[must_use]
    pub const fn payload(&self) -> u32 {
        ((1 << BITS) - 1) << self.payload_lowest
    }
}

/// The table `[marks]`.
pub(crate) const TABLE: Table = Table {
    name: "marks",
    about: "The bits of packet and connection marks that weirgate uses",
    rows: &[&ROWS],
};

type MarksRow = Row<Marks>;

const ROWS: &[MarksRow] = &[
    MarksRow::new(
        "mask",
        FieldKind::Text("0x0000ff00"),
        "The contiguous bits of a connection's mark that store decisions of rules with `keep`",
        |cell, marks| {
            if let Some(found) = cell.understood(codes::MARK, run) {
                marks.decisions = found.value;
            }
        },
    )
    .default("\"0x00ff0000\""),
    MarksRow::new(
        "payload",
        FieldKind::Text("0x07000000"),
        "Three bits of a packet's mark that store the protocol found in its payload",
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
        "The bits of a packet's mark that store the number of its sender's control group",
        |cell, marks| {
            if let Some(found) = cell.understood(codes::MARK, numbers) {
                marks.control_groups = found.value;
            }
        },
    )
    .default("\"0xf0000000\""),
    MarksRow::new(
        "inside",
        FieldKind::Text("0x0000ff00"),
        "The bits of a connection's mark that store the number of its inside host",
        |cell, marks| marks.inside = cell.understood(codes::MARK, numbers),
    ),
];

/// Reads `[marks]`.
pub(crate) fn read(mut table: Reader<'_, '_>) -> Marks {
    let mut marks = Marks::default();
    field::read(&mut table, ROWS, &(), &mut marks);
    marks
}

/// Returns whether a mask has bits, and they are contiguous.
const fn are_together(mask: u32) -> bool {
    mask != 0 && {
        let run = mask >> mask.trailing_zeros();
        run & run.wrapping_add(1) == 0
    }
}

/// Parses a mask of contiguous bits.
fn run(text: &str) -> Result<u32, Misread> {
    let mask = number(text)?;
    if !are_together(mask) {
        return Err((
            format!("the bits of `{text}` are not contiguous"),
            "write a mask such as `0x00ff0000`".to_owned(),
        ));
    }
    Ok(mask)
}

/// Parses a mask of few contiguous bits.
fn numbers(text: &str) -> Result<u32, Misread> {
    let mask = number(text)?;
    if !are_together(mask) || mask.count_ones() > MOST_BITS {
        return Err((
            format!("`{text}` is not 1 to {MOST_BITS} contiguous bits"),
            "write a mask such as `0xf0000000`, which has room for 15 numbers".to_owned(),
        ));
    }
    Ok(mask)
}

/// Parses the bits for detected payloads, and returns the lowest of them.
fn payload(text: &str) -> Result<u8, Misread> {
    let mask = number(text)?;
    let lowest = mask.trailing_zeros();
    if mask.checked_shr(lowest) != Some((1 << BITS) - 1) {
        return Err((
            format!("`{text}` is not {BITS} contiguous bits"),
            "write a mask such as `0x07000000`".to_owned(),
        ));
    }
    Ok(lowest as u8)
}

/// Returns how many numbers other than 0 fit into the bits.
const fn room(bits: u32) -> usize {
    match bits.checked_shr(bits.trailing_zeros()) {
        Some(room) => room as usize,
        None => 0,
    }
}

/// One use of bits of marks.
struct Use {
    /// The bits; 0 if the policy does not need them.
    bits: u32,
    /// What the bits store.
    what: &'static str,
    /// The position in the policy that requires the bits. If `None`, they are not compared with
    /// the uses before them or with rules' `mark`.
    asked: Option<SourceSpan>,
    /// The information that the bits hold, for messages.
    says: &'static str,
    /// The hint for choosing other bits.
    right: &'static str,
}

/// Returns every use of bits of marks.
fn uses(policy: &Policy) -> [Use; 4] {
    let Marks {
        decisions,
        control_groups,
        inside,
        ..
    } = &policy.marks;
    let numbered = ControlGroups::asked(&policy.rules);
    [
        Use {
            bits: *decisions,
            what: "stored decisions",
            asked: None,
            says: "decisions of rules",
            right: "give `[marks]` another `mask`",
        },
        Use {
            bits: policy.marks.payload(),
            what: "payload signatures",
            asked: policy.rules.iter().find_map(Rule::payload_span),
            says: "payload signatures",
            right: "give `[marks]` a `payload` of three other bits",
        },
        Use {
            bits: numbered.map_or(0, |_| *control_groups),
            what: "control groups",
            asked: numbered.cloned(),
            says: "the control group that sent a packet",
            right: "give `[marks]` other bits for `cgroup`",
        },
        Use {
            bits: inside.as_ref().map_or(0, |inside| inside.value),
            what: "inside hosts",
            asked: inside.as_ref().map(|inside| inside.span.clone()),
            says: "the inside host of a connection",
            right: "give `[marks]` other bits for `inside`",
        },
    ]
}

/// Reports bits with two uses, and bits that are too few.
pub(crate) fn check(policy: &Policy, problems: &Problems) {
    apart(policy, problems);
    let (groups, bits) = (
        ControlGroups::named(&policy.rules).len(),
        policy.marks.control_groups,
    );
    if let Some(span) = ControlGroups::asked(&policy.rules).filter(|_| groups > room(bits)) {
        problems.error(
            codes::CONTROL_GROUP,
            span.clone(),
            format!(
                "rules name {groups} control groups, but the bits {bits:#010x} can store only {}",
                room(bits)
            ),
            "give `cgroup` of `[marks]` more bits, at most 8, or name a common parent group",
        );
    }
    let stored = policy.rules.iter().filter_map(|rule| rule.keep.as_ref());
    let room = room(policy.marks.decisions);
    if let Some(one_too_many) = stored.clone().nth(room) {
        problems.error(
            codes::KEEP,
            one_too_many.clone(),
            format!(
                "{} rules keep their decision, but the bits of `mask` can store only {room}",
                stored.count()
            ),
            "give `[marks]` a wider `mask`, or write `keep` in fewer rules",
        );
    }
}

/// Reports uses that overlap with earlier ones, or with marks that rules test.
fn apart(policy: &Policy, problems: &Problems) {
    let uses = uses(policy);
    for (at, one) in uses.iter().enumerate() {
        let Some(asked) = &one.asked else {
            continue;
        };
        for other in uses[..at].iter().filter(|other| other.bits & one.bits != 0) {
            problems.error(
                codes::MARK,
                asked.clone(),
                format!(
                    "the bits of {}, {:#010x} of the mark, overlap {:#010x}, the bits of {}",
                    one.what, one.bits, other.bits, other.what
                ),
                one.right,
            );
        }
        let looked_at = |rule| mark::looked_at(rule, one.bits);
        for span in policy.rules.iter().filter_map(looked_at) {
            problems.error(
                codes::MARK,
                span.clone(),
                format!("the bits {:#010x} of the mark store {}", one.bits, one.says),
                format!("match other bits, or {}", one.right),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_stand_together() {
        assert_eq!(numbers("0xf0000000"), Ok(0xf000_0000));
        assert_eq!(numbers("0xff"), Ok(0xff));
        for wrong in ["0", "0x1ff", "0x5", "0xffffffff"] {
            assert!(numbers(wrong).is_err(), "{wrong}");
        }
        assert_eq!(run("0xffffffff"), Ok(u32::MAX));
        assert!(run("0").is_err() && run("0x5").is_err());
    }

    #[test]
    fn room_is_that_of_the_bits() {
        assert_eq!([room(0), room(0x80), room(0x00ff_0000)], [0, 1, 255]);
    }
}
