// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A link that fails and returns at random times: the part that runs in the guest.
//!
//! [`CUTS`] is the number of cuts, `WEIRGATE_SEED` selects them.

use crate::inside::{FILE, LINKS, Service, call, longest};
use crate::net::{build, router, set};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use weirgate_experiment::Random;

/// The variable with the number of cuts.
pub const CUTS: &str = "WEIRGATE_CUTS";

/// `silence` and `steady` by default, and the longest `steady` after doublings.
const SILENCE: Duration = Duration::from_secs(2);
const STEADY: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(320);

/// A cut shorter than this goes unnoticed: half of `silence` is the least silence that ends a link.
const UNNOTICED: Duration = Duration::from_millis(900);

/// A cut as long as this makes a gap in the answers: half of `silence`, one round, and a little for
/// timers.
const GAP: Duration = Duration::from_millis(1_550);

/// A change of the first link in the messages of the service.
#[derive(Debug, Clone, Copy)]
struct Change {
    up: bool,
    at: Instant,
}

/// A cut: from when to when the provider dropped everything.
#[derive(Debug, Clone, Copy)]
struct Cut {
    from: Instant,
    to: Instant,
}

/// Returns a random number between two, such that all orders of magnitude are equally likely.
fn between(random: &mut Random, least: f64, most: f64) -> Duration {
    Duration::from_secs_f64(least * (most / least).powf(random.unit()))
}

fn changes(service: &Service) -> Vec<Change> {
    let messages = service.so_far();
    let of_first = |(at, line): (Instant, String)| {
        let up = line.contains("first (wan0) is up");
        (up || line.contains("first (wan0) is down")).then_some(Change { up, at })
    };
    messages.into_iter().filter_map(of_first).collect()
}

/// The link changes only for a reason: it is given up during a cut of some length, and used again
/// after answers without a gap. Nothing remains when the links are removed.
#[test]
#[ignore = "runs in the guest"]
fn random() {
    let [count, seed] = [CUTS, "WEIRGATE_SEED"].map(|name| -> u64 {
        let value = std::env::var(name).unwrap();
        value.parse().unwrap()
    });
    let mut random = Random::of_flow(seed, "cuts", 0);
    build();
    let before = crate::inside::routing();
    fs::write(FILE, LINKS).unwrap();
    let service = Service::begin();
    service.says("routing: ", Duration::from_secs(5));
    let stop = Arc::new(AtomicBool::new(false));
    let heard = call(&stop);
    sleep(Duration::from_secs(1));
    let begin = Instant::now();
    let mut cuts = Vec::new();
    for _ in 0..count {
        set("isp0", "ipv4/ip_forward", "0");
        let from = Instant::now();
        sleep(between(&mut random, 0.1, 20.0));
        set("isp0", "ipv4/ip_forward", "1");
        cuts.push(Cut {
            from,
            to: Instant::now(),
        });
        sleep(between(&mut random, 0.1, 100.0));
    }
    // However often it failed, the link is used again in the end.
    let over = Instant::now();
    let mut found = changes(&service);
    while found.last().is_some_and(|last| !last.up) {
        assert!(over.elapsed() < LONGEST + STEADY, "{:?}", found.last());
        sleep(Duration::from_secs(1));
        found.extend(changes(&service));
    }
    let end = Instant::now();
    stop.store(true, Ordering::Relaxed);
    let heard = heard.join().unwrap();
    judge(&cuts, &found);
    let gap = longest(&heard, begin, end);
    let downs = found.iter().filter(|one| !one.up).count();
    println!(
        "{count} cuts of seed {seed} in {:?}: given up and used again {downs} times, the call's \
         longest gap {gap:?}",
        over - begin
    );
    assert!(gap <= Duration::from_secs(4), "{gap:?}");
    service.end();
    router("weirgate links remove");
    assert_eq!(crate::inside::routing(), before);
}

fn judge(cuts: &[Cut], found: &[Change]) {
    let mut was_up = true;
    let mut downs = 0;
    for change in found {
        assert_ne!(change.up, was_up, "{change:?} of {found:?}");
        was_up = change.up;
        let last = cuts.iter().rfind(|cut| cut.from <= change.at);
        let last = last.unwrap_or_else(|| panic!("{change:?} before any cut"));
        if change.up {
            // Since the last cut that made a gap, answers came all the time.
            let gap = cuts
                .iter()
                .rfind(|cut| cut.from <= change.at && cut.to - cut.from >= GAP);
            let answered = change.at.saturating_duration_since(gap.unwrap_or(last).to);
            assert!(answered >= STEADY, "up {answered:?} after {gap:?}");
        } else {
            downs += 1;
            let silent = change.at - last.from;
            assert!(silent >= UNNOTICED, "down {silent:?} after {last:?}");
            assert!(silent <= SILENCE + Duration::from_secs(1), "{silent:?}");
            let late = change.at.saturating_duration_since(last.to);
            assert!(late < Duration::from_millis(100), "{late:?} after {last:?}");
        }
    }
    assert!(downs > 0, "no cut was long enough");
    // A cut that is surely noticed leaves the link down.
    for cut in cuts
        .iter()
        .filter(|cut| cut.to - cut.from > SILENCE * 3 / 2)
    {
        let state = found.iter().rfind(|change| change.at <= cut.to);
        assert!(
            state.is_some_and(|change| !change.up),
            "not noticed: {cut:?}"
        );
    }
}
