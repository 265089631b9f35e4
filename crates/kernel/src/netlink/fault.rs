// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts the requests that change something, and can make any one of them fail, so that tests can
//! check the result in each case.

use rustix::process::{Signal, getpid, kill_process};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// A fault at one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The kernel refuses this request; later ones succeed.
    Refused(usize),
    /// The process is killed (SIGKILL) before the call that sends this request if the request is
    /// the first of its call, and otherwise after that call. Within a call nothing can be killed:
    /// the kernel handles it completely.
    Killed(usize),
    /// Among the requests that name a kind of qdisc, filter, device or expression, this one names a
    /// kind that no kernel has, as if its module were missing. Later ones succeed. Offloads and
    /// sets name no kind.
    Missing(usize),
}

/// A function that receives each changing request, in words.
pub type Witness = Box<dyn Fn(&str) + Send + Sync>;

/// The requests of one [`Kernel`](crate::Kernel).
#[derive(Default)]
pub(crate) struct Ledger {
    count: AtomicUsize,
    /// The number of requests so far that name a kind.
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
    /// Counts one request, reports it, and says what to do with it.
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

    /// Makes a request name a kind that does not exist, if it is the chosen one.
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
            // No kind begins with this character.
            *first = b'?';
            *fault = None;
        }
    }

    /// Sets the receiver of reports; only the first call has an effect.
    pub(crate) fn set_witness(&self, witness: Witness) {
        // A second call is a mistake of the caller, and harmless.
        let _ = self.witness.set(witness);
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Sets the fault and restarts the counts.
    pub(crate) fn set(&self, fault: Option<Fault>) {
        self.count.store(0, Ordering::Relaxed);
        self.kinds.store(0, Ordering::Relaxed);
        if let Ok(mut own) = self.fault.lock() {
            *own = fault;
        }
    }
}

/// Where the name of a kind is in each type of request for which the kernel looks one up. Each
/// entry has the type, the length of what precedes the attributes, and the path of attributes
/// (linux/rtnetlink.h, linux/if_link.h, linux/netfilter/nf_tables.h).
const KINDS: [(u16, usize, &[u16]); 4] = [
    // RTM_NEWQDISC and RTM_NEWTFILTER: TCA_KIND.
    (36, 20, &[1]),
    (44, 20, &[1]),
    // RTM_NEWLINK: IFLA_LINKINFO, IFLA_INFO_KIND.
    (16, 16, &[18, 1]),
    // NFT_MSG_NEWRULE: NFTA_RULE_EXPRESSIONS, NFTA_LIST_ELEM, NFTA_EXPR_NAME.
    (10 << 8 | 6, 4, &[4, 1, 1]),
];

/// The lengths of a netlink header and of an attribute's header.
const HEADER: usize = 16;
const ATTRIBUTE: usize = 4;

/// Returns the offset of the first kind that a request names.
fn kind_in(raw: &[u8]) -> Option<usize> {
    let short = |at: usize| Some(u16::from_ne_bytes([*raw.get(at)?, *raw.get(at + 1)?]));
    let number = short(4)?;
    let (_, before, path) = KINDS.iter().find(|known| known.0 == number)?;
    let (mut at, mut end) = (HEADER + before, raw.len());
    for (depth, wanted) in path.iter().enumerate() {
        // Mask out the flags for nested and big-endian contents, which are not part of the type.
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

/// Kills this process, as `kill -9` does.
pub(crate) fn die() -> ! {
    loop {
        // A process may always kill itself.
        let _ = kill_process(getpid(), Signal::KILL);
    }
}
