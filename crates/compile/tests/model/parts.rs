// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the promises to classes that are divided between groups or whose hosts have limits, and to
//! the other classes.

use crate::drive::{MS, SECOND, Site, fill, longest, saturate};
use proptest::prelude::*;

const FULL: u32 = 1696;
const CELL: u32 = 53;

/// Returns the line of ADSL-6.2 with an urgent class, a divided one and a last one. Leaves: 0
/// `urgent`, 1 the rest of `work`, 2 and 3 its parts, 4 `rest`.
fn divided(first: u32, second: u32, priorities: (u8, u8)) -> Site {
    let (work, rest) = priorities;
    Site::new(&format!(
        "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"512kbit\"\n\
         layer = \"adsl:bridged-vc-fcs\"\nmargin = \"1kbit\"\n\
         [group.sales]\naddresses = \"192.0.2.0/25\"\n\
         [group.lab]\naddresses = \"192.0.2.128/25\"\n\
         [[class]]\nname = \"urgent\"\nshare = \"20%\"\npriority = 0\nburst = 848\n\
         queue = \"bfifo 28125\"\n\
         [[class]]\nname = \"work\"\nshare = \"50%\"\npriority = {work}\n\
         queue = \"bfifo 28125\"\n\
         [[class]]\nname = \"rest\"\nshare = \"30%\"\npriority = {rest}\n\
         queue = \"bfifo 28125\"\ndefault = true\n\
         [[share]]\ngroup = \"sales\"\nshare = \"{first}%\"\nclasses = \"work\"\n\
         [[share]]\ngroup = \"lab\"\nshare = \"{second}%\"\nclasses = \"work\"\n"
    ))
}

/// Returns the same line with a class in which three hosts have limits. Leaves: 0 `urgent`, 1 hosts
/// of `guests` without a limit, 2 `rest`, 3 to 5 the hosts.
fn limited() -> Site {
    Site::new(
        "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"512kbit\"\n\
         layer = \"adsl:bridged-vc-fcs\"\nmargin = \"1kbit\"\n\
         [group.visitors]\naddresses = [\"192.0.2.1\", \"192.0.2.2\", \"192.0.2.3\"]\n\
         [[class]]\nname = \"urgent\"\nshare = \"20%\"\npriority = 0\nburst = 848\n\
         queue = \"bfifo 28125\"\n\
         [[class]]\nname = \"guests\"\nshare = \"30%\"\npriority = 3\n\
         [[class]]\nname = \"rest\"\nshare = \"50%\"\npriority = 5\n\
         queue = \"bfifo 28125\"\ndefault = true\n\
         [[cap]]\ngroup = \"visitors\"\nclass = \"guests\"\nup = \"40kbit\"\n",
    )
}

fn named(site: &Site) -> Vec<&str> {
    let classes = site.classes().iter();
    classes.map(|class| class.name.as_str()).collect()
}

fn rate(left: &[crate::htb::Left], class: usize, since: u64, until: u64) -> f64 {
    let own = left.iter().filter(|l| l.packet.class == class);
    let bytes: u64 = own
        .filter(|l| (since..until).contains(&l.at))
        .map(|l| u64::from(l.packet.bytes))
        .sum();
    bytes as f64 * 8e9 / (until - since) as f64
}

/// Every part gets its guarantee. What one leaves goes to the other parts of its class before it
/// goes to another class.
#[test]
fn parts_get_theirs_and_then_what_their_class_leaves() {
    let site = divided(50, 30, (4, 4));
    assert_eq!(
        named(&site),
        ["urgent", "work", "work/sales", "work/lab", "rest"]
    );
    let gate = 511_000.0;
    let near = |rate: f64, share: f64| {
        let ratio = rate / (gate * share);
        assert!((0.99..=1.01).contains(&ratio), "{rate} of {share}: {ratio}");
    };
    let (since, until) = (20 * SECOND, 260 * SECOND);
    // All except the urgent class, whose fifth is distributed by guarantees.
    let all = [(1, FULL), (2, 371), (3, FULL), (4, FULL)];
    let left = saturate(&mut site.machine(), &all, until);
    let shares = [0.5 * 0.2, 0.5 * 0.5, 0.5 * 0.3, 0.3];
    for (class, share) in (1..=4).zip(shares) {
        near(rate(&left, class, since, until), share / 0.8);
    }
    // One part is silent, and every other class floods: the urgent class and the last one get only
    // their guarantees.
    let all = [(0, FULL), (1, FULL), (2, FULL), (4, FULL)];
    let left = saturate(&mut site.machine(), &all, until);
    near(rate(&left, 0, since, until), 0.2);
    near(rate(&left, 4, since, until), 0.3);
    near(
        rate(&left, 1, since, until) + rate(&left, 2, since, until),
        0.5,
    );
}

/// No host exceeds its limit, and hosts without one get the rest.
#[test]
fn limits_hold_and_the_rest_is_shared() {
    let site = limited();
    assert_eq!(named(&site), ["urgent", "guests", "rest"]);
    let (since, until) = (20 * SECOND, 140 * SECOND);
    let all = [(1, FULL), (3, FULL), (4, 371), (5, 106)];
    let left = saturate(&mut site.machine(), &all, until);
    for host in 3..=5 {
        let rate = rate(&left, host, since, until);
        assert!((0.99..=1.005).contains(&(rate / 40_000.0)), "{rate} bit/s");
    }
    let rest = rate(&left, 1, since, until);
    assert!((0.99..=1.01).contains(&(rest / 391_000.0)), "{rest} bit/s");
}

