// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `mss` of a rule: the largest MSS that its connections may announce. The range is from the MSS
//! that every host must accept (RFC 9293 section 3.7.1) to the longest IPv4 packet without its
//! headers.

use crate::codes;
use crate::condition::facts::Conditions;
use crate::condition::protocol::{Protocol, Protocols};
use crate::model::Rule;
use weirgate_document::Reader;

/// Reports rules whose `mss` has no effect because they do not match TCP. It also reports rules
/// that count packets, because their SYNs would be counted twice.
pub(crate) fn check(table: &Reader<'_, '_>, rule: &Rule) {
    let Some(mss) = &rule.mss else {
        return;
    };
    let no_tcp = |when: &Conditions| {
        let protocols = when.find();
        protocols.is_some_and(|Protocols(list)| !list.iter().any(|one| one.value == Protocol::TCP))
    };
    let every_service =
        !rule.services.is_empty() && rule.services.iter().all(|service| no_tcp(&service.when));
    if no_tcp(&rule.when) || every_service {
        table.problems().error(
            codes::MSS,
            mss.span.clone(),
            "only TCP announces an MSS in its first packets",
            "leave `mss` out, or write `protocol = \"tcp\"`",
        );
    }
    if let Some(meter) = &rule.meter {
        table.problems().error(
            codes::MSS,
            meter.span.clone(),
            "a rule that counts packets cannot have an `mss`",
            "write a rule of its own with `mss`, before this one",
        );
    }
}
