// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `icmp-type`: types of ICMP, with names for both versions.

use crate::codes;
use crate::condition::facts::{Carrier, ConditionRow, Conditions, Facts, Finding, first};
use crate::condition::protocol::Protocols;
use crate::field::{Word, words};
use crate::read::{choose, one_of};
use weirgate_document::{SourceSpan, Value};

/// A type of ICMP and `ICMPv6`; `None` if a version has no equivalent type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpType {
    /// The type of ICMP (RFC 792).
    pub v4: Option<u8>,
    /// The type of `ICMPv6` (RFC 4443, RFC 4861).
    pub v6: Option<u8>,
}

const fn icmp(v4: Option<u8>, v6: Option<u8>) -> IcmpType {
    IcmpType { v4, v6 }
}

words!(IcmpType:
    "echo-request" => icmp(Some(8), Some(128)),
    "echo-reply" => icmp(Some(0), Some(129)),
    "destination-unreachable" => icmp(Some(3), Some(1)),
    "packet-too-big" => icmp(None, Some(2)),
    "time-exceeded" => icmp(Some(11), Some(3)),
    "parameter-problem" => icmp(Some(12), Some(4)),
    "redirect" => icmp(Some(5), Some(137)),
    "timestamp-request" => icmp(Some(13), None),
    "timestamp-reply" => icmp(Some(14), None),
);

/// The accepted types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IcmpTypes(pub Vec<Value<IcmpType>>);

pub(crate) const ROW: ConditionRow = ConditionRow::new(
    "icmp-type",
    IcmpType::LIST,
    "ICMP types, for IPv4 and IPv6",
    |cell, when| {
        let list = cell.list(codes::ICMP_TYPE, |text| {
            one_of(text, IcmpType::WORDS).ok_or_else(|| {
                let wrong = format!("`{text}` is not a type of ICMP");
                (wrong, choose(text, IcmpType::WORDS))
            })
        });
        when.add_list(list, IcmpTypes);
    },
);

impl Facts for IcmpTypes {
    fn span(&self) -> Option<&SourceSpan> {
        first(&self.0)
    }

    fn contradictions(&self, when: &Conditions, add: &mut dyn FnMut(Finding)) {
        let carried = [Carrier::Tcp, Carrier::Ports];
        let other = carried.into_iter().any(|carrier| when.needs(carrier));
        let protocols = when.find::<Protocols>();
        if (other || !protocols.is_none_or(Protocols::are_icmp))
            && let Some(span) = self.span()
        {
            let wrong =
                "`icmp-type` never matches together with conditions on another protocol".to_owned();
            let right = "leave out the other protocol's conditions";
            add((codes::CONTRADICTION, span.clone(), wrong, right));
        }
    }
}
