// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A flood of new hosts and ports while `watch` is scraped, and the first interval of a new host.

use crate::watch::Watch;
use serde_json::Value;
use std::collections::BTreeSet;

/// The most hosts that have their own series, and the most services, including the one for the
/// rest.
const MOST_HOSTS: usize = 512;
const MOST_SERVICES: usize = 33;

/// Sends a datagram to each of the given number of hosts on the inside, each to another port.
fn flood(watch: &Watch, net: u8, hosts: u32) {
    let script = format!(
        "import socket\n\
         s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         for i in range({hosts}):\n \
         s.sendto(bytes(100), (f'10.{net}.{{1 + i // 200}}.{{1 + i % 200}}', 10000 + i))"
    );
    let mut command = watch.namespace.command("/usr/bin/python3");
    assert!(command.args(["-c", &script]).status().unwrap().success());
}

fn hosts(now: &Value) -> usize {
    let all = now["objects"].as_array();
    all.map_or(0, |all| {
        all.iter().filter(|one| one["sort"] == "host").count()
    })
}

#[test]
fn a_flood_of_hosts_and_ports_adds_no_series() {
    let watch = Watch::start(|_| {});
    watch.namespace.run("ip link set lan arp off");
    let mut scrapes = Vec::new();
    for net in [7, 6] {
        watch
            .namespace
            .run(&format!("ip addr add 10.{net}.0.1/16 dev lan"));
        flood(&watch, net, 5_000);
        watch.look(|now| hosts(now) == MOST_HOSTS);
        // The connection table is read at every tenth sample.
        watch.look(|now| {
            let all = now["objects"].as_array().unwrap();
            let services = all.iter().filter(|one| one["sort"] == "service").count();
            assert!(services <= MOST_SERVICES, "{services}");
            services == MOST_SERVICES
        });
        let text = watch.get("metrics");
        let of = |metric: &str| {
            let begin = format!("weirgate_{metric}{{");
            text.lines()
                .filter(|line| line.starts_with(&begin))
                .collect::<BTreeSet<_>>()
                .len()
        };
        assert_eq!(of("host_received_bytes_total"), MOST_HOSTS);
        assert!(of("service_connections") <= MOST_SERVICES);
        // A host's wait has a series only while packets arrive.
        assert!(of("host_wait_seconds") <= MOST_HOSTS);
        let steady = text.lines().filter(|line| !line.contains("_wait_"));
        scrapes.push(steady.count());
    }
    println!("lines of a scrape: {scrapes:?}");
    // The second flood may add only a few series to those of the first.
    assert!(scrapes[1] <= scrapes[0] + 16, "{scrapes:?}");
}

/// A host's first interval counts only what arrived in that interval: a steady stream has the same
/// rate there as later.
#[test]
fn a_hosts_first_interval_is_no_spike() {
    let watch = Watch::start(|_| {});
    let mut sender = watch.namespace.command("/usr/bin/python3");
    let script = "import socket, time\n\
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
        while True: s.sendto(bytes(100), ('10.8.0.77', 5000)); time.sleep(0.002)";
    let mut sender = sender.args(["-c", script]).spawn().unwrap();
    let host = "host=\"10.8.0.77\"";
    std::thread::sleep(std::time::Duration::from_secs(4));
    sender.kill().unwrap();
    sender.wait().unwrap();
    let rates = watch.rates("host_received_packets", host);
    println!("{rates:?}");
    // The last interval is cut short; those before it are even.
    let (first, later) = (rates[0], &rates[1..rates.len() - 2]);
    let most = later.iter().copied().fold(0.0, f64::max);
    assert!(later.len() >= 8 && first <= most * 1.2, "{rates:?}");
}
