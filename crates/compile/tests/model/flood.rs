// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An adversary against the last packet in a full queue.

use crate::attack::Random;
use crate::drive::{SECOND, Site, fill, longest};
use crate::htb::Machine;

/// Returns the longest wait in a full queue: the class floods and borrows while the others are
/// idle, and its queue is full when they start.
pub fn full_queue(site: &Site, class: usize, random: &mut Random) -> u64 {
    let full = site.policy.full_packet();
    let wire = |ip| site.policy.link.layer.value.wire_bytes(ip);
    let gate = site.report.directions[0].gate.as_bits_per_second();
    let time = u64::from(full) * 8_000_000_000 / gate;
    let mut machine = site.machine();
    machine.now = 100 * SECOND;
    let own = |machine: &mut Machine| {
        for bytes in [full, wire(1000), wire(576), wire(200), wire(20)] {
            fill(machine, class, bytes);
        }
    };
    let mut left = Vec::new();
    let until = machine.now + time * (20 + random.below(60)) + random.below(time + 1);
    while machine.now < until {
        own(&mut machine);
        left.extend(machine.run(until.min(machine.now + time)));
    }
    own(&mut machine);
    let last = machine.now;
    let others: Vec<usize> = (0..site.classes().len())
        .filter(|at| *at != class)
        .collect();
    let bytes = [full, wire(20).max(full / 8), full][random.below(3) as usize];
    while machine.queued(class) > 0 && left.len() < 400_000 {
        for other in &others {
            while machine.queued(*other) < 2 {
                machine.arrive(*other, bytes);
            }
        }
        let opens = machine.opens();
        left.extend(machine.run(opens));
    }
    longest(&left, class, 0).max(if machine.queued(class) > 0 {
        machine.now - last
    } else {
        0
    })
}