/// Leaves flood at times; then the waits of `fifos` are compared with their bounds.
fn pulsed(
    site: &Site,
    sizes: &[u32],
    fifos: &[usize],
    pulses: &[(usize, u64)],
) -> Result<(), TestCaseError> {
    let mut machine = site.machine();
    let mut flooding = vec![false; sizes.len()];
    let mut left = Vec::new();
    for (class, millis) in pulses {
        let class = class % sizes.len();
        flooding[class] = !flooding[class];
        let flood: Vec<(usize, u32)> = (0..sizes.len())
            .filter(|at| flooding[*at])
            .map(|at| (at, sizes[at]))
            .collect();
        let until = machine.now + millis * MS;
        left.extend(saturate(&mut machine, &flood, until));
    }
    let until = machine.now + 60 * SECOND;
    left.extend(machine.run(until));
    for at in fifos {
        let wait = longest(&left, *at, 0);
        let name = &site.classes()[*at].name;
        prop_assert!(
            wait <= site.full(*at),
            "{name}: {wait} of {}",
            site.full(*at)
        );
    }
    Ok(())
}

/// Tests the bound of a lone packet: a leaf is silent until its bucket is full, and then sends one
/// packet, while all others flood.
fn lone(site: &Site, sizes: &[u32], class: usize, phase: u64) -> Result<(), TestCaseError> {
    let mut machine = site.machine();
    let flood: Vec<(usize, u32)> = (0..sizes.len())
        .filter(|at| *at != class)
        .map(|at| (at, sizes[at]))
        .collect();
    // The smallest parts need more than a second to earn the tokens of a full packet.
    let rate = site.classes()[class].guaranteed.wire.as_bits_per_second();
    let earned = u64::from(sizes[class]) * 8 * SECOND / rate + 1;
    // Tokens accumulate from the departure of the previous packet, which may be as late as
    // promised.
    let quiet = SECOND.max(earned + site.lone(class)) + phase;
    let mut left = Vec::new();
    for _ in 0..20 {
        let at = machine.now + quiet;
        left.extend(saturate(&mut machine, &flood, at));
        machine.arrive(class, sizes[class]).expect("an empty queue");
    }
    let at = machine.now + 5 * SECOND;
    left.extend(saturate(&mut machine, &flood, at));
    let wait = longest(&left, class, 0);
    prop_assert!(wait <= site.lone(class), "{wait} of {}", site.lone(class));
    Ok(())
}

/// All of a class floods after a pause, with the tokens that its parts saved.
#[test]
fn a_probe_beside_a_divided_class_waits_no_longer_than_promised() {
    for site in [divided(50, 30, (4, 5)), limited()] {
        let leaves = if named(&site).len() == 5 { 5 } else { 6 };
        for offset in 0..200 {
            let mut machine = site.machine();
            machine.run(10 * SECOND + offset * 131_000);
            let flood: Vec<(usize, u32)> = (1..leaves).map(|at| (at, FULL)).collect();
            for (class, bytes) in &flood {
                fill(&mut machine, *class, *bytes);
            }
            let begin = machine.now + offset * 977_000;
            let mut left = saturate(&mut machine, &flood, begin);
            machine.arrive(0, 106).expect("an empty queue");
            let end = machine.now + SECOND;
            left.extend(saturate(&mut machine, &flood, end));
            let wait = longest(&left, 0, 0);
            assert!(wait <= site.lone(0), "{wait} of {}", site.lone(0));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_queue_of_a_part_waits_longer_than_promised(
        first in 5_u32..=45,
        second in 5_u32..=45,
        work in 1_u8..5,
        rest in 1_u8..5,
        cells in proptest::collection::vec(1_u32..=32, 5),
        pulses in proptest::collection::vec((0_usize..5, 1_u64..400), 40..100),
        phase in 0_u64..26_550_000,
    ) {
        let site = divided(first, second, (work, rest));
        // The report has the scheduler's order.
        let fifos: Vec<usize> = (0..5).collect();
        let sizes: Vec<u32> = cells.iter().map(|cells| cells * CELL).collect();
        pulsed(&site, &sizes, &fifos, &pulses)?;
        for class in fifos {
            lone(&site, &sizes, class, phase)?;
        }
    }

    #[test]
    fn hosts_with_limits_keep_nobody_waiting_longer_than_promised(
        cells in proptest::collection::vec(1_u32..=32, 6),
        pulses in proptest::collection::vec((0_usize..6, 1_u64..400), 40..100),
        phase in 0_u64..26_550_000,
    ) {
        let site = limited();
        let sizes: Vec<u32> = cells.iter().map(|cells| cells * CELL).collect();
        pulsed(&site, &sizes, &[0, 2], &pulses)?;
        for class in [0, 2] {
            lone(&site, &sizes, class, phase)?;
        }
    }
}
