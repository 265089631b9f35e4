// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Generates random policies, and compares the worst waits that a search finds with their bounds.

use crate::attack::{Attack, Plan, Random, Site};
use std::fmt::Write as _;
use std::ops::Range;
use weirgate_compile::bounds::HOST;

const SEED: u64 = 1;

/// A bound and the worst wait that was found, in nanoseconds, without the allowance for the
/// machine.
struct Found {
    lone: bool,
    bound: u64,
    worst: u64,
}

impl Found {
    fn ratio(&self) -> f64 {
        self.bound as f64 / self.worst.max(1) as f64
    }
}

/// Generates a policy: 2 to 6 classes on a line of 256 kbit/s to 200 Mbit/s, log-uniformly
/// distributed. Half of the policies guarantee the whole line, the others 40 to 99 %. A class has
/// the priority of the previous one in one of three cases, a burst of 0 to 4 full packets, and a
/// ceiling in one of five. In one policy of four, a class has hosts with limits that are never
/// reached.
fn policy(random: &mut Random) -> String {
    let rate = (256_000.0 * 800_f64.powf(random.below(1_000) as f64 / 1e3)) as u64 / 8_000 * 8;
    let layers = ["adsl:pppoa-vc", "adsl:bridged-llc", "ethernet", "vdsl2"];
    let layer = layers[random.below(4) as usize];
    let mut text = format!(
        "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"{rate}kbit\"\n\
         layer = \"{layer}\"\nengine = \"rows\"\n"
    );
    let count = 2 + random.below(5);
    let weights: Vec<u64> = (0..count).map(|_| 1 + random.below(20)).collect();
    let whole = if random.one_in(2) {
        100
    } else {
        40 + random.below(60)
    };
    let sum: u64 = weights.iter().sum();
    let hosts = random.one_in(4).then(|| random.below(count));
    let mut priority = random.below(2);
    for (at, weight) in (0..count).zip(&weights) {
        if at > 0 && !random.one_in(3) {
            priority += 1;
        }
        let share = (whole * weight / sum).max(1);
        let burst = random.below(5) * random.below(2) * 1500;
        let _ = write!(
            text,
            "[[class]]\nname = \"c{at}\"\nshare = \"{share}%\"\npriority = {priority}\n\
             burst = {burst}\n"
        );
        if random.one_in(5) {
            let ceiling = share + random.below(101 - share);
            let _ = writeln!(text, "ceiling = \"{ceiling}%\"");
        }
        if at + 1 == count {
            text.push_str("default = true\n");
        }
    }
    // Every class needs a rule that selects it.
    for at in 1..count {
        let _ = write!(text, "[[rule]]\nclass = \"c{}\"\ndscp = {at}\n", at - 1);
    }
    if let Some(class) = hosts {
        let _ = write!(
            text,
            "[group.hosts]\naddresses = [\"192.0.2.0/30\"]\n\
             [[cap]]\ngroup = \"hosts\"\nclass = \"c{class}\"\nup = \"{rate}kbit\"\n"
        );
    }
    text
}

/// Returns the worst wait that a search of `plans` plans finds.
fn worst(
    site: &Site,
    class: usize,
    lone: bool,
    bound: u64,
    plans: u64,
    random: &mut Random,
) -> u64 {
    let attack = Attack::new(site, class);
    let classes = site.classes().len();
    let usual = (0..classes).map(|first| Plan::usual(classes, first, lone));
    let tried = usual.map(|plan| (attack.run(&plan, bound), plan));
    let mut best = tried.max_by_key(|one| one.0).expect("a class");
    for _ in 0..plans {
        let mut plan = best.1.clone();
        for _ in 0..=random.below(3) {
            plan = plan.changed(random);
        }
        let wait = attack.run(&plan, bound);
        if wait >= best.0 {
            best = (wait, plan);
        }
    }
    best.0
}

/// Attacks the policies with these numbers, fails if a bound is exceeded, and prints how near the
/// bounds are, and how many classes have none.
#[allow(clippy::print_stdout, reason = "how near the bounds are is printed")]
fn search(policies: Range<u64>, plans: u64) -> Vec<Found> {
    let (mut all, mut without, mut of_ceilings) = (Vec::new(), 0, 0);
    for number in policies {
        let mixed = SEED
            .wrapping_add(number)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut random = Random(mixed | 1);
        random.below(1);
        let source = policy(&mut random);
        let site = Site::new(&source);
        for (at, class) in site.classes().iter().enumerate() {
            let (Some(lone), Some(within)) = (&class.lone, &class.within) else {
                without += 1;
                of_ceilings += usize::from(class.maximum.wire < site.gate());
                continue;
            };
            for (lone, bound) in [(true, lone), (false, within)] {
                let bound = bound.wait.saturating_sub(HOST).as_nanos();
                let worst = worst(&site, at, lone, bound, plans, &mut random);
                assert!(
                    worst <= bound,
                    "policy {number}, {}, lone: {lone}: {worst} ns found, {bound} ns promised\n\
                     {source}\n{class:#?}",
                    class.name
                );
                all.push(Found { lone, bound, worst });
            }
        }
    }
    for lone in [true, false] {
        let of = all.iter().filter(|one| one.lone == lone);
        let mut ratios: Vec<f64> = of.map(Found::ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let at = |part: usize| ratios[(ratios.len() * part / 100).min(ratios.len() - 1)];
        println!(
            "lone: {lone}: {} bounds; median {:.2}, 95th percentile {:.2}",
            ratios.len(),
            at(50),
            at(95)
        );
    }
    println!("{without} classes have no bound, {of_ceilings} of them with a ceiling of their own");
    all
}

/// No bound is exceeded, and half of them are less than twice the worst wait found.
#[test]
fn no_packet_waits_longer_than_promised() {
    let all = search(0..40, 8);
    let near = all.iter().filter(|one| one.ratio() < 2.0).count();
    assert!(near * 2 > all.len(), "{near} of {}", all.len());
}

/// Tests that take minutes.
mod long {
    use super::*;

    #[test]
    fn no_bound_of_500_policies_of_rows_is_passed() {
        search(0..500, 40);
    }
}
