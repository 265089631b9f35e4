// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signs of a link's health in its own traffic: the part that runs in the guest.

use crate::inside::{FILE, LINKS, Service, load};
use crate::net::{OWN, build, router, run, set};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The number of cuts, idle and under load.
const CUTS: u64 = 5;

/// Settings that probe hosts so seldom that silence alone has no effect in this test.
const SELDOM: &str = "\n[health]\nevery = \"15s\"\nsilence = \"60s\"\n";

/// Returns the first link as `links show` reports it.
fn shown() -> serde_json::Value {
    let text = router("weirgate links show --json");
    let shown: serde_json::Value = serde_json::from_str(&text).unwrap();
    shown["links"][0].clone()
}

/// Returns whether the first link is up, and whether it is suspected.
fn first() -> (bool, bool) {
    let link = shown();
    (link["up"] == true, !link["suspected"].is_null())
}

/// Waits until the first link, while up, is suspected for the given reason, or not suspected for
/// `None`. Returns the time that it took.
#[track_caller]
fn suspected(why: Option<&str>, within: Duration) -> Duration {
    let begin = Instant::now();
    loop {
        let link = shown();
        assert_eq!(link["up"], true, "{link}");
        if link["suspected"].as_str() == why {
            return begin.elapsed();
        }
        assert!(begin.elapsed() < within, "{link}");
        // Each check starts a program.
        sleep(Duration::from_millis(200));
    }
}

/// Makes the provider of the first link drop everything while its router still answers. Returns the
/// time until the link is given up. Before that, the link must stay trusted for a while.
fn cut(phase: Duration, watched: Duration) -> Duration {
    let service = Service::begin();
    service.says("routing: ", Duration::from_secs(5));
    let end = Instant::now() + watched;
    while Instant::now() < end {
        assert_eq!(first(), (true, false));
    }
    sleep(phase);
    set("isp0", "ipv4/ip_forward", "0");
    let begin = Instant::now();
    let down = service.says("first (wan0) is down", Duration::from_secs(5));
    set("isp0", "ipv4/ip_forward", "1");
    service.end();
    router("weirgate links remove");
    down - begin
}

#[test]
#[ignore = "runs in the guest"]
fn detected() {
    build();
    fs::write(FILE, LINKS).unwrap();
    let cuts = |watched| -> Vec<Duration> {
        let phases = (0..CUTS).map(|cut| Duration::from_millis(300 + 103 * cut));
        let mut found: Vec<Duration> = phases.map(|phase| cut(phase, watched)).collect();
        found.sort();
        found
    };
    let idle = cuts(Duration::from_secs(2));
    let stop = Arc::new(AtomicBool::new(false));
    load(&stop);
    let loaded = cuts(Duration::from_secs(2));
    stop.store(true, Ordering::Relaxed);
    println!("given up idle after {idle:?}, under load after {loaded:?}");
    let middle = CUTS as usize / 2;
    assert!(idle[0] >= Duration::from_millis(1_400), "{idle:?}");
    assert!(loaded[middle] + Duration::from_millis(300) <= idle[middle]);
    assert!(loaded[CUTS as usize - 1] <= Duration::from_millis(1_800));
}

/// Makes the next hop of the first link answer no ARP, and send no request itself, because its
/// request would tell the router its address.
fn silence_next_hop() {
    let shown = router("ip link show dev wan0");
    let mut words = shown.split_whitespace();
    words.find(|word| *word == "link/ether").unwrap();
    let own = words.next().unwrap();
    let [address, _] = OWN;
    run(&format!(
        "ip -n isp0 neigh replace {address} lladdr {own} dev eth nud permanent"
    ));
    set("isp0", "ipv4/conf/eth/arp_ignore", "8");
}

/// Starts the service with links that no sign speaks against, and that are probed seldom.
fn trusted() -> Service {
    build();
    fs::write(FILE, LINKS.to_owned() + SELDOM).unwrap();
    let service = Service::begin();
    service.says("routing: ", Duration::from_secs(5));
    suspected(None, Duration::from_secs(1));
    service
}

/// A next hop that the kernel finds unreachable makes its link suspected at once. Its hosts are
/// probed then, and an answer ends the suspicion.
#[test]
#[ignore = "runs in the guest"]
fn next_hop() {
    let service = trusted();
    // The router verifies the entry after 5 s of traffic (`delay_first_probe_time`). Then it asks
    // three times, one second apart (`ucast_solicit`, `retrans_time_ms`).
    silence_next_hop();
    router("ip neigh change 192.0.2.1 dev wan0 nud stale");
    let stop = Arc::new(AtomicBool::new(false));
    load(&stop);
    let silent = suspected(
        Some("its next hop does not answer"),
        Duration::from_millis(9_500),
    );
    assert!(silent >= Duration::from_secs(5), "{silent:?}");
    set("isp0", "ipv4/conf/eth/arp_ignore", "0");
    // The hosts of a suspected link are probed four times as often.
    let ended = suspected(None, Duration::from_secs(6));
    stop.store(true, Ordering::Relaxed);
    println!("suspected {silent:?} after the next hop was silent, trusted again after {ended:?}");
    service.end();
    router("weirgate links remove");
}

/// Does the same for a device that the kernel reports as not operational.
#[test]
#[ignore = "runs in the guest"]
fn told() {
    let service = trusted();
    // Like a port before 802.1X authentication, the device has a carrier, and nothing returns
    // through it.
    set("isp0", "ipv4/ip_forward", "0");
    router("ip link set dev wan0 state dormant");
    let dormant = suspected(
        Some("its device is not operational"),
        Duration::from_millis(500),
    );
    router("ip link set dev wan0 state up");
    set("isp0", "ipv4/ip_forward", "1");
    let operational = suspected(None, Duration::from_secs(6));
    println!(
        "suspected {dormant:?} after the device was dormant, trusted again after {operational:?}"
    );
    service.end();
    router("weirgate links remove");
}

/// A default route that is removed and added again, as at a DHCP client's renewal, is no outage.
#[test]
#[ignore = "runs in the guest"]
fn renewed() {
    build();
    router("ip route add default via 192.0.2.1 dev wan0");
    fs::write(FILE, LINKS.replacen("gateway = \"192.0.2.1\"\n", "", 1)).unwrap();
    let service = Service::begin();
    service.says("routing: ", Duration::from_secs(5));
    suspected(None, Duration::from_secs(1));
    let renewal = "/tmp/renewal";
    fs::write(
        renewal,
        "route del default\nroute add default via 192.0.2.1 dev wan0\n",
    )
    .unwrap();
    for _ in 0..5 {
        run(&format!("ip -n router -batch {renewal}"));
        sleep(Duration::from_millis(300));
        assert_eq!(first(), (true, false));
    }
    router("ip route del default");
    service.says("first (wan0) is down", Duration::from_secs(1));
    service.end();
    router("weirgate links remove");
}
