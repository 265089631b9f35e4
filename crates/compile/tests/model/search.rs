// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Generates random policies, and compares the worst waits that a search finds with the bounds.

use crate::attack::{Attack, Order, Plan, Random};
use crate::drive::Site;
use crate::flood::full_queue;
use std::fmt::Write as _;
use std::ops::Range;
use weirgate_compile::FullQueue;
use weirgate_compile::bounds::HOST;

/// A bound counts as near if it is at most this factor above the worst wait that is found.
const NEAR: f64 = 1.15;

/// The number of variations of the best plan that are tried for each bound.
struct Effort {
    plans: u64,
}

/// The seed of all policies and plans.
const SEED: u64 = 1;

/// The kind of a bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Which {
    /// The bound of a conforming class, with this order.
    Within(Order),
    /// The bound of a full queue.
    Full,
}

const ALL: [Which; 5] = [
    Which::Within(Order::Fifo),
    Which::Within(Order::Worst),
    Which::Full,
    Which::Within(Order::FqCodel),
    Which::Within(Order::Sfq),
];

/// A bound and the worst wait that was found, in nanoseconds, both without the allowance for the
/// machine, which the model lacks.
struct Found {
    which: Which,
    bound: u64,
    worst: u64,
    what: String,
}

impl Found {
    fn ratio(&self) -> f64 {
        self.bound as f64 / self.worst.max(1) as f64
    }
}

/// Generates a policy: 2 to 6 classes on a line of 256 kbit/s to 200 Mbit/s, log-uniformly
/// distributed. Half of the policies guarantee the whole line, the others 40 to 99 %. A class has
/// the priority of the previous one in one of three cases, a burst of 0 to 4 full packets, a
/// ceiling in one of five, and any of the tree's queues.
fn policy(random: &mut Random) -> String {
    let rate = (256_000.0 * 800_f64.powf(random.below(1_000) as f64 / 1e3)) as u64 / 8_000 * 8;
    let layers: &[&str] = if rate < 8_000 {
        &["adsl:bridged-vc-fcs", "adsl:pppoa-vc", "vdsl2:pppoe"]
    } else {
        &["vdsl2:pppoe", "ethernet", "docsis"]
    };
    let layer = layers[random.below(3) as usize];
    let mut text = format!(
        "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"{rate}kbit\"\n\
         layer = \"{layer}\"\nmargin = \"1%\"\n"
    );
    let count = 2 + random.below(5);
    let weights: Vec<u64> = (0..count).map(|_| 1 + random.below(20)).collect();
    let all = if random.one_in(2) {
        100
    } else {
        40 + random.below(60)
    };
    let sum: u64 = weights.iter().sum();
    let mut priority = random.below(3);
    for (at, weight) in weights.iter().enumerate() {
        if at > 0 && !random.one_in(3) {
            priority = (priority + 1 + random.below(2)).min(7);
        }
        let share = (weight * all / sum).max(1);
        // A burst that takes ten seconds is refused.
        let most = rate * share;
        let burst = ([0, 0, 1, 2, 4][random.below(5) as usize] * 1_500).min(most);
        let queue = match random.below(6) {
            0 => format!("pfifo {}", 5 + random.below(60)),
            1 => format!("bfifo {}", 8_000 + random.below(60_000)),
            2 => "sfq".to_owned(),
            3 => "cake".to_owned(),
            _ => "fq_codel".to_owned(),
        };
        let _ = write!(
            text,
            "[[class]]\nname = \"c{at}\"\nshare = \"{share}%\"\npriority = {priority}\n\
             burst = {burst}\nqueue = \"{queue}\"\n"
        );
        if random.one_in(5) {
            let ceiling = share + random.below(101 - share);
            let _ = writeln!(text, "ceiling = \"{ceiling}%\"");
        }
        if at + 1 == weights.len() {
            text.push_str("default = true\n");
        }
    }
    // Every class needs a rule that selects it.
    for at in 1..count {
        let _ = write!(text, "[[rule]]\nclass = \"c{}\"\ndscp = {at}\n", at - 1);
    }
    text
}

/// Returns the worst wait that a search finds for packets of a conforming class.
fn within(site: &Site, class: usize, order: Order, effort: &Effort, random: &mut Random) -> u64 {
    let attack = Attack::new(site, class, order);
    let classes = site.classes().len();
    let usual = Plan::usual(classes).map(|plan| (attack.run(&plan), plan));
    let Some(mut best) = usual.max_by_key(|found| found.0) else {
        return 0;
    };
    for _ in 0..effort.plans {
        let mut plan = best.1.clone();
        for _ in 0..=random.below(3) {
            plan = plan.changed(random, classes);
        }
        let wait = attack.run(&plan);
        if wait >= best.0 {
            best = (wait, plan);
        }
    }
    best.0
}

