// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `from`: whether the router itself sends a packet, or forwards it.

use crate::condition::facts::{ConditionRow, Facts, Origin};
use crate::field::{Word, words};
use weirgate_document::{SourceSpan, Value};

/// The sender of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The router itself.
    Router,
    /// Another host, whose packets the router forwards.
    Forwarded,
}

words!(Sender: "router" => Self::Router, "forwarded" => Self::Forwarded);

/// The sender that a packet must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentBy(pub Value<Sender>);

pub(crate) const ROW: ConditionRow = ConditionRow::new(
    "from",
    Sender::KIND,
    "Upstream: packets that the router sends itself, or that it forwards",
    |cell, when| {
        if let Some(sender) = cell.word() {
            when.add(SentBy(sender));
        }
    },
);

impl Facts for SentBy {
    fn span(&self) -> Option<&SourceSpan> {
        Some(&self.0.span)
    }

    fn origin(&self) -> Option<Origin> {
        let outside = self.0.value == Sender::Forwarded;
        outside.then_some(Origin::Outside("`from = \"forwarded\"`"))
    }
}
