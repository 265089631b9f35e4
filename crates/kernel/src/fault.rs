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
}

/// Who is told of each request that changes something, in words.
pub type Witness = Box<dyn Fn(&str) + Send + Sync>;

/// The requests of one [`Kernel`](crate::Kernel).
#[derive(Default)]
pub(crate) struct Ledger {
    count: AtomicUsize,
    fault: Mutex<Option<Fault>>,
    witness: OnceLock<Witness>,
}

/// What to do with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Send,
    Spoil,
    Kill,
}

impl Ledger {
    /// Counts one request, tells of it and says what to do with it.
    pub(crate) fn next(&self, what: &str) -> Verdict {
        if let Some(witness) = self.witness.get() {
            witness(what);
        }
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let Ok(mut fault) = self.fault.lock() else {
            return Verdict::Send;
        };
        let verdict = match *fault {
            Some(Fault::Refused(at)) if at == number => Verdict::Spoil,
            Some(Fault::Killed(at)) if at == number => Verdict::Kill,
            _ => return Verdict::Send,
        };
        *fault = None;
        verdict
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
        if let Ok(mut own) = self.fault.lock() {
            *own = fault;
        }
    }
}

/// Ends this process as `kill -9` would.
pub(crate) fn die() -> ! {
    loop {
        // A process may always kill itself.
        let _ = kill_process(getpid(), Signal::KILL);
    }
}
