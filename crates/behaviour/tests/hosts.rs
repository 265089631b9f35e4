// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Alerts for hosts, by the connections of typical programs.

use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr};
use weirgate_behaviour::{Alert, Attempt, Counted, Hosts, Turn};

/// The seconds after which the kernel drops a connection without an answer, by default.
const SYN_SENT: u64 = 120;
const UNREPLIED: u64 = 30;

fn host(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
}

fn remote(number: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(0xc633_0000 + number))
}

fn attempt(number: u32, protocol: u8, port: u16, answered: bool) -> Attempt {
    Attempt {
        host: host(2),
        host_port: 1024 + (number % 60_000) as u16,
        remote: remote(number),
        port,
        protocol,
        answered,
        sent: Counted {
            packets: 2,
            bytes: 120,
        },
    }
}

/// A table of connections, each with the second in which it began.
#[derive(Default)]
struct Table(Vec<(u64, Attempt)>);

impl Table {
    fn at(&self, second: u64) -> Vec<Attempt> {
        let lasts = |one: &Attempt| match (one.answered, one.protocol) {
            (true, _) => 120,
            (false, 6) => SYN_SENT,
            (false, _) => UNREPLIED,
        };
        let there =
            |(begin, one): &&(u64, Attempt)| *begin <= second && second < begin + lasts(one);
        self.0.iter().filter(there).map(|(_, one)| *one).collect()
    }

    /// Returns the turns of this many seconds, read every ten and every second.
    fn turns(&self, seconds: u64) -> [Vec<(u64, Turn)>; 2] {
        [10, 1].map(|every| {
            let mut hosts = Hosts::new(5);
            let mut turns = Vec::new();
            for second in (0..seconds).step_by(every) {
                let found = hosts.take(second * 1000, self.at(second), true, true);
                turns.extend(found.into_iter().map(|turn| (second, turn)));
            }
            turns
        })
    }

    #[track_caller]
    fn is_silent(&self, seconds: u64) {
        let found = self.turns(seconds);
        assert!(found.iter().all(Vec::is_empty), "{found:?}");
    }

    /// Asserts that this alert begins once and ends once, and no other one does.
    #[track_caller]
    fn has(&self, alert: Alert, seconds: u64) -> [u64; 2] {
        self.turns(seconds).map(|turns| {
            assert_eq!(turns.len(), 2, "{turns:?}");
            let Turn::Begins(alarm) = turns[0].1 else {
                panic!("{turns:?}");
            };
            assert_eq!((alarm.alert, alarm.host), (alert, host(2)));
            let Turn::Ends(of, ended, _) = turns[1].1 else {
                panic!("{turns:?}");
            };
            assert_eq!((of, ended), (host(2), alert));
            turns[0].0
        })
    }
}

/// 100 connections to 30 hosts, 28 of which answer, each ten seconds.
#[test]
fn pages_are_no_scan() {
    let mut table = Table::default();
    for page in 0..60_u32 {
        for connection in 0..100 {
            let number = page * 30 + connection % 30;
            let mut one = attempt(number, 6, 443, connection % 30 >= 2);
            one.host_port = 2_000 + (page * 100 + connection) as u16;
            table.0.push((10 * u64::from(page) + 5, one));
        }
    }
    table.is_silent(700);
}

/// Each host has an address of IPv6 that leads nowhere, and one of IPv4 that answers.
#[test]
fn happy_eyeballs_is_no_scan() {
    let mut table = Table::default();
    for number in 0..600_u32 {
        let begin = u64::from(number / 30) * 20 + 3;
        let mut dead = attempt(number, 6, 443, false);
        dead.remote = IpAddr::V6(std::net::Ipv6Addr::from(
            (0x2001_0db8 << 96) | u128::from(number),
        ));
        table.0.push((begin, dead));
        table.0.push((begin, attempt(number, 6, 443, true)));
    }
    table.is_silent(500);
}

/// 20 peers a second, of which three quarters do not answer. Every tenth has the port 6881.
#[test]
fn peers_are_no_scan() {
    let mut table = Table::default();
    for number in 0..8_000_u32 {
        let port = match number % 10 {
            0 => 6_881,
            _ => 1_025 + (number.wrapping_mul(40_503) % 60_000) as u16,
        };
        let protocol = if number.is_multiple_of(3) { 6 } else { 17 };
        table.0.push((
            5 + u64::from(number / 20),
            attempt(number, protocol, port, number.is_multiple_of(4)),
        ));
    }
    table.is_silent(500);
}

#[test]
fn a_scan_of_addresses_begins_once_and_ends_once() {
    let mut table = Table::default();
    // Two hosts of a hundred answer; the user reads pages meanwhile.
    for number in 0..1_200_u32 {
        let one = attempt(number, 6, 445, number.is_multiple_of(50));
        table.0.push((20 + u64::from(number / 10), one));
    }
    for page in 0..20 {
        table
            .0
            .push((7 * u64::from(page), attempt(90_000 + page, 6, 443, true)));
    }
    let begins = table.has(Alert::AddressScan, 400);
    assert!(begins[0] <= 50 && begins[1] <= 30, "{begins:?}");
}

