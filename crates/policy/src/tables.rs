// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every table of a policy, for the schema, the reference and the manual page.

use crate::condition::{self, connection, meter};
use crate::field::Table;
use crate::{class, conditioner, file, link, marks, named, queue, receive, rule};

/// Every table of a policy, the top level of the file first.
pub const TABLES: &[Table] = &[
    file::TABLE,
    link::TABLE,
    link::layer::TABLE,
    link::inbound::TABLE,
    receive::TABLE,
    conditioner::TABLE,
    receive::UDP,
    receive::ANNOUNCED,
    link::track::TABLE,
    class::ack::TABLE,
    class::TABLE,
    queue::TABLE,
    rule::TABLE,
    class::part::SHARE,
    class::part::CAP,
    condition::NOT,
    condition::MATCH,
    connection::TABLE,
    meter::RATE,
    meter::CONNECTIONS,
    rule::RULESET,
    named::group::TABLE,
    named::service::TABLE,
    named::schedule::TABLE,
    rule::treatment::DSCP,
    marks::TABLE,
];
