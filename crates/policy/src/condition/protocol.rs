// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `protocol`: the upper-layer protocol.

use crate::codes;
use crate::condition::address::{self, LocalNames, RemoteNames};
use crate::condition::facts::{Carrier, ConditionRow, Conditions, Facts, Finding, first, within};
use crate::condition::number::{Misread, digits};
use crate::condition::tcp::PureAck;
use crate::field::{FieldKind, elements};
use crate::read::{choose, one_of};
use std::fmt;
use weirgate_document::{Reader, SourceSpan, Value};

/// An upper-layer protocol: the number in the protocol field of IPv4, or in the last next-header
/// field of IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Protocol(pub u8);

/// The accepted protocols.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protocols(pub Vec<Value<Protocol>>);

pub(crate) const ROW: ConditionRow = ConditionRow::new(
    "protocol",
    FieldKind::List("udp"),
    "Upper-layer protocols: `tcp`, `udp`, `icmp`, `icmpv6`, `sctp`, `dccp`, `gre`, `esp`, `ah`, \
     `igmp`, `ipip`, `ipv6`, `ospf`, or numbers from 0 to 255",
    |cell, when| when.add_list(cell.list(codes::PROTOCOL, Protocol::read), Protocols),
);

elements!(Protocol: codes::PROTOCOL, Protocol::read);

/// Names and numbers from IANA's registry, of protocols that are common on links.
const PROTOCOLS: [(&str, Protocol); 13] = [
    ("icmp", Protocol::ICMP),
    ("igmp", Protocol(2)),
    ("ipip", Protocol(4)),
    ("tcp", Protocol::TCP),
    ("udp", Protocol::UDP),
    ("dccp", Protocol(33)),
    ("ipv6", Protocol(41)),
    ("gre", Protocol(47)),
    ("esp", Protocol(50)),
    ("ah", Protocol(51)),
    ("icmpv6", Protocol::ICMPV6),
    ("ospf", Protocol(89)),
    ("sctp", Protocol(132)),
];

impl Protocol {
    /// ICMP for IPv4.
    pub const ICMP: Self = Self(1);
    /// TCP.
    pub const TCP: Self = Self(6);
    /// UDP.
    pub const UDP: Self = Self(17);
    /// ICMP for IPv6.
    pub const ICMPV6: Self = Self(58);

    /// Returns whether its header begins with two ports.
    #[must_use]
    pub fn has_ports(self) -> bool {
        weirgate_state::PROTOCOLS_WITH_PORTS.contains(&self.0)
    }

    /// Parses a name or a number.
    ///
    /// # Errors
    ///
    /// Returns what is wrong, and how to correct it.
    pub fn read(text: &str) -> Result<Self, Misread> {
        if let Some(found) = one_of(text, &PROTOCOLS) {
            return Ok(found);
        }
        if let Some(number) = digits(text).and_then(|number| u8::try_from(number).ok()) {
            return Ok(Self(number));
        }
        let lower = text.to_ascii_lowercase();
        let hint = if lower != text && one_of(&lower, &PROTOCOLS).is_some() {
            format!("write `protocol = \"{lower}\"`")
        } else if text == "icmp6" || text == "ipv6-icmp" {
            "did you mean `icmpv6`?".to_owned()
        } else if digits(text).is_some() {
            "write a number from 0 to 255".to_owned()
        } else {
            format!("{} (or a number from 0 to 255)", choose(text, &PROTOCOLS))
        };
        Err((format!("`{text}` is not a protocol"), hint))
    }
}

/// Writes the name if there is one, otherwise the number.
impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match PROTOCOLS.iter().find(|known| known.1 == *self) {
            Some(known) => f.write_str(known.0),
            None => write!(f, "protocol {}", self.0),
        }
    }
}

impl Protocols {
    /// Returns whether all of them are ICMP, of either version.
    pub(crate) fn are_icmp(&self) -> bool {
        let icmp = [Protocol::ICMP, Protocol::ICMPV6];
        self.0.iter().all(|one| icmp.contains(&one.value))
    }
}

impl Facts for Protocols {
    fn span(&self) -> Option<&SourceSpan> {
        first(&self.0)
    }

    fn covers(&self, later: &Conditions) -> bool {
        match later.find::<Self>() {
            Some(later) => within(&self.0, Some(&later.0), |a, b| a == b),
            None => {
                later.needs(Carrier::Tcp) && self.0.iter().any(|one| one.value == Protocol::TCP)
            }
        }
    }

    fn contradictions(&self, when: &Conditions, add: &mut dyn FnMut(Finding)) {
        let code = codes::CONTRADICTION;
        for Value { value, span, .. } in &self.0 {
            if when.needs(Carrier::Tcp) && *value != Protocol::TCP {
                let what = if when.has::<PureAck>() {
                    "`pure-ack`"
                } else {
                    "`tcp-flags`"
                };
                let wrong = format!("{value} has no flags, so {what} never matches");
                let right = "write `protocol = \"tcp\"`, or leave it out";
                add((code, span.clone(), wrong, right));
            } else if when.needs(Carrier::Ports) && !value.has_ports() {
                let wrong = format!("{value} has no ports");
                add((code, span.clone(), wrong, "make a rule of its own for it"));
            }
        }
        let [Value { value, span, .. }] = self.0.as_slice() else {
            return;
        };
        let (only_v4, only_v6) = address::versions(when);
        if *value == Protocol::ICMP && only_v6 {
            let wrong = "icmp is for IPv4, but the addresses are of IPv6".to_owned();
            add((code, span.clone(), wrong, "write `icmpv6`"));
        }
        if *value == Protocol::ICMPV6 && only_v4 {
            let wrong = "icmpv6 is for IPv6, but the addresses are of IPv4".to_owned();
            add((code, span.clone(), wrong, "write `icmp`"));
        }
    }
}

/// Warns about ICMP for IPv4 alone, if no address shows that this is intended.
pub(crate) fn one_version(table: &Reader<'_, '_>, when: &Conditions) {
    let Some(Protocols(list)) = when.find() else {
        return;
    };
    let has = |wanted: Protocol| list.iter().find(|found| found.value == wanted);
    let anywhere =
        !address::is_stated(when) && !when.has::<LocalNames>() && !when.has::<RemoteNames>();
    if let (Some(icmp), None, true) = (has(Protocol::ICMP), has(Protocol::ICMPV6), anywhere) {
        table.problems().warning(
            codes::ONE_VERSION,
            icmp.span.clone(),
            "this is the ICMP of IPv4 only",
            "write `protocol = [\"icmp\", \"icmpv6\"]` for both",
        );
    }
}
