// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests Prague at a bottleneck with the kernel's own disciplines.

use super::{ACCURATE, Bulk, ECT_0, ECT_1, Stand, net, seconds};

/// A bottleneck of 10 Mbit/s on the far side.
macro_rules! bottleneck {
    ($queue:literal) => {
        &[
            ACCURATE,
            "ip link add ifb0 type ifb",
            "ip link set ifb0 up",
            "tc qdisc add dev ifb0 root handle 1: htb default 1",
            "tc class add dev ifb0 parent 1: classid 1:1 htb rate 10mbit burst 1600 quantum 1514",
            concat!("tc qdisc add dev ifb0 parent 1:1 handle 2: ", $queue),
            "tc qdisc add dev far0 clsact",
            "tc filter add dev far0 ingress matchall action mirred egress redirect dev ifb0",
        ]
    };
}

/// Adds 10 ms before the bottleneck. TCP keeps few packets in its own machine's queues
/// (`tcp_small_queue_check`, net/ipv4/tcp_output.c), but packets that netem delays are not counted.
fn delayed() {
    net::run("tc qdisc replace dev wan0 root netem delay 10ms limit 10000");
}

/// Both mark ECT(1) as they mark ECT(0): CoDel when the delay exceeds 5 ms for a round trip, PIE
/// with a probability that keeps 15 ms.
#[test]
#[ignore = "runs in the lab's kernel"]
fn classic() {
    let queues: [(&str, &'static [&'static str]); 2] = [
        ("codel", bottleneck!("codel ecn")),
        ("pie", bottleneck!("pie ecn target 15ms")),
    ];
    for (name, commands) in queues {
        let stand = Stand::new(1, commands);
        delayed();
        let bulk = Bulk::new(0);
        let found = (1..=60).find(|second| {
            seconds(1);
            let state = stand.state(&bulk.0);
            if second % 5 == 0 {
                println!("{name}, {second} s: {state:?}");
            }
            state.classic
        });
        let state = stand.state(&bulk.0);
        println!("{name}: found after {found:?} s; {state:?}");
        assert!(found.is_some(), "{name}: {state:?}");
        let before = stand.count(0, &bulk.0);
        seconds(10);
        let after = stand.count(0, &bulk.0);
        let end = stand.state(&bulk.0);
        assert_eq!(before.data[ECT_1], after.data[ECT_1], "{name}");
        assert!(after.data[ECT_0] > before.data[ECT_0] + 5_000, "{name}");
        assert!(end.halvings > state.halvings, "{name}: {end:?}");
        assert_eq!(end.reductions, state.reductions, "{name}");
        drop(bulk);
    }
}

/// A step at 1 ms, as L4S requires (RFC 9332, section 2.5.1.1 has a ramp there).
#[test]
#[ignore = "runs in the lab's kernel"]
fn shallow() {
    let stand = Stand::new(1, bottleneck!("codel ecn target 100ms ce_threshold 1ms"));
    delayed();
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
