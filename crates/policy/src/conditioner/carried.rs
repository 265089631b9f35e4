// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a conditioner asks of the transport header: `protocol`, `local-port`
//! and `remote-port`, read as in a rule.

use crate::codes;
use crate::condition::matching::{Ports, Protocol};
use crate::condition::when;
use crate::named::group::Groups;
use crate::read::understood_list;
use weirgate_document::{Reader, Value};

/// Ranges of ports of each side (`CONDITION_PORTS` of
/// `bpf/inbound/condition.bpf.c`).
const MOST_PORTS: usize = 8;

/// What packets carry that a conditioner is about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Carried {
    /// Protocols; none is all.
    pub protocols: Vec<Value<Protocol>>,
    /// Ports of the inside host; none is all.
    pub local_ports: Vec<Value<Ports>>,
    /// Ports of the outside host; none is all.
    pub remote_ports: Vec<Value<Ports>>,
}

impl Carried {
    pub(crate) fn read(table: &mut Reader<'_, '_>, groups: &Groups) -> Self {
        let carried = Self {
            protocols: understood_list(table, "protocol", codes::PROTOCOL, Protocol::read),
            local_ports: ports(table, "local-port", groups),
            remote_ports: ports(table, "remote-port", groups),
        };
        if !(carried.local_ports.is_empty() && carried.remote_ports.is_empty()) {
            let portless = carried
                .protocols
                .iter()
                .filter(|one| !one.value.has_ports());
            for protocol in portless {
                table.problems().error(
                    codes::CONTRADICTION,
                    protocol.span.clone(),
                    format!("{} has no ports", protocol.value),
                    "make a conditioner of its own for it",
                );
            }
        }
        carried
    }

    /// Whether it asks for nothing.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.protocols.is_empty() && self.local_ports.is_empty() && self.remote_ports.is_empty()
    }
}

fn ports(table: &mut Reader<'_, '_>, key: &'static str, groups: &Groups) -> Vec<Value<Ports>> {
    let ports = when::ports(table, key, groups);
    if let Some(one) = ports.get(MOST_PORTS) {
        table.problems().error(
            codes::CONDITIONER,
            one.span.clone(),
            format!("`{key}` has {} ranges of ports", ports.len()),
            format!(
                "write at most {MOST_PORTS}, or let a rule put their packets into a `class` and \
                 name that"
            ),
        );
    }
    ports
}
