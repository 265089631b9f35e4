// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the cost of policing arriving packets: the virtual queue compared with an IFB with
//! cake, in instructions, which are the guest's nanoseconds.

#![allow(
    clippy::print_stdout,
    reason = "what was measured is shown, by helpers of the test too"
)]

use super::filter::{frame, setup};
use super::net;
use libbpf_rs::{TC_INGRESS, TcHookBuilder};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use weirgate_bpf::{Copies, Filter, Sender};

/// The numbers of packets before and during the measurement.
const WARM: u32 = 2_000;
const PACKETS: u32 = 8_000;

/// The number of measurements. The state of the kernel's allocator makes a difference of a few
/// hundred instructions, so the median is used.
const ROUNDS: usize = 5;

/// The length of a packet with its header, and the number of flows.
const BYTES: usize = 1_250;
const FLOWS: u16 = 16;

/// The share of arriving packets that pass: more arrive than the rate permits.
const LET_THROUGH: f64 = 0.97;

/// A rate that is never reached, in bytes a second.
const FREE: u64 = 10_000_000_000;

/// Returns the time for packets that arrive at `in1`, sent from inside the kernel.
fn spent(sender: &mut Sender) -> Duration {
    let flows: Vec<Vec<u8>> = (0..FLOWS)
        .map(|flow| frame(4, 17, 0, flow, BYTES - 42))
        .collect();
    let mut start = Instant::now();
    for number in 0..WARM + PACKETS {
        if number == WARM {
            start = Instant::now();
        }
        sender
            .send(&Copies {
                packet: &flows[number as usize % flows.len()],
                priority: 0,
                from: net::ifindex("in0"),
                to: net::ifindex("in0"),
                count: 1,
            })
            .expect("a run");
    }
    start.elapsed() / PACKETS
}

fn rate_of(each: Duration) -> u64 {
    (BYTES as f64 / each.as_secs_f64() * LET_THROUGH) as u64
}

fn attach(filter: &Filter) {
    let program = filter.program().expect("it is loaded");
    TcHookBuilder::new(program.as_fd())
        .ifindex(net::ifindex("in1") as i32)
        .handle(1)
        .priority(90)
        .hook(TC_INGRESS)
        .attach()
        .expect("a filter");
}

fn filtered(sender: &mut Sender, rate: u64) -> Duration {
    let filter = Filter::load(&setup(rate, &[]), 9).expect("a program");
    net::run("tc qdisc replace dev in1 clsact");
    attach(&filter);
    let each = spent(sender);
    let maps = filter.maps().expect("maps");
    let dropped: u64 = maps
        .flows()
        .expect("a map")
        .iter()
        .map(|flow| flow.drops)
        .sum();
    assert_eq!(
        dropped > 0,
        rate != FREE,
        "it is saturated, or in nobody's way"
    );
    net::run("tc qdisc del dev in1 clsact");
    each
}

fn queued(sender: &mut Sender, rate: u64) -> Duration {
    net::run(&format!(
        "tc qdisc replace dev ifbq root cake bandwidth {}bit",
        rate * 8
    ));
    net::run("tc qdisc replace dev in1 clsact");
    net::run("tc filter add dev in1 ingress matchall action mirred egress redirect dev ifbq");
    let each = spent(sender);
    net::run("tc qdisc del dev in1 clsact");
    net::run("tc qdisc del dev ifbq root");
    each
}

/// Returns the median.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Measures each without limiting, and saturated: slightly more arrives than passes.
#[test]
#[ignore = "runs in the lab's kernel"]
fn beside_a_queue() {
    net::run("ip link add in0 type veth peer name in1");
    net::run("ip link add ifbq type ifb");
    for device in ["in0", "in1", "ifbq"] {
        net::run(&format!("ip link set {device} up"));
    }
    let mut sender = Sender::load().unwrap_or_else(|error| panic!("{error}"));
    let rounds: Vec<[f64; 4]> = (0..ROUNDS)
        .map(|_| {
            let bare = spent(&mut sender);
            let filter_free = filtered(&mut sender, FREE);
            let queue_free = queued(&mut sender, FREE);
            let filter = filtered(&mut sender, rate_of(filter_free));
            let queue = queued(&mut sender, rate_of(queue_free));
            [filter_free, queue_free, filter, queue]
                .map(|each| each.as_nanos() as f64 - bare.as_nanos() as f64)
        })
        .collect();
    println!(
        "instructions for a packet beyond none: filter, IFB and cake in nobody's way; saturated"
    );
    for round in &rounds {
        println!("{round:?}");
    }
    let [filter_free, queue_free, filter, queue] =
        [0, 1, 2, 3].map(|of| median(rounds.iter().map(|round| round[of]).collect()));
    println!(
        "medians: in nobody's way {filter_free:.0} and {queue_free:.0}; saturated {filter:.0} \
         and {queue:.0}"
    );
    // `cargo xtask bench` reads these lines.
    println!(
        "in nobody's way, as a part: {:.3}",
        filter_free / queue_free
    );
    println!("saturated, as a part: {:.3}", filter / queue);
}
