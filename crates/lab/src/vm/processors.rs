// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which of the host's processors a virtual machine runs on. The emulator's two threads alternate
//! at every wake-up of the guest, which costs a third less if they share a processor. Machines that
//! run at the same time must not share one. A shared processor also makes changes in the order of
//! the threads rarer (docs/lab.md).

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// The processors that this thread may use, the one that runs it now first:
/// it is the least busy one, or this thread would not run there.
pub(crate) fn allowed() -> Vec<usize> {
    let now = sched_getcpu();
    let set = sched_getaffinity(None).unwrap_or_default();
    let others = (now + 1..CpuSet::MAX_CPU).chain(0..now.min(CpuSet::MAX_CPU));
    let others = others.filter(|&processor| set.is_set(processor));
    std::iter::once(now).chain(others).collect()
}

/// Keeps this thread, and what it starts meanwhile, on one processor.
pub(super) struct Pinned {
    before: Option<CpuSet>,
}

impl Pinned {
    /// Where the host refuses, nothing is lost but speed.
    pub(super) fn to(processor: usize) -> Self {
        let mut one = CpuSet::new();
        if processor < CpuSet::MAX_CPU {
            one.set(processor);
        }
        // An empty set is refused.
        let before = sched_getaffinity(None)
            .ok()
            .filter(|_| sched_setaffinity(None, &one).is_ok());
        Self { before }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // It was allowed before.
            let _ = sched_setaffinity(None, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_again_after_being_pinned() {
        let mut before = allowed();
        let one = before[before.len() - 1];
        {
            let _pinned = Pinned::to(one);
            assert_eq!(allowed(), [one]);
        }
        let mut after = allowed();
        after.sort_unstable();
        before.sort_unstable();
        assert_eq!(after, before);
    }
}
