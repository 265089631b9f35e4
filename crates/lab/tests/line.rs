// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lab's own line does what the kernel's netem does, where netem can: the
//! same experiment with each, packet by packet. And one seed gives one
//! recording.
//!
//! These need qemu, a fetched kernel and the guest's binary. Where one is
//! missing they fail and say how to get it.

use std::collections::BTreeMap;
use weirgate_experiment::{Delivered, Job, Recording};
use weirgate_lab::{Lab, Limits, Options, Request};

/// Idle, then full of full packets, then of small ones with the other direction
/// nearly full. Nothing reacts to what the line does, so each packet is sent at
/// the same time in both arms.
///
/// Packets of one size at a time fill the line: then it sends at a steady beat
/// whichever of them found no room. With probes between, which packet is dropped
/// at the microsecond a place becomes free decides when all later ones leave,
/// and two lines that differ by nothing else soon drop quite others.
const EXPERIMENT: &str = r#"
version = 1
name = "line"
title = "The lab's line beside netem"
source = "none"
about = "A test."
settle = "1s"

[topology]
kind = "access-line"

[topology.line]
framing = "atm"
overhead = 28
up = { rate = "512kbit", delay = "2ms", buffer = "30 packets" }
down = { rate = "2000kbit", delay = "3ms", buffer = "20 packets" }

[[phase]]
name = "idle"
end = "4s"

[[phase]]
name = "large"
end = "12s"

[[phase]]
name = "emptying"
end = "14s"

[[phase]]
name = "small"
end = "22s"

[[traffic]]
name = "large"
kind = "udp"
from = "host1"
to = "server1"
during = ["large"]
interval = "25ms"
packet = 1500

[[traffic]]
name = "small"
kind = "udp"
from = "host1"
to = "server1"
during = ["small"]
interval = "2ms"
packet = 100

[[traffic]]
name = "down"
kind = "udp"
from = "server1"
to = "host1"
during = ["small"]
interval = "5ms"
packet = 1000

[[traffic]]
name = "web"
kind = "tcp"
from = "server1"
to = "host1"
during = ["idle"]

[[probe]]
name = "echo"
from = "host1"
to = "server1"
interval = "20ms"
during = ["idle"]

# Where netem is the line, the kernel does not wait for the agent.
[sampling]
queues = "1min"

[[arm]]
name = "own"
about = "the lab's line"
without = ["web"]

[[arm]]
name = "netem"
about = "netem's"
emulator = "netem"
without = ["web"]

[[arm]]
name = "tcp"
about = "the lab's line, with a transfer that reacts"
"#;

fn run(arm: &str, seed: u64) -> Vec<u8> {
    let lab = Lab::open(&Options::default(), &mut |_| ()).unwrap_or_else(|error| panic!("{error}"));
    let request = Request {
        job: Job {
            experiment: EXPERIMENT.to_owned(),
            arm: arm.to_owned(),
            parameters: BTreeMap::new(),
            seed,
            files: BTreeMap::new(),
            disciplines: BTreeMap::new(),
        },
        boot_options: Vec::new(),
        limits: Limits::default(),
    };
    let output = lab.run(&request, &mut |_| ());
    output.unwrap_or_else(|error| panic!("{error}")).result
}

fn recording(arm: &str) -> Recording {
    Recording::decode(&run(arm, 1)).expect("a recording")
}

/// Round trips and one-way times in ns, by probe or flow and number; nothing
/// for a packet that was dropped.
fn times(recording: &Recording) -> BTreeMap<(String, u64), u64> {
    let probes = recording.probes.iter().filter_map(|reply| {
        let name = format!("probe {}", reply.probe);
        // Both arms send at the same time, to some microseconds: on either
        // side of a whole millisecond.
        let millisecond = (reply.sent_ns + 500_000) / 1_000_000;
        Some(((name, millisecond), reply.rtt_ns?))
    });
    let datagrams = recording.delivered.iter().filter_map(|delivered| {
        let Delivered {
            flow,
            datagram: Some(number),
            transit_ns: Some(transit_ns),
            ..
        } = *delivered
        else {
            return None;
        };
        let name = recording.flows[usize::from(flow)].name.clone();
        Some(((name, number.into()), transit_ns))
    });
    probes.chain(datagrams).collect()
}

#[test]
fn the_line_does_what_netem_does() {
    let own = times(&recording("own"));
    let netem = times(&recording("netem"));
    assert!(own.len() > 5_000, "{} packets", own.len());
    // A packet that comes at the very time at which one leaves finds room or
    // not, by microseconds; so a few packets are dropped in one arm only. The
    // small ones come at 159 places of the line's beat of 2.484 ms, in turn.
    let (few, many) = (own.len().min(netem.len()), own.len().max(netem.len()));
    assert!(many - few <= many / 100, "{few} and {many} packets arrive");

    let mut differences: Vec<u64> = own
        .iter()
        .filter_map(|(packet, &time_ns)| Some(netem.get(packet)?.abs_diff(time_ns)))
        .collect();
    assert!(
        differences.len() >= many * 99 / 100,
        "{} packets arrive in both",
        differences.len()
    );
    differences.sort_unstable();
    let mean_ns = differences.iter().sum::<u64>() / differences.len() as u64;
    let p99_ns = differences[differences.len() * 99 / 100];
    // Handing a packet to user space and back costs about 10 us.
    assert!(mean_ns < 50_000, "{mean_ns} ns apart in the mean");
    assert!(p99_ns < 500_000, "{p99_ns} ns apart for one in a hundred");
}

#[test]
fn a_seed_names_a_recording() {
    let first = run("tcp", 1);
    assert!(
        first == run("tcp", 1),
        "the same seed gave another recording"
    );
    assert!(
        first != run("tcp", 2),
        "another seed gave the same recording"
    );
}
