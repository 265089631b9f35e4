// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of meters: buckets (`nft_limit_eval`, net/netfilter/nft_limit.c) and counts of
//! connections (`count`), one for each element of a set that rules fill
//! (net/netfilter/nft_dynset.c).

use crate::SECOND;
use crate::count::{Counted, Counting};
use crate::track::{Tracked, Tracker};
use std::collections::BTreeMap;
use weirgate_state::{Content, Count, Table};

/// A bucket counts as surely full if it had this much more time than it needs to fill, in
/// nanoseconds.
const SURE: u64 = SECOND / 100;

/// The state of one key of a set.
#[derive(Debug, Clone)]
struct Element {
    /// When it expires.
    expires: u64,
    /// The count of the rule that created it, which applies to all rules that share the set.
    count: Count,
    over: bool,
    state: ElementState,
}

#[derive(Debug, Clone)]
enum ElementState {
    /// Tokens as nanoseconds of filling, and the time at which they were computed.
    Bucket {
        tokens: u64,
        at: Option<u64>,
        most: u64,
        /// The tokens that are there for sure, whatever time has passed since it was full.
        least: u64,
    },
    Connections(Counted),
}

/// The set of one meter.
#[derive(Debug, Clone, Default)]
struct Memory {
    size: usize,
    timeout: Option<u64>,
    elements: BTreeMap<u128, Element>,
}

/// The sets of all meters, by family and name.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    memories: BTreeMap<(bool, String), Memory>,
}

/// The decision of a meter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Whether the match holds.
    pub(crate) holds: bool,
    /// By how much the time would have to differ to change the result; the clocks of a kernel and
    /// of a test differ.
    pub(crate) slack: u64,
    /// The value of the meter.
    pub(crate) level: Level,
    /// Whether the result depends on when the kernel last removed ended connections.
    pub(crate) unsure: bool,
}

/// The value of a meter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The tokens in the bucket, in thousandths of the packet's cost.
    Tokens(u64),
    /// The number of open connections.
    Connections(usize),
    /// The set has no room for the key.
    Full,
}

/// Returns a packet's cost and the bucket's size, both in nanoseconds.
fn costs(count: &Count, length: usize) -> Option<(u64, u64)> {
    match count {
        Count::Packets { rate, per, burst } => {
            let each = (u64::from(*per) * SECOND).checked_div(*rate)?;
            Some((each, each.saturating_mul(u64::from(*burst))))
        }
        Count::Bytes { rate, burst } => {
            let of = |bytes: u64| {
                let scaled = u128::from(SECOND) * u128::from(bytes);
                let each = scaled.checked_div(u128::from(*rate))?;
                Some(u64::try_from(each).unwrap_or(u64::MAX))
            };
            Some((
                of(length as u64)?,
                of(rate.saturating_add(u64::from(*burst)))?,
            ))
        }
        Count::Connections(_) => None,
    }
}

impl Meters {
    pub(crate) fn new(tables: &[Table]) -> Self {
        let mut memories = BTreeMap::new();
        for table in tables {
            for set in &table.sets {
                if let Content::Meter { size, timeout } = set.content {
                    let memory = Memory {
                        size: size as usize,
                        timeout: timeout.map(|seconds| u64::from(seconds) * SECOND),
                        elements: BTreeMap::new(),
                    };
                    memories.insert((table.netdev, set.name.clone()), memory);
                }
            }
        }
        Self { memories }
    }

    /// Charges the meter of a set. Returns whether its match holds.
    pub(crate) fn charge(
        &mut self,
        set: (bool, &str),
        key: u128,
        (count, over): (&Count, bool),
        packet: Charge<'_>,
    ) -> Reading {
        let full = Reading {
            holds: false,
            slack: u64::MAX,
            level: Level::Full,
            unsure: false,
        };
        let Some(memory) = self.memories.get_mut(&(set.0, set.1.to_owned())) else {
            return full;
        };
        let now = packet.now;
        if memory
            .elements
            .get(&key)
            .is_some_and(|one| one.expires <= now)
        {
            memory.elements.remove(&key);
        }
        if !memory.elements.contains_key(&key) {
            if memory.elements.len() >= memory.size {
                // The kernel collects these once a second.
                memory
                    .elements
                    .retain(|_, one| one.alive(now, packet.tracker));
            }
            if memory.elements.len() >= memory.size {
                return full;
            }
            let state = match costs(count, packet.length) {
                Some((_, most)) => ElementState::Bucket {
                    tokens: most,
                    at: None,
                    most,
                    least: most,
                },
                None => ElementState::Connections(Counted::new(now)),
            };
            let element = Element {
                expires: u64::MAX,
                count: count.clone(),
                over,
                state,
            };
            memory.elements.insert(key, element);
        }
        let Some(element) = memory.elements.get_mut(&key) else {
            return full;
        };
        if let Some(timeout) = memory.timeout {
            element.expires = now.saturating_add(timeout);
        }
        element.charge(packet)
    }
}

/// The input of a packet to a meter.
#[derive(Clone, Copy)]
pub(crate) struct Charge<'a> {
    /// Nanoseconds.
    pub(crate) now: u64,
    /// `skb->len`.
    pub(crate) length: usize,
    pub(crate) tracked: Option<Tracked>,
    pub(crate) tracker: &'a Tracker,
    pub(crate) counting: Counting,
}

impl Element {
    fn alive(&self, now: u64, tracker: &Tracker) -> bool {
        let empty = match &self.state {
            ElementState::Connections(counted) => !counted.any_open(tracker, now),
            ElementState::Bucket { .. } => false,
        };
        self.expires > now && !empty
    }

    fn charge(&mut self, packet: Charge<'_>) -> Reading {
        let over = self.over;
        match (&mut self.state, costs(&self.count, packet.length)) {
            (
                ElementState::Bucket {
                    tokens,
                    at,
                    most,
                    least,
                },
                Some((cost, _)),
            ) => {
                let since = at.map_or(0, |at| packet.now.saturating_sub(at));
                let filled = tokens.saturating_add(since);
                let had = filled.min(*most);
                if filled > most.saturating_add(SURE) {
                    *least = *most;
                }
                let slack = if *least >= cost || cost > *most {
                    u64::MAX
                } else {
                    filled.abs_diff(cost)
                };
                *at = Some(packet.now);
                let within = had >= cost;
                *tokens = if within { had - cost } else { had };
                if within {
                    *least = least.saturating_sub(cost);
                }
                Reading {
                    holds: within != over,
                    slack,
                    level: Level::Tokens(had.saturating_mul(1000) / cost.max(1)),
                    unsure: false,
                }
            }
            (ElementState::Connections(counted), None) => {
                let Count::Connections(limit) = self.count else {
                    return Self::nothing();
                };
                // Compiled rules exclude such packets earlier.
                let Some(tracked) = packet.tracked.filter(|one| one.connection.is_some()) else {
                    return Self::nothing();
                };
                let (open, least) =
                    counted.charge(tracked, packet.now, packet.tracker, packet.counting);
                let beyond = |count: usize| count as u64 > u64::from(limit);
                Reading {
                    holds: beyond(open) == over,
                    slack: u64::MAX,
                    level: Level::Connections(open),
                    unsure: beyond(open) != beyond(least),
                }
            }
            _ => Self::nothing(),
        }
    }

    /// Returns the result for a set whose rules count different things; the kernel refuses it.
    const fn nothing() -> Reading {
        Reading {
            holds: false,
            slack: u64::MAX,
            level: Level::Full,
            unsure: false,
        }
    }
}
