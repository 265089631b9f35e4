// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part that runs in the guest: a service that is stopped again and again, like on a machine
//! that gives it no processor time. The round trips of its probes must remain those of the network.

use crate::inside::{begin, points, run};
use rustix::process::{Signal, kill_process};
use std::fs;
use std::thread::sleep;
use std::time::Duration;

/// The round trip by netem, and what the kernel itself may add, in microseconds.
const ROUND_TRIP: i64 = 200_000;
const WORK: i64 = 2_000;
/// How long the service is stopped each time.
const STOPPED: Duration = Duration::from_millis(1_700);

#[test]
#[ignore = "runs in the guest"]
fn stopped() {
    run("ip link set lo up");
    run("tc qdisc add dev lo root netem delay 100ms");
    fs::write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647").unwrap();
    let far = ["--probe", "far=203.0.113.1"];
    let near = ["--probe", "four=127.0.0.1", "--probe", "six=::1"];
    let service = begin(&[&near[..], &far].concat());
    sleep(Duration::from_secs(2));
    let pid = service.pid();
    for _ in 0..15 {
        kill_process(pid, Signal::STOP).unwrap();
        sleep(STOPPED);
        kill_process(pid, Signal::CONT).unwrap();
        sleep(Duration::from_millis(800));
    }
    for (probe, host) in [("four", "127.0.0.1"), ("six", "::1")] {
        let series = format!("probe_rtt_seconds{{probe=\"{probe}\",host=\"{host}\"}}");
        let found: Vec<i64> = points(&series).iter().map(|point| point.3).collect();
        println!("{probe}: {found:?} us");
        assert!(found.len() >= 10, "{found:?}");
        let right = ROUND_TRIP..ROUND_TRIP + WORK;
        assert!(found.iter().all(|one| right.contains(one)), "{found:?}");
    }
    // A probe without a route counts as lost, and does not stop the others.
    let lost = points("probe_lost{probe=\"far\",host=\"203.0.113.1\"}");
    assert!(lost.iter().any(|point| point.2 > 0.0), "{lost:?}");
    drop(service);
}
