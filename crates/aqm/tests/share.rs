// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shared rates (`aqm/include/share.h`): between hosts, then between the connections of each.

use proptest::prelude::*;
use weirgate_aqm::{ShareMember, ShareSum, WHOLE_SHARE};

const SECOND: u64 = 1 << 30;
const RATE: u64 = 1_000_000;

/// A host, and the wanted rate of each of its connections in bytes a second.
#[derive(Default)]
struct Host {
    connections: ShareSum,
    member: ShareMember,
    each: Vec<(ShareMember, u64)>,
}

/// Runs for `seconds` in steps of a sixteenth. Each connection gets what it wants, up to its share.
/// Returns what each host got in the last second.
fn run(wanted: &[Vec<u64>], seconds: u64) -> Vec<u64> {
    let mut slot = ShareSum::default();
    let host = |wants: &Vec<u64>| Host {
        each: wants
            .iter()
            .map(|want| (ShareMember::default(), *want))
            .collect(),
        ..Host::default()
    };
    let mut hosts: Vec<Host> = wanted.iter().map(host).collect();
    let mut got = vec![0; hosts.len()];
    for part in 0..16 * seconds {
        let now = SECOND + part * SECOND / 16;
        if part % 16 == 0 {
            got.fill(0);
        }
        for (host, got) in hosts.iter_mut().zip(&mut got) {
            for (member, wants) in &mut host.each {
                let all = slot.rate(RATE, true, 0, 0);
                let share = host.connections.rate(all, true, 0, 0);
                let bytes = share.min(*wants) / 16;
                let whole = share <= *wants;
                let of = |share: u64| bytes * WHOLE_SHARE / share;
                let how = (true, whole);
                host.connections.count(member, of(share), how, now);
                slot.count(&mut host.member, of(all), how, now);
                *got += bytes;
            }
        }
    }
    got
}

/// Each host gets the same, however many connections it has.
#[test]
fn hosts_have_equal_shares() {
    let much = RATE;
    for many in [1, 8, 100] {
        let got = run(&[vec![much; many], vec![much]], 4);
        let jain = (got.iter().sum::<u64>() as f64).powi(2)
            / (2.0 * got.iter().map(|one| (*one as f64).powi(2)).sum::<f64>());
        assert!(jain > 0.99, "{many}: {got:?}");
        let all: u64 = got.iter().sum();
        assert!((RATE * 97 / 100..=RATE).contains(&all), "{many}: {got:?}");
    }
}

/// Another host gets what a host leaves of its share; the same holds for the connections of one
/// host.
#[test]
fn what_is_left_others_have() {
    let got = run(&[vec![RATE; 8], vec![RATE / 10]], 8);
    assert!((RATE * 9 / 100..=RATE / 10).contains(&got[1]), "{got:?}");
    assert!((RATE * 80 / 100..=RATE).contains(&got[0]), "{got:?}");
    let alone = run(&[vec![RATE, RATE / 10]], 8);
    assert!(
        (RATE * 90 / 100..=RATE * 101 / 100).contains(&alone[0]),
        "{alone:?}"
    );
}

/// Rate that others use is left to them, up to two shares.
#[test]
fn others_count_for_what_they_use() {
    let (mut sum, mut one) = (ShareSum::default(), ShareMember::default());
    sum.count(&mut one, WHOLE_SHARE, (true, true), SECOND);
    assert_eq!(sum.rate(RATE, true, 0, RATE / 2), RATE / 2);
    assert_eq!(sum.rate(RATE, true, 0, 2 * RATE), RATE / 3);
    assert_eq!(sum.rate(RATE, true, WHOLE_SHARE, RATE / 4), RATE * 3 / 8);
    assert_eq!(sum.rate(0, true, 0, RATE), 0, "no limit");
}

proptest! {
    /// For any demands, no connection is unlimited, and the sum does not exceed the rate by much.
    #[test]
    fn the_rate_is_kept(wanted in prop::collection::vec(
        prop::collection::vec(1_000_u64..2_000_000, 1..9), 1..9)) {
        let all: u64 = run(&wanted, 6).iter().sum();
        prop_assert!(all <= RATE * 130 / 100, "{all}");
    }

    /// A member that has ended counts for nothing.
    #[test]
    fn who_has_ended_needs_no_part(parts in prop::collection::vec(0_u64..200_000, 1..20)) {
        let (mut sum, mut one, mut other) =
            (ShareSum::default(), ShareMember::default(), ShareMember::default());
        sum.count(&mut other, WHOLE_SHARE, (true, true), SECOND);
        for part in parts {
            sum.count(&mut one, part, (true, false), SECOND);
        }
        sum.ended(&mut one);
        prop_assert_eq!(sum.rate(RATE, false, 0, 0), RATE);
    }
}
