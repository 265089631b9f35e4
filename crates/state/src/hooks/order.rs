// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What keeps connections in order that change their class.

use super::program::{Clause, HookProgram, ProgramRow, egress, ingress};
use serde::{Deserialize, Serialize};

/// Two programs by which a TCP connection that changes its class has no segment
/// overtaken (`bpf/order`). The one for what leaves keeps its data in the old class
/// until all of it there has been acknowledged. The one for what arrives closes the
/// sender's window meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Order {}

impl HookProgram for Order {
    type Settings = Self;

    const ROW: ProgramRow = ProgramRow {
        object: "order",
        // Last, to see the data that goes into the queues, and no other.
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
