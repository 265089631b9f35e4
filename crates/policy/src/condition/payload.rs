// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `payload`: the protocol that the first payloads of a packet's flow reveal.

use crate::codes;
use crate::condition::facts::{ConditionRow, Conditions, Facts, Finding, first};
use crate::condition::protocol::{Protocol, Protocols};
use crate::field::{Word, words};
use crate::model::Rule;
use crate::read::{choose, one_of};
use weirgate_document::{SourceSpan, Value};
use weirgate_signatures::Signature;

/// Any of these signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payloads(pub Vec<Value<Signature>>);

words!(Signature);

pub(crate) const ROW: ConditionRow = ConditionRow::new(
    "payload",
    Signature::LIST,
    "The protocol that the flow's first payloads reveal; the rule must have `keep`",
    |cell, when| {
        let list = cell.list(codes::PAYLOAD, |text| {
            one_of(text, Signature::WORDS).ok_or_else(|| {
                let wrong = format!("there is no signature of `{text}`");
                (wrong, choose(text, Signature::WORDS))
            })
        });
        when.add_list(list, Payloads);
    },
);

impl Facts for Payloads {
    fn span(&self) -> Option<&SourceSpan> {
        first(&self.0)
    }

    fn contradictions(&self, when: &Conditions, add: &mut dyn FnMut(Finding)) {
        let carried = [Protocol::TCP, Protocol::UDP];
        if let Some(Protocols(list)) = when.find()
            && !list.iter().any(|one| carried.contains(&one.value))
            && let Some(span) = self.span()
        {
            let wrong = "payload is examined only in TCP and UDP".to_owned();
            add((
                codes::CONTRADICTION,
                span.clone(),
                wrong,
                "leave `protocol` out",
            ));
        }
    }
}

impl Rule {
    /// The place where the rule, or the first of its services, has a `payload`.
    #[must_use]
    pub fn payload(&self) -> Option<&Value<Signature>> {
        self.find().find_map(|Payloads(list)| list.first())
    }

    /// The place of that in the policy's own text: the condition, or the rule
    /// where a service asks.
    #[must_use]
    pub fn payload_span(&self) -> Option<SourceSpan> {
        self.payload()?;
        let own = self.when.find::<Payloads>().and_then(Facts::span);
        Some(own.unwrap_or(&self.span).clone())
    }
}
