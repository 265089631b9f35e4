// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use std::net::Ipv4Addr;
use std::time::Duration;

fn connection(remote: u32, port: u16, packets: u64, answered: bool) -> Connection {
    let address = |number: u32| IpAddr::V4(Ipv4Addr::from(number));
    let original = Tuple {
        source: address(0x0a00_0002),
        destination: address(0xc633_6400 + remote),
        protocol: 6,
        source_port: 1_000 + remote as u16,
        destination_port: port,
        icmp_type: 0,
    };
    let reply = Tuple {
        source: original.destination,
        destination: address(0xc000_0201),
        source_port: port,
        destination_port: original.source_port,
        ..original
    };
    let carried = |packets| Carried {
        packets,
        bytes: 200 * packets,
    };
    let back = if answered { packets } else { 0 };
    Connection {
        original,
        reply,
        answered,
        tcp_state: None,
        timeout: 60,
        mark: 0,
        carried: Some((carried(packets), carried(back))),
    }
}

fn subnet(device: &str, own: [u8; 4]) -> Subnet {
    Subnet {
        device: device.to_owned(),
        own: own.into(),
        length: 24,
    }
}

fn legend() -> Legend {
    Legend {
        links: vec![(String::from("up"), String::from("wan"), 1_000_000)],
        ..Legend::default()
    }
}

/// Returns the events of a scan of 20 addresses beside a call, with this legend.
fn scan(legend: &Legend) -> (Behaviour, Vec<(&'static str, String)>) {
    let subnets = [subnet("lan", [10, 0, 0, 1]), subnet("wan", [192, 0, 2, 1])];
    let mut behaviour = Behaviour::default();
    let begin = Instant::now();
    let mut events = Vec::new();
    for round in 0..20_u32 {
        let mut table = ConnectionTable::default();
        table.add(connection(1, 5_004, 500 * u64::from(1 + round), true));
        for remote in 10..30 {
            if round < 3 {
                table.add(connection(remote, 445, 2, false));
            }
        }
        let now = begin + Duration::from_secs(10 * u64::from(round));
        behaviour.take(&table, &subnets, legend, now);
        events.append(&mut behaviour.events);
        assert_eq!(
            behaviour.alerts.len(),
            usize::from(!legend.links.is_empty() && (1..7).contains(&round)),
            "{round}"
        );
    }
    (behaviour, events)
}

#[test]
fn a_scan_is_two_events_and_a_call_is_counted() {
    let (behaviour, events) = scan(&legend());
    let text = |text: &str| ("alert", text.to_owned());
    assert_eq!(
        events,
        [
            text("10.0.0.2 contacts many hosts that do not answer, mostly at tcp 445"),
            text("10.0.0.2 no longer contacts many hosts that do not answer, after 0 s"),
        ]
    );
    let objects = behaviour.objects();
    let count = |label: &str| {
        let mut all = objects.iter();
        let one = all.find(|one| one.labels[0].1 == label).expect("an object");
        one.numbers[0].1
    };
    assert_eq!(
        (count("call"), count("bulk"), count("address-scan")),
        (1, 0, 0)
    );
    let key = connection(1, 5_004, 1, true).original;
    assert_eq!(behaviour.kind(&key), Some("call"));
}

/// Without a policy, nobody says which side is inside.
#[test]
fn without_a_link_no_host_is_judged() {
    assert!(scan(&Legend::default()).1.is_empty());
}
