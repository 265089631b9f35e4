// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The derived worst case against a simulation of every packet. Five ports stand in a row, each
//! with best effort that is always backlogged. Expedited forwarding runs through all of them, and
//! more joins and leaves at each.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

use proptest::prelude::*;
use std::fmt::Write as _;
use weirgate_domain::{Check, Domain, Service, check, parse};

/// Rates of the five ports, kbit/s.
const PORTS: [u64; 5] = [10_000, 10_100, 10_230, 10_410, 10_570];

/// One packet: its arrival at the port, its waiting time so far, and its service. Times are in
/// nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    at: u64,
    waited: u64,
    service: usize,
}

/// Returns a domain of five routers in a row with a service through all of them and one more at
/// each port. They use 30 % of the slowest port.
fn row(burst: u64, beside: u64) -> (Domain, Check) {
    let mut text = "version = 1\n[class.voice]\nbehaviour = \"EF\"\nshare = \"32%\"\n\
                    [class.rest]\nbehaviour = \"DF\"\nshare = \"60%\"\n"
        .to_owned();
    for at in 1..=5 {
        let _ = write!(
            text,
            "[router.r{at}]\nrole = \"boundary\"\n[customer.x{at}]\nrouter = \"r{at}\"\n\
             device = \"x{at}\"\nrate = \"{}kbit\"\n",
            if at == 5 { PORTS[4] } else { 10_000 }
        );
    }
    for at in 1..5 {
        let (next, rate) = (at + 1, PORTS[at - 1]);
        let _ = write!(
            text,
            "[[link]]\nbetween = [\"r{at}\", \"r{next}\"]\ndevices = [\"r{next}\", \"r{at}\"]\n\
             rate = \"{rate}kbit\"\n"
        );
    }
    let through = 2662 - beside;
    let _ = write!(
        text,
        "[customer.alfa]\nrouter = \"r1\"\ndevice = \"alfa\"\nrate = \"10mbit\"\n\
         [[service]]\nname = \"through\"\nfrom = \"alfa\"\nto = \"x5\"\nclass = \"voice\"\n\
         rate = \"{through}kbit\"\npacket = \"300B\"\nburst = \"{burst}B\"\n"
    );
    for at in 1..5 {
        let _ = write!(
            text,
            "[[service]]\nname = \"beside{at}\"\nfrom = \"x{at}\"\nto = \"x{}\"\n\
             class = \"voice\"\nrate = \"{beside}kbit\"\npacket = \"300B\"\nburst = \"{burst}B\"\n",
            at + 1
        );
    }
    let (domain, problems) = parse(&text);
    assert!(problems.is_empty(), "{problems:?}");
    let domain = domain.unwrap();
    let found = check(&domain);
    assert_eq!(found.findings, []);
    (domain, found)
}

/// Pseudorandom numbers from a seed (Steele and others, `SplitMix64`).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % most.max(1)
    }
}

/// Returns the packets of a service: as much at once as its profile allows, then pauses of up to
/// the time of a burst, so that bursts come at any moment.
fn sent(service: &Service, number: usize, numbers: &mut Numbers) -> Vec<Packet> {
    let packet = service.packet.as_bytes() * 8_000_000_000;
    let most = service.burst.as_bytes() * 8_000_000_000;
    let rate = service.rate.as_bits_per_second();
    let (mut at, mut tokens, mut list) = (numbers.below(5_000_000), most, Vec::new());
    while list.len() < 2000 {
        if tokens < packet {
            let pause = (packet - tokens).div_ceil(rate) + numbers.below(most / rate);
            at += pause;
            tokens = most.min(tokens + pause * rate);
        }
        tokens -= packet;
        list.push(Packet {
            at,
            waited: 0,
            service: number,
        });
    }
    list
}

/// Returns the longest wait of a packet through all ports, in nanoseconds.
fn simulated(domain: &Domain, check: &Check, seed: u64) -> u64 {
    let mut numbers = Numbers(seed);
    let through = check.paths[0].as_ref().unwrap();
    let mut inside: Vec<Packet> = sent(&domain.services[0], 0, &mut numbers);
    for id in through {
        let port = &check.ports[id.0];
        let layer = &port.layer.layer;
        for (number, service) in domain.services.iter().enumerate().skip(1) {
            let path = check.paths[number].as_ref().unwrap();
            if path[0] == *id {
                inside.extend(sent(service, number, &mut numbers));
            }
        }
        inside.sort();
        // The gate stays 0.2 % below the link's rate.
        let gate = port.rate.as_bits_per_second() * 998 / 1000;
        let time = |ip: u32| u64::from(layer.wire_bytes(ip)) * 8_000_000_000 / gate;
        let mut free = numbers.below(time(1500));
        let mut next = Vec::new();
        for packet in &inside {
            // Best effort uses the gate whenever no urgent packet waits.
            while free < packet.at {
                free += time(1500);
            }
            let wait = free - packet.at;
            free += time(300);
            let line = layer.serialisation(port.rate, 300).unwrap().as_nanos();
            next.push(Packet {
                at: packet.at + wait + line + port.delay.as_nanos(),
                waited: packet.waited + wait,
                service: packet.service,
            });
        }
        let goes_on = |packet: &Packet| {
            let path = check.paths[packet.service].as_ref().unwrap();
            path.last() != Some(id)
        };
        if through.last() == Some(id) {
            inside = next;
        } else {
            inside = next.into_iter().filter(goes_on).collect();
        }
    }
    let own = inside.iter().filter(|packet| packet.service == 0);
    own.map(|packet| packet.waited).max().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    /// For any arrivals within the profile, no packet waits longer than derived.
    #[test]
    fn no_packet_waits_longer_than_derived(
        seed in any::<u64>(), packets in 1_u64..8, beside in 100_u64..1500
    ) {
        let (domain, check) = row(packets * 300, beside);
        let bound = check.delays[0].as_ref().unwrap().variation().as_nanos();
        let worst = simulated(&domain, &check, seed);
        prop_assert!(worst <= bound, "{worst} of {bound}");
    }
}

/// The derived worst case is close to the possible one: some traffic within its profile waits more
/// than half as long, with few packets at once or many.
#[test]
fn more_than_half_of_the_derived_wait_happens() {
    for (packets, beside) in [(2, 200), (2, 1000), (6, 600)] {
        let (domain, check) = row(packets * 300, beside);
        let bound = check.delays[0].as_ref().unwrap().variation().as_nanos();
        let worst = (0..40)
            .map(|seed| simulated(&domain, &check, seed))
            .max()
            .unwrap();
        let part = worst as f64 / bound as f64;
        assert!(
            part >= 0.5,
            "{packets} packets, {beside} kbit/s: {worst} of {bound}"
        );
    }
}
