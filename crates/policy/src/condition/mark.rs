// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `mark`: bits of the packet's mark, set by another program.

use crate::codes;
use crate::condition::facts::{ConditionRow, Conditions, Facts};
use crate::condition::number::{Misread, number};
use crate::field::{FieldKind, elements};
use crate::model::Rule;
use weirgate_document::{SourceSpan, Value};

/// A value of a packet's mark under a mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The bits that are compared.
    pub mask: u32,
    /// The value of these bits.
    pub value: u32,
}

impl Mark {
    /// Parses `0x10` or `0x10/0xff`.
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

/// The mark that a packet must have.
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

/// Returns the position where a rule tests any of these bits. If a service has the condition, it
/// is the position of the rule, since the service's is in another text.
pub(crate) fn looked_at(rule: &Rule, bits: u32) -> Option<&SourceSpan> {
    let mark = |when: &'_ Conditions| {
        let mark = when.find::<PacketMark>();
        mark.is_some_and(|mark| mark.0.value.mask & bits != 0)
    };
    let own = [Some(&rule.when), rule.never.as_ref()];
    let own = own.into_iter().flatten().find(|when| mark(when));
    let mut services = rule.services.iter();
    let other = || {
        services
            .any(|service| mark(&service.when))
            .then_some(&rule.span)
    };
    own.and_then(|when| when.find::<PacketMark>()?.span())
        .or_else(other)
}
