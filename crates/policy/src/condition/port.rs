// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `local-port`, `remote-port` and `port`: ports of the inside host, of the outside host, or of
//! either.

use crate::codes;
use crate::condition::facts::{Carrier, ConditionRow, Conditions, Facts, extent, first, within};
use crate::field::{Cell, FieldKind};
use crate::named::group::{self, Groups};
use crate::named::member::Ports;
use weirgate_document::{SourceSpan, Value};

/// The accepted ports of the inside host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalPorts(pub Vec<Value<Ports>>);

/// The accepted ports of the outside host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemotePorts(pub Vec<Value<Ports>>);

/// Ports, one of which either host must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EitherPorts(pub Vec<Value<Ports>>);

pub(crate) const LOCAL: ConditionRow = ConditionRow::new(
    "local-port",
    FieldKind::List("22"),
    "Ports of the inside host, ranges or @groups",
    |cell, when| when.add_list(ports(cell), LocalPorts),
);

pub(crate) const REMOTE: ConditionRow = ConditionRow::new(
    "remote-port",
    FieldKind::List("443"),
    "Ports of the outside host, ranges or @groups",
    |cell, when| when.add_list(ports(cell), RemotePorts),
);

pub(crate) const EITHER: ConditionRow = ConditionRow::new(
    "port",
    FieldKind::List("53"),
    "Ports of either host, ranges or @groups",
    |cell, when| when.add_list(ports(cell), EitherPorts),
);

/// Reads ports, ranges, or groups of ports.
pub(crate) fn ports(cell: &mut Cell<'_, '_, '_, Groups>) -> Vec<Value<Ports>> {
    let key = cell.key;
    group::elements(
        cell,
        codes::PORT,
        "ports",
        |group| &group.ports,
        |text| Ports::read(text).map_err(|(wrong, right)| (wrong, corrected(key, text, right))),
    )
}

/// Names of ports as other tools accept them.
const NAMES: [(&str, u16); 11] = [
    ("dns", 53),
    ("domain", 53),
    ("ftp", 21),
    ("http", 80),
    ("https", 443),
    ("imaps", 993),
    ("ntp", 123),
    ("rdp", 3389),
    ("sip", 5060),
    ("smtp", 25),
    ("ssh", 22),
];

/// Returns a hint with the corrected line for a list in one text, or for a port's name.
fn corrected(key: &str, text: &str, right: String) -> String {
    if let Some((_, port)) = NAMES.iter().find(|(name, _)| *name == text) {
        return format!("write `{key} = {port}`");
    }
    let parts = text.split([',', ' ']).filter(|part| !part.is_empty());
    let parts: Vec<&str> = parts.collect();
    if parts.len() > 1 && parts.iter().all(|part| Ports::read(part).is_ok()) {
        return format!("write `{key} = [\"{}\"]`", parts.join("\", \""));
    }
    right
}

/// Implements the facts of the three types, which differ only in the side.
macro_rules! facts {
    ($($type:ident)+) => {$(
        impl Facts for $type {
            fn span(&self) -> Option<&SourceSpan> {
                first(&self.0)
            }

            fn covers(&self, later: &Conditions) -> bool {
                let later = later.find::<Self>().map(|later| later.0.as_slice());
                within(&self.0, later, Ports::contains)
            }

            fn carrier(&self) -> Option<Carrier> {
                Some(Carrier::Ports)
            }

            fn extent(&self) -> Option<(u128, u128)> {
                let range = |one: &Value<Ports>| (one.value.from.into(), one.value.to.into());
                extent(self.0.iter().map(range))
            }

            fn elements(&self) -> usize {
                self.0.len()
            }
        }
    )+};
}

facts!(LocalPorts RemotePorts EitherPorts);
