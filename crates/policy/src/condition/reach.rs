// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which rules hide others: the first match ends, so a rule whose every packet
//! an earlier one takes is never reached.
//!
//! The comparison is exact element by element; a rule hidden only by several
//! earlier ones together is not found.

use crate::condition::matching::{Lengths, Ports, Prefix, Protocol, TcpFlags};
use crate::model::{Connection, Direction, Rule, When};
use weirgate_document::Value;

/// Whether every packet that `later` matches in a direction that it is for is
/// also matched by `earlier`.
pub(crate) fn covers(earlier: &Rule, later: &Rule) -> bool {
    let directions = Direction::BOTH
        .into_iter()
        .all(|one| !later.directions.contains(one) || earlier.directions.contains(one));
    let plain = earlier.never.is_none()
        && earlier.services.is_empty()
        && earlier.meter.is_none()
        && earlier.during.is_none();
    // What can be switched off hides nothing outside.
    let there = earlier.ruleset.is_none() || earlier.ruleset == later.ruleset;
    earlier.last && directions && plain && there && holds(&earlier.when, &later.when)
}

/// Whether `earlier` holds wherever `later` does.
fn holds(earlier: &When, later: &When) -> bool {
    let simple = earlier.icmp_types.is_empty()
        && earlier.macs.is_empty()
        && earlier.interfaces.is_empty()
        && earlier.from.is_none()
        && earlier.users.is_empty()
        && earlier.groups.is_empty()
        && earlier.control_groups.is_empty()
        && earlier.mark.is_none()
        && earlier.payload.is_empty()
        && earlier.local_names.is_none()
        && earlier.remote_names.is_none()
        && earlier.connection == Connection::default();
    simple
        && protocols(earlier, later)
        && list(&earlier.local_ports, &later.local_ports, Ports::contains)
        && list(&earlier.remote_ports, &later.remote_ports, Ports::contains)
        && list(&earlier.ports, &later.ports, Ports::contains)
        && list(
            &earlier.local_addresses,
            &later.local_addresses,
            Prefix::contains,
        )
        && list(
            &earlier.remote_addresses,
            &later.remote_addresses,
            Prefix::contains,
        )
        && list(&earlier.dscp, &later.dscp, |a, b| a == b)
        && list(&earlier.lengths, &later.lengths, Lengths::contains)
        && flags(earlier, later)
        && (!earlier.pure_ack || later.pure_ack)
}

/// No condition covers everything; otherwise each element of the later rule
/// must lie within one of the earlier.
fn list<T: Copy>(earlier: &[Value<T>], later: &[Value<T>], within: impl Fn(T, T) -> bool) -> bool {
    earlier.is_empty()
        || (!later.is_empty()
            && later
                .iter()
                .all(|inner| earlier.iter().any(|outer| within(outer.value, inner.value))))
}

fn protocols(earlier: &When, later: &When) -> bool {
    let tcp_only = later.pure_ack || later.tcp_flags.is_some();
    if later.protocols.is_empty() && tcp_only {
        return earlier.protocols.is_empty()
            || earlier
                .protocols
                .iter()
                .any(|one| one.value == Protocol::TCP);
    }
    list(&earlier.protocols, &later.protocols, |a, b| a == b)
}

fn flags(earlier: &When, later: &When) -> bool {
    let Some(outer) = &earlier.tcp_flags else {
        return true;
    };
    let stated = later
        .tcp_flags
        .as_ref()
        .is_some_and(|inner| outer.value.contains(inner.value));
    stated || (later.pure_ack && outer.value.contains(TcpFlags::PURE_ACK))
}
