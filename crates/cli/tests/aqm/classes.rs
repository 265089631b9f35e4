// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classes of a shaper that change while traffic flows.

use super::inside::{done, net, number};
use net::{Far, Flood};
use serde_json::Value;
use std::thread;
use std::time::Duration;

fn queues() -> Vec<Value> {
    let text = done("show wan0 --json");
    let all: Value = serde_json::from_str(&text).expect("JSON");
    all["queues"].as_array().expect("queues").clone()
}

fn count(one: &Value, name: &str) -> u64 {
    number(one, "statistics", name)
}

/// Returns the wire bytes that each class sent in five seconds.
fn sent() -> [u64; 2] {
    let earlier = queues();
    thread::sleep(Duration::from_secs(5));
    let later = queues();
    [0, 1].map(|at| {
        let bytes = |all: &[Value]| count(&all[at], "sent_wire_bytes");
        bytes(&later) - bytes(&earlier)
    })
}

/// A change of a class's weight, priority or guarantee loses none of its queued packets. Its
/// counters continue, and the link is shared by the new rule.
#[test]
#[ignore = "runs in the lab's kernel"]
fn change_in_place() {
    let _far = Far::new(1);
    done(
        "load droptail wan0 limit_packets=50 --rate 1mbit \
         --class 1:10,weight=1 --class 1:20,weight=1",
    );
    let _floods = [0x1_0010, 0x1_0020].map(|class| Flood::bursts(0, class, 1_000, 4));
    thread::sleep(Duration::from_secs(2));
    let [one, other] = sent();
    let ratio = other as f64 / one as f64;
    assert!((0.98..1.02).contains(&ratio), "weights 1 and 1: {ratio}");
    let before = queues();
    done("change wan0 weight=4 --class 1:20");
    let after = queues();
    for (was, is) in before.iter().zip(&after) {
        // Packets of 1,000 bytes at 1 Mbit/s, and a short time between the two readings.
        assert!(count(was, "queued_packets") >= 45, "{was}");
        assert!(count(is, "queued_packets") >= 45, "{is}");
        assert!(count(is, "sent_packets") >= count(was, "sent_packets"));
        let drops = is["drops"].as_object().expect("drops");
        let dropped: u64 = drops.values().filter_map(Value::as_u64).sum();
        assert_eq!(
            count(is, "arrived_packets"),
            count(is, "sent_packets") + count(is, "queued_packets") + dropped,
            "every packet is accounted for: {is}"
        );
    }
    assert_eq!(after[1]["share"]["weight"], 4);
    assert_eq!(after[0]["share"]["weight"], 1);
    assert!(done("show wan0").contains("class 1:20: droptail; priority=0 weight=4"));
    let [one, other] = sent();
    let ratio = other as f64 / one as f64;
    assert!((3.9..4.1).contains(&ratio), "weights 1 and 4: {ratio}");
    done("change wan0 guarantee=800kbit priority=1 --class 1:10");
    let text = done("show wan0");
    assert!(
        text.contains("priority=1 weight=1 guarantee=800kbit"),
        "{text}"
    );
    let [one, other] = sent();
    let share = one as f64 / (one + other) as f64;
    assert!((0.79..0.82).contains(&share), "a guarantee of 800: {share}");
    done("unload wan0");
}
