// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of shards of a list, and of measurements from single runs.

use proptest::prelude::*;
use std::collections::BTreeMap;
use weirgate_ledger::{Digest, MadeWith, Measurement, Shard, ShardError, SingleRun};

fn shard(number: usize, of: usize) -> Shard {
    format!("{number}/{of}").parse().expect("a shard")
}

#[test]
fn a_shard_is_k_of_n() {
    for good in ["1/1", "3/10", "100000/100000"] {
        let shard: Shard = good.parse().expect(good);
        assert_eq!(shard.to_string(), good);
    }
    for bad in [
        "",
        "1",
        "/",
        "0/1",
        "2/1",
        "1/0",
        "-1/2",
        "+1/2",
        "1/2/3",
        "1 /2",
        "1/100001",
        "1/99999999999",
    ] {
        assert_eq!(bad.parse::<Shard>(), Err(ShardError), "{bad}");
    }
}

#[test]
fn equal_runs_go_round_and_long_ones_are_apart() {
    assert_eq!(shard(2, 3).share(&[5; 7]), [1, 4]);
    assert_eq!(shard(2, 3).share(&[0; 7]), [1, 4]);
    let lengths = [600, 10, 10, 600, 10, 10];
    assert_eq!(shard(1, 2).share(&lengths), [0, 1, 4]);
    assert_eq!(shard(2, 2).share(&lengths), [2, 3, 5]);
    assert!(shard(7, 9).share(&[]).is_empty());
    assert!(shard(9, 9).share(&[1, 2]).is_empty());
}

fn run(arm: &str, seed: u64, figure: f64) -> SingleRun {
    SingleRun {
        experiment: "x".to_owned(),
        arm: arm.to_owned(),
        seed,
        made_with: made_with(),
        recording: Digest::of(format!("{arm} {seed}").as_bytes()),
        figures: BTreeMap::from([("a.b".to_owned(), figure)]),
    }
}

fn made_with() -> MadeWith {
    MadeWith {
        setup: Digest::of(b"setup"),
        files: BTreeMap::new(),
        measure: Digest::of(b"measure"),
        machine: None,
    }
}

proptest! {
    #[test]
    fn each_run_is_in_one_shard(
        lengths in prop::collection::vec(0_u64..100, 0..200),
        of in 1_usize..40,
    ) {
        let mut seen = vec![0; lengths.len()];
        let mut loads = Vec::new();
        for number in 1..=of {
            let own = shard(number, of).share(&lengths);
            prop_assert!(own.is_sorted());
            loads.push(own.iter().map(|place| lengths[*place].max(1)).sum::<u64>());
            for place in own {
                seen[place] += 1;
            }
        }
        prop_assert!(seen.iter().all(|count| *count == 1), "{seen:?}");
        // Moving a shard's shortest run to another shard would not improve the distribution.
        let (least, most) = (loads.iter().min(), loads.iter().max());
        let longest = lengths.iter().map(|one| (*one).max(1)).max().unwrap_or(0);
        prop_assert!(most.zip(least).is_none_or(|(most, least)| most - least <= longest));
    }

    #[test]
    fn runs_make_the_same_measurement_in_any_order(
        figures in prop::collection::vec(-1e9_f64..1e9, 12),
        order in Just((0..12).collect::<Vec<usize>>()).prop_shuffle(),
    ) {
        let seeds: [u64; 6] = [9, 10, 11, 12, 13, u64::MAX];
        let mut runs = Vec::new();
        for (arm, figures) in ["gate", "plain"].into_iter().zip(figures.chunks(6)) {
            for (seed, figure) in seeds.into_iter().zip(figures) {
                runs.push(run(arm, seed, *figure));
            }
        }
        let whole = Measurement::of_single_runs(&made_with(), &seeds, &runs);
        let shuffled: Vec<SingleRun> = order.iter().map(|at| runs[*at].clone()).collect();
        prop_assert_eq!(&whole, &Measurement::of_single_runs(&made_with(), &seeds, &shuffled));
        prop_assert_eq!(whole.values("plain", "a.b"), &figures[6..]);
        let last = Digest::of(format!("gate {}", u64::MAX).as_bytes());
        prop_assert_eq!(whole.recordings["gate"].last(), Some(&last));
    }
}
