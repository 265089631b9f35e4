// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sequence of `inside::kept_behind_nat` in the simulator of `explain`.

use crate::inside::desired;
use std::collections::BTreeMap;
use weirgate_explain::{Blueprint, Devices, Packet, SECOND, Simulator};
use weirgate_state::DeviceName;

/// Passes a packet and its answer. Returns the counts of the rule and of its kept decision.
fn run(simulator: &mut Simulator, step: u64, port: u16, dscp: u8) -> (u64, u64) {
    let wan = DeviceName::new("wan0").unwrap();
    let ends = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap());
    for up in [true, false] {
        let (from, to) = if up { (0, 1) } else { (1, 0) };
        let mut packet = Blueprint::new(ends[from], ends[to], 17);
        packet.ports = if up { (port, 7) } else { (7, port) };
        packet.dscp = if up { dscp } else { 0 };
        packet.payload = 5;
        let packet = Packet::whole(packet.ethertype(), packet.bytes());
        let path = Devices {
            arrives: (!up).then(|| wan.clone()),
            leaves: up.then(|| wan.clone()),
        };
        simulator.pass(packet, &path, step * SECOND, None);
    }
    let of = |netdev: bool, name: &str| {
        let key = (netdev, name.to_owned());
        simulator.counters().get(&key).copied().unwrap_or(0)
    };
    (of(false, "up_kept"), of(true, "down_kept"))
}

const SEQUENCE: [(u16, u8, (u64, u64)); 4] = [
    (5_001, 46, (1, 1)),
    (5_002, 0, (1, 1)),
    (5_001, 0, (2, 2)),
    (5_002, 46, (3, 3)),
];

#[test]
fn an_explanation_sees_kept_decisions_arrive() {
    let state = desired();
    let mut simulator = Simulator::new(&state.tables).with_hooks(&state.hooks);
    for (step, (port, dscp, counted)) in (1..).zip(SEQUENCE) {
        let seen = run(&mut simulator, step, port, dscp);
        assert_eq!(seen, counted, "port {port} code point {dscp}");
    }
    // If marks are not restored, no answer has its connection's decision.
    let mut simulator = Simulator::new(&state.tables).with_hooks(&BTreeMap::new());
    for (step, (port, dscp, counted)) in (1..).zip(SEQUENCE) {
        assert_eq!(run(&mut simulator, step, port, dscp), (counted.0, 0));
    }
}
