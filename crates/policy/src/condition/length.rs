// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `length`: the length of the IP packet.

use crate::codes;
use crate::condition::address;
use crate::condition::facts::{ConditionRow, Conditions, Facts, Finding, extent, first, within};
use crate::condition::number::{Misread, range};
use crate::field::FieldKind;
use weirgate_document::{SourceSpan, Value};

/// A range of IP packet lengths, headers included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    /// The smallest length.
    pub from: u16,
    /// The largest length.
    pub to: u16,
}

impl Lengths {
    pub(crate) fn read(text: &str) -> Result<Self, Misread> {
        let (from, to) = range(text, "a packet length", "such as `0-128`")?;
        if to < 20 {
            let hint = "an IP packet has at least 20 bytes, headers included".to_owned();
            return Err((format!("no packet has {to} bytes or fewer"), hint));
        }
        Ok(Self { from, to })
    }

    pub(crate) fn contains(self, other: Self) -> bool {
        self.from <= other.from && other.to <= self.to
    }
}

/// The accepted lengths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketLengths(pub Vec<Value<Lengths>>);

pub(crate) const ROW: ConditionRow = ConditionRow::new(
    "length",
    FieldKind::List("0-256"),
    "The IP packet's length in bytes, headers included; ranges",
    |cell, when| when.add_list(cell.list(codes::LENGTH, Lengths::read), PacketLengths),
);

impl Facts for PacketLengths {
    fn span(&self) -> Option<&SourceSpan> {
        first(&self.0)
    }

    fn covers(&self, later: &Conditions) -> bool {
        let later = later.find::<Self>().map(|later| later.0.as_slice());
        within(&self.0, later, Lengths::contains)
    }

    fn extent(&self) -> Option<(u128, u128)> {
        let range = |one: &Value<Lengths>| (one.value.from.into(), one.value.to.into());
        extent(self.0.iter().map(range))
    }

    fn elements(&self) -> usize {
        self.0.len()
    }

    fn longest(&self) -> Option<u16> {
        self.0.iter().map(|one| one.value.to).max()
    }

    fn contradictions(&self, when: &Conditions, add: &mut dyn FnMut(Finding)) {
        let short = self.longest().is_some_and(|longest| longest < 40);
        if let (true, (_, true), Some(span)) = (short, address::versions(when), self.span()) {
            let wrong = "an IPv6 packet has at least 40 bytes".to_owned();
            let right = "write a range that reaches 40";
            add((codes::CONTRADICTION, span.clone(), wrong, right));
        }
    }
}
