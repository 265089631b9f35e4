// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Simulates how nftables counts connections. Packets add tuples to a list, and searches remove
//! connections that have ended (`__nf_conncount_add`, `__nf_conncount_gc_list`,
//! net/netfilter/nf_conncount.c; `nft_connlimit_do_eval`, net/netfilter/nft_connlimit.c).
//!
//! The list may be longer than the number of open connections, because a search ends at the
//! packet's own connection. Entries after it stay until a packet arrives that is not in the list,
//! or until the set's garbage collection, about once a second (`nft_rhash_gc`). A result that
//! depends on whether that has run is reported as unsure.

use crate::track::{Connection, Id, Tracked, Tracker};
use crate::tuple::Tuple;

/// Which packets add their connection to the list; kernels differ. In all of them a connection's
/// first packet does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Counting {
    /// Any packet: before "nf_conncount: rework API to use `sk_buff` directly" (Linux 6.19, and
    /// stable releases since).
    Any,
    /// Only the first packet: from that commit on.
    First,
    /// Packets of connections that are not assured yet
    /// (`IPS_ASSURED`): since "nf_conncount: prevent connlimit drops for early
    /// confirmed ct" (Linux 7.2, and stable releases since).
    #[default]
    Unassured,
}

/// The most entries that one search removes (`CONNCOUNT_GC_MAX_COLLECT`).
const MOST_COLLECTED: usize = 64;

/// One tuple of the list.
#[derive(Debug, Clone)]
struct Entry {
    tuple: Tuple,
    /// The connection when the entry was made, and how often that had closed by then.
    of: (Id, u32),
    /// Whether it never ended since, so that no collection can have removed it.
    sure: bool,
}

/// The list of one element of a set.
#[derive(Debug, Clone)]
pub(crate) struct Counted {
    entries: Vec<Entry>,
    /// The time of the last search. The kernel uses jiffies; here packets of the same time are in
    /// the same jiffy.
    searched: u64,
    /// The length of the list after that search.
    length: usize,
}

/// A packet's view of the connection table: its own new connection is not in the table until the
/// packet has left (`nf_conntrack_confirm`).
struct View<'a> {
    tracker: &'a Tracker,
    now: u64,
    hidden: Option<Id>,
}

impl View<'_> {
    fn find(&self, tuple: &Tuple) -> Option<(Id, &Connection)> {
        let id = self.tracker.find(tuple, self.now)?;
        let connection = self.tracker.get(id)?;
        (self.hidden != Some(id)).then_some((id, connection))
    }

    fn open(&self, tuple: &Tuple) -> Option<(Id, &Connection)> {
        self.find(tuple).filter(|(_, one)| !one.closed())
    }
}

impl Counted {
    pub(crate) fn new(now: u64) -> Self {
        Self {
            entries: Vec::new(),
            searched: now,
            length: 0,
        }
    }

    pub(crate) fn any_open(&self, tracker: &Tracker, now: u64) -> bool {
        let view = View {
            tracker,
            now,
            hidden: None,
        };
        self.entries
            .iter()
            .any(|entry| view.open(&entry.tuple).is_some())
    }

    /// Counts a packet that has a connection. Returns the length of the list, and the least that it
    /// could be.
    pub(crate) fn charge(
        &mut self,
        packet: Tracked,
        now: u64,
        tracker: &Tracker,
        counting: Counting,
    ) -> (usize, usize) {
        let own = packet
            .connection
            .and_then(|id| Some((id, tracker.get(id)?)));
        let Some((id, own)) = own else {
            return (self.entries.len(), 0);
        };
        let view = View {
            tracker,
            now,
            hidden: packet.first.then_some(id),
        };
        for entry in &mut self.entries {
            entry.sure &= view
                .open(&entry.tuple)
                .is_some_and(|(id, one)| entry.of == (id, one.closings()));
        }
        let known = match counting {
            Counting::Any => false,
            Counting::First => !packet.first,
            Counting::Unassured => !packet.first && own.assured(),
        };
        let mut kept = 0;
        if known {
            if self.searched != now {
                self.entries
                    .retain(|entry| view.open(&entry.tuple).is_some());
                self.searched(now);
            }
        } else {
            let recent = self.searched == now && self.entries.len() - self.length < MOST_COLLECTED;
            let skips = recent && (packet.first || counting == Counting::Any);
            let entry = Entry {
                tuple: own.original.clone(),
                of: (id, own.closings()),
                sure: true,
            };
            kept = 1;
            match self.search(&entry.tuple, &view, skips) {
                Some(place) => self.entries[place] = entry,
                None => self.entries.push(entry),
            }
        }
        let others = self.entries.iter().filter(|entry| {
            let is_own = kept > 0 && entry.tuple == own.original;
            !is_own && entry.sure && view.open(&entry.tuple).is_some()
        });
        (self.entries.len(), others.count() + kept)
    }

    fn searched(&mut self, now: u64) {
        self.searched = now;
        self.length = self.entries.len();
    }

    /// Searches for a tuple. Removes ended connections before it.
    fn search(&mut self, tuple: &Tuple, view: &View<'_>, skips: bool) -> Option<usize> {
        if skips {
            return None;
        }
        let mut at = 0;
        let mut collected = 0;
        while at < self.entries.len() && collected <= MOST_COLLECTED {
            let entry = &self.entries[at];
            let found = view.find(&entry.tuple);
            match found {
                Some(_) if entry.tuple == *tuple => return Some(at),
                Some((_, one)) if !one.closed() => at += 1,
                _ => {
                    self.entries.remove(at);
                    collected += 1;
                }
            }
        }
        self.searched(view.now);
        None
    }
}
