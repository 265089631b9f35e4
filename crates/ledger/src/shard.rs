// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Distributes a list of runs over several machines.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::str::FromStr;

/// The maximum number of shards.
const MOST: u32 = 100_000;

/// One part of several, `K/N`: the first is `1/N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    number: u32,
    of: u32,
}

/// The error of a text that is not `K/N`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardError;

impl fmt::Display for ShardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "it is not K/N; write two whole numbers such as 3/10, K from 1 to N and N at most {MOST}"
        )
    }
}

impl std::error::Error for ShardError {}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let (number, of) = text.split_once('/').ok_or(ShardError)?;
        let whole = |digits: &str| {
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse::<u32>().ok().filter(|_| plain)
        };
        let (number, of) = whole(number).zip(whole(of)).ok_or(ShardError)?;
        if (1..=of).contains(&number) && of <= MOST {
            Ok(Self { number, of })
        } else {
            Err(ShardError)
        }
    }
}

impl Shard {
    /// Returns the places of this shard's runs in a list, in order. `lengths` has the virtual
    /// nanoseconds of each run.
    ///
    /// Every machine gets the same answer for the same list. Each run goes to the shard with the
    /// least load so far, the longest run first. The load is at most 4/3 of the optimum (Graham
    /// 1969). Runs of equal length are distributed round-robin.
    ///
    /// ```
    /// use weirgate_ledger::Shard;
    ///
    /// let half: Shard = "1/2".parse().unwrap();
    /// assert_eq!(half.share(&[10, 60, 20, 30]), [1]);
    /// ```
    #[must_use]
    pub fn share(self, lengths: &[u64]) -> Vec<usize> {
        let mut longest_first: Vec<usize> = (0..lengths.len()).collect();
        longest_first.sort_by_key(|place| Reverse(lengths[*place]));
        // The shard with the smallest load, the lowest number first.
        let mut loads: BinaryHeap<Reverse<(u128, u32)>> =
            (1..=self.of).map(|shard| Reverse((0, shard))).collect();
        let mut own = Vec::new();
        for place in longest_first {
            let Some(Reverse((load, shard))) = loads.pop() else {
                break;
            };
            if shard == self.number {
                own.push(place);
            }
            // Count a run of length 0 as 1, so that these are distributed as well.
            let length = u128::from(lengths[place]).max(1);
            loads.push(Reverse((load + length, shard)));
        }
        own.sort_unstable();
        own
    }
}
