// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keeps the segments of connections in order when these change their class.

use super::program::{Clause, HookProgram, ProgramRow, egress, ingress};
use serde::{Deserialize, Serialize};

/// Two programs that prevent a TCP connection that changes its class from being reordered
/// (`bpf/order`). The one for departing packets keeps its data in the old class until all of the
/// data there is acknowledged. During that time, the one for arriving packets closes the sender's
/// window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Order {}

impl HookProgram for Order {
    type Settings = Self;

    const ROW: ProgramRow = ProgramRow {
        object: "order",
        // Last, to see exactly the data that enters the queues.
        preference: 93,
        filters: &[
            ingress("order_in", "weirgate-order-in-"),
            egress("order_out", "weirgate-order-out-"),
        ],
        in_map: false,
        ..ProgramRow::DEFAULT
    };

    fn text(_: &Self) -> String {
        "connections that leave change their class in order".to_owned()
    }

    fn clause(own: &Self) -> Clause {
        Clause::Alone(Self::text(own))
    }
}
