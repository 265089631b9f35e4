// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PIE against its description (RFC 8033), where a comparison with the kernel's PIE found
//! differences.

use crate::support::{MS, S, link, packet, queue};
use weirgate_aqm::Queue;

/// The default burst allowance.
const BURST: u64 = 150 * MS;

/// One packet arrives and one leaves every millisecond, after a wait of `wait_ms`.
fn standing(pie: &mut Queue<u64>, wait_ms: u64, from: u64, to: u64) {
    for now in (from..to).step_by(MS as usize) {
        pie.arrive(&packet(now, 1500), u32::MAX, now);
        if now >= from + wait_ms * MS {
            pie.depart(now);
        }
    }
}

/// A drop at the limit counts as a drop: no random drop follows at once (appendix A.1).
#[test]
fn a_drop_at_the_limit_begins_the_count_anew() {
    let mut pie = queue("pie", &link(12_000_000), &[("limit_packets", 60)]);
    standing(&mut pie, 40, S, 3 * S);
    let added = |pie: &Queue<u64>| pie.var("added").unwrap();
    assert_ne!(added(&pie), 0, "nothing was added up");
    let mut refused = false;
    for id in 0..60 {
        refused |= pie
            .arrive(&packet(3 * S, 1500), u32::MAX, id)
            .refused
            .is_some();
    }
    assert!(refused);
    assert!(pie.drops("limit").unwrap() > 0);
    assert_eq!(added(&pie), 0);
}

/// Two updates without delay allow a burst again (section 4.4), however long ago the updates were
/// due.
#[test]
fn an_idle_queue_allows_a_burst_again() {
    let mut pie = queue("pie", &link(12_000_000), &[]);
    let left = |pie: &Queue<u64>| pie.var("burst_ns").unwrap();
    standing(&mut pie, 10, S, 2 * S);
    assert_eq!(left(&pie), 0, "the burst is over");
    // The delay is below the target, so that nothing is dropped; then the queue is empty.
    assert_eq!(pie.var("probability"), Some(0));
    while pie.packets() > 0 {
        pie.depart(2 * S);
    }
    pie.arrive(&packet(4 * S, 1500), u32::MAX, 0);
    assert_eq!(left(&pie), BURST);
}
