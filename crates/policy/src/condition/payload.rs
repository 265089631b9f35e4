// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `payload`: the protocol, as detected in the first payloads of a packet's flow.

use crate::codes;
use crate::condition::facts::{ConditionRow, Conditions, Facts, Finding, first};
use crate::condition::protocol::{Protocol, Protocols};
use crate::field::{Word, words};
use crate::model::Rule;
use crate::read::{choose, one_of};
use weirgate_document::{SourceSpan, Value};
use weirgate_signatures::Signature;

/// The accepted protocols.
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
    /// Returns the first `payload` of the rule or its services.
    #[must_use]
    pub fn payload(&self) -> Option<&Value<Signature>> {
        self.find().find_map(|Payloads(list)| list.first())
    }

    /// Returns the position of the rule's `payload` in the policy's own text. If a service has
    /// the condition, it is the position of the rule.
    #[must_use]
    pub fn payload_span(&self) -> Option<SourceSpan> {
        self.payload()?;
        let own = self.when.find::<Payloads>().and_then(Facts::span);
        Some(own.unwrap_or(&self.span).clone())
    }
}
