// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `fragment`: fragments of IP packets (RFC 791 section 3.2, RFC 8200 section 4.5).

use crate::codes;
use crate::condition::facts::{Carrier, ConditionRow, Conditions, Facts, Finding};
use crate::condition::icmp::IcmpTypes;
use crate::field::{Word, words};
use weirgate_document::{SourceSpan, Value};

/// Which fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fragment {
    /// All but the first: they have an offset, and nothing of the upper layer's header.
    Later,
}

words!(Fragment: "later" => Self::Later);

/// The fragments that a packet must be one of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragments(pub Value<Fragment>);

pub(crate) const ROW: ConditionRow = ConditionRow::new(
    "fragment",
    Fragment::KIND,
    "`later`: fragments of IP packets other than the first, which have no ports",
    |cell, when| {
        if let Some(which) = cell.word() {
            when.add(Fragments(which));
        }
    },
);

impl Facts for Fragments {
    fn span(&self) -> Option<&SourceSpan> {
        Some(&self.0.span)
    }

    fn covers(&self, later: &Conditions) -> bool {
        later.has::<Self>()
    }

    fn contradictions(&self, when: &Conditions, add: &mut dyn FnMut(Finding)) {
        let upper = [Carrier::Tcp, Carrier::Ports];
        if upper.into_iter().any(|carrier| when.needs(carrier)) || when.has::<IcmpTypes>() {
            let wrong = "later fragments have no ports, flags and ICMP types".to_owned();
            let right = "leave out `fragment`, or the conditions on the upper layer's header";
            add((codes::CONTRADICTION, self.0.span.clone(), wrong, right));
        }
    }
}
