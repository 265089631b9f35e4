// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a link's own traffic says of its health: what runs in the guest.

use crate::inside::{FILE, LINKS, Service, load};
use crate::net::{build, router, set};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// So often the link is cut, idle and under load.
const CUTS: u64 = 5;

/// Hosts are asked so seldom that silence alone says nothing in this test.
const SELDOM: &str = "\n[health]\nevery = \"15s\"\nsilence = \"60s\"\n";

/// The first link, as it is shown.
fn shown() -> serde_json::Value {
    let text = router("weirgate links show --json");
    let shown: serde_json::Value = serde_json::from_str(&text).unwrap();
    shown["links"][0].clone()
}

/// Whether the first link is up, and whether it is suspected.
fn first() -> (bool, bool) {
    let link = shown();
    (link["up"] == true, !link["suspected"].is_null())
}

/// Waits until the first link, which is up, is suspected for this reason, or no longer.
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
        sleep(Duration::from_millis(20));
    }
}

/// The provider of the first link drops everything, and its router still answers: how long
/// it takes until the link is given up. Before, the link is looked at for a while.
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

/// A device that the kernel says is not operational makes its link suspected at once, and its
/// hosts are asked: one that answers ends the suspicion.
#[test]
#[ignore = "runs in the guest"]
fn told() {
    build();
    fs::write(FILE, LINKS.to_owned() + SELDOM).unwrap();
    let service = Service::begin();
    service.says("routing: ", Duration::from_secs(5));
    suspected(None, Duration::from_secs(1));

    // As a port before 802.1X: it has a carrier, and nothing comes back by it.
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
