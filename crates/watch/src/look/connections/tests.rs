// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weirgate_kernel::Carried;

fn connection(host: u8, from: u16, to: u16, bytes: u64) -> Connection {
    let ends = [
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)),
        IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    ];
    let original = Tuple {
        source: ends[0],
        destination: ends[1],
        protocol: 6,
        source_port: from,
        destination_port: to,
        icmp_type: 0,
    };
    let carried = |bytes| Carried { packets: 1, bytes };
    Connection {
        original,
        reply: Tuple {
            source: ends[1],
            destination: ends[0],
            source_port: to,
            destination_port: from,
            ..original
        },
        answered: bytes > 0,
        tcp_state: None,
        timeout: 60,
        mark: u32::from(host),
        carried: Some((carried(bytes), carried(10 * bytes))),
    }
}

fn table(all: &[Connection]) -> ConnectionTable {
    let mut table = ConnectionTable::default();
    all.iter().cloned().for_each(|one| table.add(one));
    table
}

fn sorter() -> Sorter {
    Sorter(Some(Arc::new(|one: &Connection, _: &[Subnet]| {
        let port = one.original.destination_port;
        Some(Sorted {
            host: (one.original.source, one.original.source_port),
            remote: (one.original.destination, port),
            opened_inside: true,
            up: Some(String::from(if port == 443 { "web" } else { "rest" })),
            down: None,
        })
    })))
}

fn service(found: &Connections, protocol: &str, port: &str) -> Option<u64> {
    let mut objects = found.objects.iter().filter(|one| one.sort == Sort::Service);
    let one = objects.find(|one| one.label("protocol") == protocol && one.label("port") == port)?;
    one.number(Number::ServiceConnections)
}

#[test]
fn connections_are_counted_by_service_and_class() {
    let mut found = Connections::default();
    let begin = Instant::now();
    let mut all = vec![
        connection(1, 1000, 443, 100),
        connection(1, 1001, 443, 0),
        connection(2, 1002, 22, 100),
    ];
    found.take(&table(&all), &[], (&sorter(), 400), Some(256_000), begin);
    let whole = &found.objects[0];
    assert_eq!(whole.number(Number::ConnectionsTracked), Some(3));
    assert_eq!(whole.number(Number::ConnectionsUnanswered), Some(1));
    assert_eq!(whole.number(Number::ConnectionsMarked), Some(3));
    assert_eq!(service(&found, "tcp", "443"), Some(2));
    assert_eq!(found.classes[&("up", String::from("web"))], 2);
    assert!(found.flows.is_empty());
    all[0] = connection(1, 1000, 443, 1100);
    found.take(
        &table(&all),
        &[],
        (&sorter(), 400),
        None,
        begin + Duration::from_secs(10),
    );
    let flows = &found.flows;
    assert_eq!(flows.len(), 1);
    assert_eq!((flows[0].up, flows[0].down), (800, 8000));
    assert_eq!(flows[0].up_class.as_deref(), Some("web"));
}

#[test]
fn a_flood_of_ports_adds_no_series() {
    let mut found = Connections::default();
    let begin = Instant::now();
    for round in 0..5_u16 {
        let all: Vec<Connection> = (0..2_000)
            .map(|port| connection(1, 1000, 1 + round * 2_000 + port, 100))
            .collect();
        let now = begin + Duration::from_secs(u64::from(round) * 10);
        found.take(&table(&all), &[], (&sorter(), 400), None, now);
        assert!(found.objects.len() <= MOST_SERVICES + 2);
        assert!(found.flows.len() <= MOST_FLOWS);
        let sum: u64 = found
            .objects
            .iter()
            .filter_map(|one| one.number(Number::ServiceConnections))
            .sum();
        assert_eq!(sum, 2_000);
        assert_eq!(found.known.len(), 400);
        let unsorted = found.objects[0].number(Number::ConnectionsUnsorted);
        assert_eq!(unsorted, Some(1_600));
    }
}

/// 2,000 connections stay, more than can be classified before they are due again. 10 others come
/// and go with each reading at the head of the table. Each of the former is classified, and
/// classified again later.
#[test]
fn no_connection_waits_for_ever_for_its_class() {
    let stay: Vec<Connection> = (0..2_000_u16)
        .map(|index| connection(3, 10_000 + index, 443, 100))
        .collect();
    let renamed = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&renamed);
    let by_time = Sorter(Some(Arc::new(move |one: &Connection, _: &[Subnet]| {
        let class = if asked.load(Ordering::Relaxed) {
            "late"
        } else {
            "early"
        };
        Some(Sorted {
            host: (one.original.source, one.original.source_port),
            remote: (one.original.destination, one.original.destination_port),
            opened_inside: true,
            up: Some(String::from(class)),
            down: None,
        })
    })));
    let mut found = Connections::default();
    let begin = Instant::now();
    let mut read = |round: u16, room: usize| {
        let passing = (0..10).map(|index| connection(4, 1 + index, 1 + round, 100));
        let all: Vec<Connection> = passing.chain(stay.iter().cloned()).collect();
        let now = begin + Duration::from_secs(u64::from(round) * 20);
        found.take(&table(&all), &[], (&by_time, room), None, now);
        let of = |class: &str| {
            let key = ("up", String::from(class));
            found.classes.get(&key).copied().unwrap_or(0)
        };
        let unsorted = found.objects[0].number(Number::ConnectionsUnsorted);
        // All connections are accounted for.
        assert_eq!(of("early") + of("late") + unsorted.unwrap(), 2_010);
        (of("early"), of("late"), unsorted.unwrap())
    };
    let rounds: Vec<_> = (0..70).map(|round| read(round, 40)).collect();
    assert_eq!(rounds[0].2, 1_970);
    assert!(rounds[69].2 <= 10, "{:?}", rounds[69]);
    renamed.store(true, Ordering::Relaxed);
    let rounds: Vec<_> = (70..170).map(|round| read(round, 40)).collect();
    assert!(rounds[99].0 <= 10, "{:?}", rounds[99]);
}

/// The memory does not grow with a flood of connections to many ports.
#[test]
fn a_flood_is_counted_and_not_kept() {
    let mut flood = ConnectionTable::default();
    for number in 0..200_000_u32 {
        let (host, port) = (number % 200, number / 4);
        flood.add(connection(host as u8, number as u16, port as u16, 0));
    }
    assert_eq!(flood.first.len(), ConnectionTable::MOST);
    assert_eq!(flood.services.len(), ConnectionTable::MOST_SERVICES);
    let mut found = Connections::default();
    found.take(&flood, &[], (&sorter(), 400), None, Instant::now());
    let whole = &found.objects[0];
    assert_eq!(whole.number(Number::ConnectionsTracked), Some(200_000));
    assert_eq!(whole.number(Number::ConnectionsUnanswered), Some(200_000));
    assert_eq!(whole.number(Number::ConnectionsUnsorted), Some(199_600));
    let services = found.objects.iter().filter(|one| one.sort == Sort::Service);
    let counted = services.filter_map(|one| one.number(Number::ServiceConnections));
    assert_eq!(counted.sum::<u64>(), 200_000);
    assert!(found.flows.is_empty());
    assert_eq!(found.known.len(), 400);
}
