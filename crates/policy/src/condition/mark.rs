// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `mark`: bits of the packet's mark, set by something else.

use crate::codes;
use crate::condition::facts::{ConditionRow, Conditions, Facts};
use crate::condition::number::{Misread, number};
use crate::field::{FieldKind, elements};
use crate::model::Rule;
use weirgate_document::{SourceSpan, Value};

/// A packet's mark under a mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Bits looked at.
    pub mask: u32,
    /// Their value.
    pub value: u32,
}

impl Mark {
    /// `0x10` or `0x10/0xff`.
    fn read(text: &str) -> Result<Self, Misread> {
        let (value, mask) = match text.split_once('/') {
            Some((value, mask)) => (number(value)?, number(mask)?),
            None => (number(text)?, u32::MAX),
        };
        if mask == 0 || value & !mask != 0 {
            return Err((
                format!("the mark `{text}` matches no packet or every packet"),
                "write a mask above 0 after the `/`, and only bits of it before the `/`".to_owned(),
            ));
        }
        Ok(Self { mask, value })
    }
}

elements!(Mark: codes::MARK, Mark::read);

/// These bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketMark(pub Value<Mark>);

pub(crate) const ROW: ConditionRow = ConditionRow::new(
    "mark",
    FieldKind::Text("0x10/0xff"),
    "The packet's mark, as another program set it",
    |cell, when| {
        if let Some(mark) = cell.understood(codes::MARK, Mark::read) {
            when.add(PacketMark(mark));
        }
    },
);

impl Facts for PacketMark {
    fn span(&self) -> Option<&SourceSpan> {
        Some(&self.0.span)
    }
}

/// Where a rule looks at some of these bits: the condition itself, or the rule
/// where a service does, whose own place is in another text.
pub(crate) fn looked_at(rule: &Rule, bits: u32) -> Option<&SourceSpan> {
    let mark = |when: &'_ Conditions| {
        let mark = when.find::<PacketMark>();
        mark.is_some_and(|mark| mark.0.value.mask & bits != 0)
    };
    let own = [Some(&rule.when), rule.never.as_ref()];
    let own = own.into_iter().flatten().find(|when| mark(when));
    let mut ways = rule.services.iter();
    let other = || ways.any(|way| mark(&way.when)).then_some(&rule.span);
    own.and_then(|when| when.find::<PacketMark>()?.span())
        .or_else(other)
}