/// A refused connection leaves the table at once, without an answer.
#[test]
fn a_scan_of_ports_begins_once_and_ends_once() {
    let mut table = Table::default();
    for number in 0..400_u32 {
        let mut one = attempt(number, 6, 1 + number as u16, number % 100 == 22);
        one.remote = remote(1);
        table.0.push((20 + u64::from(number / 8), one));
    }
    let begins = table.has(Alert::PortScan, 300);
    assert!(begins[0] <= 50 && begins[1] <= 30, "{begins:?}");
}

/// A worm contacts ten mail servers a second. All answer.
#[test]
fn mail_to_many_servers_is_a_storm() {
    let mut table = Table::default();
    for number in 0..600_u32 {
        table
            .0
            .push((15 + u64::from(number / 10), attempt(number, 6, 25, true)));
    }
    table.has(Alert::MailStorm, 400);
    // A site's own server sends to one every ten seconds.
    let mut table = Table::default();
    for number in 0..100_u32 {
        table
            .0
            .push((10 * u64::from(number), attempt(number, 6, 25, true)));
    }
    table.is_silent(1_000);
}

#[test]
fn connections_beyond_all_programs_are_a_storm() {
    let mut table = Table::default();
    for number in 0..12_000_u32 {
        let mut one = attempt(number, 6, 80, true);
        one.remote = remote(number % 5);
        table.0.push((15 + u64::from(number / 400), one));
    }
    table.has(Alert::ConnectionStorm, 300);
}

#[test]
fn small_packets_without_an_answer_are_a_storm() {
    let run = |size: u64, answered: bool| {
        let mut hosts = Hosts::new(5);
        let mut turns = Vec::new();
        for second in 0..200_u64 {
            let packets = 5_000 * second.min(60);
            let mut one = attempt(1, 17, 4_000, answered);
            one.sent = Counted {
                packets,
                bytes: size * packets,
            };
            turns.extend(hosts.take(second * 1000, [one], true, true));
        }
        turns
    };
    let turns = run(60, false);
    assert_eq!(turns.len(), 2, "{turns:?}");
    assert!(matches!(turns[0], Turn::Begins(one) if one.alert == Alert::PacketStorm));
    // Acknowledgements, and a camera's stream.
    assert!(run(52, true).is_empty());
    assert!(run(1_300, false).is_empty());
}

/// While the line is down, nobody answers. That says nothing about a host.
#[test]
fn an_outage_is_no_scan() {
    let mut hosts = Hosts::new(5);
    for second in 0..300_u64 {
        let tries = (0..40 + second as u32).map(|number| attempt(number, 6, 443, false));
        assert!(hosts.take(second * 1000, tries, true, false).is_empty());
    }
}

/// A scanner that fills the table is still seen in the part that was read.
#[test]
fn a_part_of_the_table_suffices_for_a_scan() {
    let mut hosts = Hosts::new(5);
    let mut turns = Vec::new();
    for round in 0..5_u64 {
        let part = (0..30_000_u32).map(|number| attempt(number * 3, 6, 445, false));
        turns.extend(hosts.take(round * 10_000, part, false, true));
    }
    assert!(
        matches!(turns[..], [Turn::Begins(one)] if one.alert == Alert::AddressScan
            && one.port == Some((6, 445))),
        "{turns:?}"
    );
}

/// A host that forges the addresses of others gets at most as many alerts as there are places.
#[test]
fn forged_hosts_have_bounded_memory() {
    let mut hosts = Hosts::new(5);
    for round in 0..3_u64 {
        let forged = (0..20_000_u32).map(|number| Attempt {
            host: IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + round as u32 * 20_000 + number)),
            ..attempt(number, 6, 80, false)
        });
        hosts.take(round * 10_000, forged, true, true);
        let (known, beyond) = hosts.judged();
        assert_eq!(known, Hosts::MOST as u64);
        assert!(beyond > 19_000);
    }
}

proptest! {
    /// Alerts of a host take turns, whatever happens and however late readings are.
    #[test]
    fn each_alert_begins_and_ends_in_turn(
        readings in proptest::collection::vec(
            (0_u64..90_000, 0_u32..300, any::<u16>(), any::<[bool; 3]>(), any::<u64>()), 1..40),
    ) {
        let mut hosts = Hosts::new(9);
        let mut ms = 0_u64;
        let mut number = 0_u32;
        let mut in_force = std::collections::BTreeSet::new();
        for (passed, count, port, [answered, complete, alive], packets) in readings {
            ms += passed;
            let all: Vec<Attempt> = (0..count).map(|more| {
                let protocol = if port.is_multiple_of(2) { 6 } else { 17 };
                let mut one = attempt(number + more, protocol, port, answered);
                one.sent = Counted { packets, bytes: packets };
                one
            }).collect();
            number += count / 2;
            for turn in hosts.take(ms, all, complete, alive) {
                match turn {
                    Turn::Begins(one) => prop_assert!(in_force.insert((one.host, one.alert))),
                    Turn::Ends(host, alert, _) => prop_assert!(in_force.remove(&(host, alert))),
                }
            }
            let now: std::collections::BTreeSet<_> =
                hosts.alarms().map(|one| (one.host, one.alert)).collect();
            prop_assert_eq!(&now, &in_force);
        }
    }
}
