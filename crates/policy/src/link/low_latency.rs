// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The effect of `l4s` of the link on code points. NQB selects the queue of a packet (RFC 9956),
//! so it is not cleared.

use crate::codes;
use crate::policy::Policy;
use crate::rule::treatment::NQB;
use weirgate_document::Problems;
use weirgate_units::Dscp;

/// Excludes NQB from clearing, regardless of `except` of `[dscp]`. Reports a `map` that would
/// rewrite it.
pub(crate) fn settle(policy: &mut Policy, problems: &Problems) {
    let (Some(l4s), Some(dscp)) = (policy.link.low_latency(), policy.dscp.as_mut()) else {
        return;
    };
    let Some(nqb) = Dscp::new(NQB) else {
        return;
    };
    if !dscp.except.contains(&nqb) {
        dscp.except.push(nqb);
    }
    if dscp.map.iter().any(|(from, _)| *from == nqb) {
        problems.error(
            codes::DSCP_TREATMENT,
            l4s.span.clone(),
            "`l4s` needs NQB, which selects the short queue, but `map` of `[dscp]` rewrites it",
            "remove NQB (45) from `map`, or leave `l4s` out",
        );
    }
}
