// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts the requests that change something, and can make one of them fail,
//! so that a test can look at what is left whichever it is.

use rustix::process::{Signal, getpid, kill_process};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// What happens at a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The kernel refuses this one; nothing after it fails.
    Refused(usize),
    /// The process is killed (SIGKILL) just before the call that carries this
    /// one where it is the first of its call, else just after. Within a call
    /// nothing can be killed: the kernel handles it whole.
    Killed(usize),
    /// Of the requests that name a kind of qdisc, filter, device or expression,
    /// this one names a kind that no kernel has, as where its module is missing;
    /// nothing after it fails. Offloads and sets name no kind.
    Missing(usize),
}

/// Receives each request that changes something, in words.
pub type Witness = Box<dyn Fn(&str) + Send + Sync>;

/// The requests of one [`Kernel`](crate::Kernel).
#[derive(Default)]
pub(crate) struct Ledger {
    count: AtomicUsize,
    /// Of those, requests that name a kind.
    kinds: AtomicUsize,
    fault: Mutex<Option<Fault>>,
    witness: OnceLock<Witness>,
}

/// What to do with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultAction {
    Send,
    Spoil,
    Kill,
}

impl Ledger {
    /// Counts one request, tells of it and says what to do with it.
    pub(crate) fn next(&self, what: &str) -> FaultAction {
        if let Some(witness) = self.witness.get() {
            witness(what);
        }
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let Ok(mut fault) = self.fault.lock() else {
            return FaultAction::Send;
        };
        let action = match *fault {
            Some(Fault::Refused(at)) if at == number => FaultAction::Spoil,
            Some(Fault::Killed(at)) if at == number => FaultAction::Kill,
            _ => return FaultAction::Send,
        };
        *fault = None;
        action
    }

    /// Has a request name a kind that is missing, if it is the one that shall.
    pub(crate) fn rename(&self, raw: &mut [u8]) {
        let Ok(mut fault) = self.fault.lock() else {
            return;
        };
        let Some(Fault::Missing(at)) = *fault else {
            return;
        };
        let Some(first) = kind_in(raw).and_then(|range| raw.get_mut(range)) else {
            return;
        };
        if self.kinds.fetch_add(1, Ordering::Relaxed) == at {
            // No kind begins with it.
            *first = b'?';
            *fault = None;
        }
    }

    /// Whom to tell from now on; only the first is kept.
    pub(crate) fn set_witness(&self, witness: Witness) {
        // A second one is the caller's mistake, and does no harm.
        let _ = self.witness.set(witness);
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Begins to count anew.
    pub(crate) fn set(&self, fault: Option<Fault>) {
        self.count.store(0, Ordering::Relaxed);
        self.kinds.store(0, Ordering::Relaxed);
        if let Ok(mut own) = self.fault.lock() {
            *own = fault;
        }
    }
}

/// Where the name of a kind stands for each type of request that the kernel looks
/// one up for: the type, the length of what stands before the attributes, and
/// the attributes that lead to it (linux/rtnetlink.h, linux/if_link.h,
/// linux/netfilter/nf_tables.h).
const KINDS: [(u16, usize, &[u16]); 4] = [
    // RTM_NEWQDISC and RTM_NEWTFILTER: TCA_KIND.
    (36, 20, &[1]),
    (44, 20, &[1]),
    // RTM_NEWLINK: IFLA_LINKINFO, IFLA_INFO_KIND.
    (16, 16, &[18, 1]),
    // NFT_MSG_NEWRULE: NFTA_RULE_EXPRESSIONS, NFTA_LIST_ELEM, NFTA_EXPR_NAME.
    (10 << 8 | 6, 4, &[4, 1, 1]),
];

/// Bytes of a netlink header, and of an attribute's.
const HEADER: usize = 16;
const ATTRIBUTE: usize = 4;

/// Where the first kind that a request names begins.
fn kind_in(raw: &[u8]) -> Option<usize> {
    let short = |at: usize| Some(u16::from_ne_bytes([*raw.get(at)?, *raw.get(at + 1)?]));
    let number = short(4)?;
    let (_, before, path) = KINDS.iter().find(|known| known.0 == number)?;
    let (mut at, mut end) = (HEADER + before, raw.len());
    for (depth, wanted) in path.iter().enumerate() {
        // The flags for nested and big-endian contents are no part of a type.
        while short(at + 2)? & 0x3fff != *wanted {
            let length = usize::from(short(at)?);
            at += length.max(ATTRIBUTE).next_multiple_of(ATTRIBUTE);
            if at >= end {
                return None;
            }
        }
        end = at + usize::from(short(at)?);
        at += ATTRIBUTE;
        if depth + 1 == path.len() {
            return (at < end).then_some(at);
        }
    }
    None
}

/// Ends this process as `kill -9` would.
pub(crate) fn die() -> ! {
    loop {
        // A process may always kill itself.
        let _ = kill_process(getpid(), Signal::KILL);
    }
}
