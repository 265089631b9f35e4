// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prague at a bottleneck of the kernel's own disciplines.

use super::{ACCURATE, Bulk, ECT_1, Stand, seconds};

/// A bottleneck of 10 Mbit/s, where the far side receives, with a step at 1 ms as L4S
/// asks for (RFC 9332, section 2.5.1.1 has such a ramp).
#[test]
#[ignore = "runs in the lab's kernel"]
fn shallow() {
    let stand = Stand::new(
        1,
        &[
            ACCURATE,
            "tc qdisc add dev far0 root netem delay 10ms",
            "ip link add ifb0 type ifb",
            "ip link set ifb0 up",
            "tc qdisc add dev ifb0 root handle 1: htb default 1",
            "tc class add dev ifb0 parent 1: classid 1:1 htb rate 10mbit burst 1600 quantum 1514",
            "tc qdisc add dev ifb0 parent 1:1 codel ecn target 100ms ce_threshold 1ms",
            "tc qdisc add dev far0 clsact",
            "tc filter add dev far0 ingress matchall action mirred egress redirect dev ifb0",
        ],
    );
    let bulk = Bulk::new(0);
    seconds(10);
    let before = stand.count(0, &bulk.0);
    let begun = stand.state(&bulk.0);
    seconds(20);
    let after = stand.count(0, &bulk.0);
    let state = stand.state(&bulk.0);
    let sent = after.data[ECT_1] - before.data[ECT_1];
    // 1514 bytes at 10 Mbit/s.
    let used = sent as f64 * 1514.0 * 8.0 / 20.0 / 10e6;
    println!("{used:.4} of the line; {begun:?}, then {state:?}");
    assert!(!state.classic, "{state:?}");
    assert!(state.reductions > begun.reductions + 20, "{state:?}");
    assert_eq!(state.halvings, begun.halvings);
    assert!(used > 0.9, "{used}");
}
