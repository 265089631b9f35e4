// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The conditions of a conditioner on the transport header: `protocol`, `local-port` and
//! `remote-port`, with the same syntax as in a rule.

use crate::codes;
use crate::condition::port;
use crate::condition::protocol::Protocol;
use crate::field::Cell;
use crate::named::group::Groups;
use crate::named::member::Ports;
use weirgate_document::{Problems, Value};

/// The largest number of port ranges on each side (`CONDITION_PORTS` of
/// `bpf/inbound/condition.bpf.c`).
const MOST_PORTS: usize = 8;

/// Conditions of a conditioner on the transport header.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Carried {
    /// Protocols; empty for all.
    pub protocols: Vec<Value<Protocol>>,
    /// Ports of the inside host; empty for all.
    pub local_ports: Vec<Value<Ports>>,
    /// Ports of the outside host; empty for all.
    pub remote_ports: Vec<Value<Ports>>,
}

impl Carried {
    /// Reports protocols without ports if there are conditions on ports.
    pub(super) fn check(&self, problems: &Problems) {
        if self.local_ports.is_empty() && self.remote_ports.is_empty() {
            return;
        }
        for protocol in self.protocols.iter().filter(|one| !one.value.has_ports()) {
            problems.error(
                codes::CONTRADICTION,
                protocol.span.clone(),
                format!("{} has no ports", protocol.value),
                "make a conditioner of its own for it",
            );
        }
    }

    /// Returns whether it has no condition.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.protocols.is_empty() && self.local_ports.is_empty() && self.remote_ports.is_empty()
    }
}

/// Reads `local-port` or `remote-port`.
pub(super) fn ports(cell: &mut Cell<'_, '_, '_, Groups>) -> Vec<Value<Ports>> {
    let ports = port::ports(cell);
    if let Some(one) = ports.get(MOST_PORTS) {
        cell.error(
            codes::CONDITIONER,
            one.span.clone(),
            format!("`{}` has {} ranges of ports", cell.key, ports.len()),
            format!(
                "write at most {MOST_PORTS}, or let a rule put these packets into a `class` and \
                 name the class"
            ),
        );
    }
    ports
}