/// Returns every bound of a policy with the worst wait that is found.
fn attacked(number: u64, source: &str, effort: &Effort, random: &mut Random) -> Vec<Found> {
    let site = Site::new(source);
    let mut list = Vec::new();
    for (at, class) in site.classes().iter().enumerate() {
        let what = format!("policy {number}, {} ({})", class.name, class.queue);
        let order = if class.in_order {
            Order::Fifo
        } else {
            Order::Worst
        };
        // The order of the queue itself, in addition to the worst possible order.
        let own = match class.queue.as_str() {
            "fq_codel" => Some(Order::FqCodel),
            "sfq" => Some(Order::Sfq),
            _ => None,
        };
        let bound = class
            .within
            .as_ref()
            .expect("a bound")
            .wait
            .saturating_sub(HOST)
            .as_nanos();
        for order in [Some(order), own].into_iter().flatten() {
            list.push(Found {
                which: Which::Within(order),
                bound,
                worst: within(&site, at, order, effort, random),
                what: what.clone(),
            });
        }
        if let FullQueue::Bound(full) = &class.full {
            let tries = (0..effort.plans / 2).map(|_| full_queue(&site, at, random));
            list.push(Found {
                which: Which::Full,
                bound: full.wait.saturating_sub(HOST).as_nanos(),
                worst: tries.max().unwrap_or(0),
                what,
            });
        }
    }
    list
}

/// Attacks the policies with these numbers, fails if a bound is exceeded, prints how near the
/// bounds are, and returns what it found for each policy.
#[allow(clippy::print_stdout, reason = "how near the bounds are is printed")]
fn search(policies: Range<u64>, effort: &Effort) -> Vec<Vec<Found>> {
    let each = |number: u64| {
        // Seed each policy separately, so that one can be repeated.
        let mut random = Random(
            SEED.wrapping_add(number)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                | 1,
        );
        for _ in 0..4 {
            random.next();
        }
        let source = policy(&mut random);
        let found = attacked(number, &source, effort, &mut random);
        for one in &found {
            assert!(
                one.worst <= one.bound,
                "{}, {:?}: {} ns found, {} ns promised\n{source}",
                one.what,
                one.which,
                one.worst,
                one.bound
            );
        }
        found
    };
    let all: Vec<Vec<Found>> = policies.map(each).collect();
    for which in ALL {
        let mut ratios: Vec<f64> = all
            .iter()
            .flatten()
            .filter(|one| one.which == which)
            .map(Found::ratio)
            .collect();
        ratios.sort_by(f64::total_cmp);
        let at = |part: usize| ratios.get(ratios.len() * part / 100).copied();
        println!(
            "{which:?}: {} bounds, {:.1} % within {NEAR}; median {:.2}, 95th percentile {:.2}",
            ratios.len(),
            100.0 * near(&all, which),
            at(50).unwrap_or_default(),
            at(95).unwrap_or_default(),
        );
    }
    let stated = |one: &&Found| !matches!(one.which, Which::Within(Order::Sfq | Order::FqCodel));
    let tight = |found: &&Vec<Found>| found.iter().filter(stated).all(|one| one.ratio() <= NEAR);
    let tight = all.iter().filter(tight).count();
    println!(
        "{tight} of {} policies have every bound within {NEAR} of the worst found",
        all.len()
    );
    all
}

/// Returns the share of bounds of a kind that are near the worst wait found.
fn near(all: &[Vec<Found>], which: Which) -> f64 {
    let own: Vec<&Found> = all
        .iter()
        .flatten()
        .filter(|one| one.which == which)
        .collect();
    let near = own.iter().filter(|one| one.ratio() <= NEAR).count();
    near as f64 / own.len().max(1) as f64
}

/// No bound is exceeded.
#[test]
fn no_policy_makes_a_packet_wait_longer_than_promised() {
    search(0..12, &Effort { plans: 12 });
}

/// A class at its ceiling keeps its tokens while a lower one borrows, and may send all of them
/// before the packet that arrives at the lower one's full queue.
#[test]
fn a_class_with_a_ceiling_counts_with_its_whole_bucket() {
    search(486..487, &Effort { plans: 40 });
}

/// Tests that take minutes.
mod long {
    use super::*;

    #[test]
    fn no_bound_of_500_policies_is_passed_and_those_in_order_are_near() {
        let all = search(0..500, &Effort { plans: 40 });
        let near = near(&all, Which::Within(Order::Fifo));
        assert!(near >= 0.7, "{near}");
    }
}
