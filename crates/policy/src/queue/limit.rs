// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the limit of a queue against its link and the kernel.

use super::Queue;
use crate::codes;
use weirgate_document::{Problems, Value};
use weirgate_units::Size;

/// Checks that the queue holds at least one packet of `packet` wire bytes, and that its limit
/// fits the kernel's counters.
pub(crate) fn check_limit(queue: &Value<Queue>, packet: u32, problems: &Problems) {
    let bytes = match &queue.value {
        Queue::Bfifo(limit) => Some(*limit),
        Queue::Red(red) => Some(red.limit),
        // With a limit of 0, the discipline chooses.
        Queue::Kit(own) => own
            .value("limit_bytes")
            .filter(|limit| *limit > 0)
            .map(Size::bytes),
        _ => None,
    };
    let packets = match &queue.value {
        Queue::Pfifo(limit) => Some(*limit),
        Queue::Sfq(sfq) => sfq.limit,
        _ => None,
    };
    let kind = queue.value.kind();
    let problem = match (bytes, packets) {
        (Some(limit), _) if limit.as_bytes() < u64::from(packet) => Some((
            format!("a {kind} of {limit} does not hold one full packet of {packet} bytes"),
            format!("write at least {packet}, in bytes on the wire"),
        )),
        (Some(limit), _) if limit.as_bytes() > u64::from(u32::MAX) => Some((
            format!("a {kind} of {limit} is larger than Linux can count"),
            "write less than 4 GB".to_owned(),
        )),
        (_, Some(0)) => Some((
            format!("a {kind} of 0 packets holds none"),
            "write how many packets may wait".to_owned(),
        )),
        (_, Some(1)) if kind == "sfq" => Some((
            "newer kernels refuse a sfq of 1 packet".to_owned(),
            "write at least 2".to_owned(),
        )),
        // SFQ has 16-bit lists of at most 127 flows with 127 packets each.
        (_, Some(limit)) if kind == "sfq" && limit > 16_129 => Some((
            format!("a sfq of {limit} packets is larger than Linux allows"),
            "write at most 16129".to_owned(),
        )),
        _ => None,
    };
    if let Some((message, hint)) = problem {
        problems.error(codes::QUEUE_LIMIT, queue.span.clone(), message, hint);
    }
}
