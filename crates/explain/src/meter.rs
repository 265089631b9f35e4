// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What meters remember: buckets (`nft_limit_eval`, net/netfilter/nft_limit.c)
//! and counts of connections (net/netfilter/nf_conncount.c), one for each
//! element of a set that rules fill (net/netfilter/nft_dynset.c).

use crate::SECOND;
use crate::track::{Tracked, Tracker};
use crate::tuple::Tuple;
use std::collections::BTreeMap;
use weirgate_state::{Content, Count, Table};

/// What one key of a set has.
#[derive(Debug, Clone)]
struct Element {
    /// When it is forgotten.
    expires: u64,
    /// What the rule that made it counts, which holds for all rules that share
    /// the set.
    count: Count,
    over: bool,
    kept: Kept,
}

#[derive(Debug, Clone)]
enum Kept {
    /// Nanoseconds' worth of tokens, and when they were counted.
    Bucket {
        tokens: u64,
        at: Option<u64>,
        most: u64,
    },
    /// Connections of which a packet came here, by its tuple or that of its
    /// connection; true where kernels since 6.19 count it too.
    Connections(BTreeMap<Tuple, bool>),
}

/// The set of one meter.
#[derive(Debug, Clone, Default)]
struct Memory {
    size: usize,
    timeout: Option<u64>,
    elements: BTreeMap<u128, Element>,
}

/// All meters' sets by table and name.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    memories: BTreeMap<(bool, String), Memory>,
}

/// What a meter said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Whether the match holds.
    pub(crate) holds: bool,
    /// How far the time would have to be another for the answer to be; the
    /// kernel's clock and a test's differ.
    pub(crate) slack: u64,
    /// What the meter had.
    pub(crate) level: Level,
    /// Whether kernels of different age answer differently.
    pub(crate) by_kernel: bool,
}

/// What a meter's count was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The bucket held so many thousandths of what the packet costs.
    Tokens(u64),
    /// So many connections are open.
    Connections(usize),
    /// The set has no room for the key.
    Full,
}

/// A bucket's cost of a packet and its size, in nanoseconds.
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

    /// Charges the meter of a set and says whether its match holds.
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
            by_kernel: false,
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
                // Collected by the kernel once a second.
                memory
                    .elements
                    .retain(|_, one| one.alive(now, packet.tracker));
            }
            if memory.elements.len() >= memory.size {
                return full;
            }
            let kept = match costs(count, packet.length) {
                Some((_, most)) => Kept::Bucket {
                    tokens: most,
                    at: None,
                    most,
                },
                None => Kept::Connections(BTreeMap::new()),
            };
            let element = Element {
                expires: u64::MAX,
                count: count.clone(),
                over,
                kept,
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

/// What a packet brings to a meter.
#[derive(Clone, Copy)]
pub(crate) struct Charge<'a> {
    /// Nanoseconds.
    pub(crate) now: u64,
    /// `skb->len`.
    pub(crate) length: usize,
    pub(crate) tracked: Option<Tracked>,
    /// The original tuple of its connection, or its own where it has none.
    pub(crate) tuple: Option<&'a Tuple>,
    pub(crate) tracker: &'a Tracker,
    /// Whether any packet of a connection makes it count, as up to Linux 6.18;
    /// otherwise its first packet alone does.
    pub(crate) counts_any: bool,
}

/// Whether the connection of a tuple is open (`find_or_evict`,
/// `already_closed`).
fn open(tracker: &Tracker, tuple: &Tuple, now: u64) -> bool {
    tracker
        .find(tuple, now)
        .and_then(|id| tracker.get(id))
        .is_some_and(|connection| !connection.closed())
}

impl Element {
    fn alive(&self, now: u64, tracker: &Tracker) -> bool {
        let empty = match &self.kept {
            Kept::Connections(list) => !list.keys().any(|tuple| open(tracker, tuple, now)),
            Kept::Bucket { .. } => false,
        };
        self.expires > now && !empty
    }

    fn charge(&mut self, packet: Charge<'_>) -> Reading {
        let over = self.over;
        match (&mut self.kept, costs(&self.count, packet.length)) {
            (Kept::Bucket { tokens, at, most }, Some((cost, _))) => {
                let since = at.map_or(0, |at| packet.now.saturating_sub(at));
                let filled = tokens.saturating_add(since);
                let had = filled.min(*most);
                let slack = match at {
                    // It begins full, whatever the time.
                    None => u64::MAX,
                    Some(_) if cost > *most => u64::MAX,
                    Some(_) => filled.abs_diff(cost),
                };
                *at = Some(packet.now);
                let within = had >= cost;
                *tokens = if within { had - cost } else { had };
                Reading {
                    holds: within != over,
                    slack,
                    level: Level::Tokens(had.saturating_mul(1000) / cost.max(1)),
                    by_kernel: false,
                }
            }
            (Kept::Connections(list), None) => {
                let Count::Connections(limit) = self.count else {
                    return Self::nothing();
                };
                list.retain(|tuple, _| open(packet.tracker, tuple, packet.now));
                let Some(tuple) = packet.tuple else {
                    return Self::nothing();
                };
                // A packet without a connection counts for itself; it stays
                // while a connection of its tuple is open.
                let begins = match packet.tracked {
                    Some(Tracked {
                        connection: Some(_),
                        first,
                        ..
                    }) => first,
                    _ => packet.tracker.find(tuple, packet.now).is_none(),
                };
                let known = list.entry(tuple.clone()).or_insert(begins);
                *known |= begins;
                let any = list.len();
                let begun = list.values().filter(|begun| **begun).count();
                let open = if packet.counts_any { any } else { begun };
                let beyond = |count: usize| count as u64 > u64::from(limit);
                Reading {
                    holds: beyond(open) == over,
                    slack: u64::MAX,
                    level: Level::Connections(open),
                    by_kernel: beyond(any) != beyond(begun),
                }
            }
            _ => Self::nothing(),
        }
    }

    /// A set whose rules count different things; the kernel refuses it.
    const fn nothing() -> Reading {
        Reading {
            holds: false,
            slack: u64::MAX,
            level: Level::Full,
            by_kernel: false,
        }
    }
}
