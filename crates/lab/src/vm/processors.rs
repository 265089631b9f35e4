// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Assigns processors of the host to virtual machines. The emulator's two threads alternate at
//! every wake-up of the guest, which costs a third less if they share a processor. Concurrent
//! machines must not share one. A shared processor also makes changes in the order of the
//! threads rarer (docs/lab.md).

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Returns the processors that this thread may use. The current one is first, because the
/// scheduler considers it the least busy.
pub(crate) fn allowed() -> Vec<usize> {
    let now = sched_getcpu();
    let set = sched_getaffinity(None).unwrap_or_default();
    let others = (now + 1..CpuSet::MAX_CPU).chain(0..now.min(CpuSet::MAX_CPU));
    let others = others.filter(|&processor| set.is_set(processor));
    std::iter::once(now).chain(others).collect()
}

/// Keeps this thread, and the processes that it starts in the meantime, on one processor.
pub(super) struct Pinned {
    before: Option<CpuSet>,
}

impl Pinned {
    /// Sets the processor. If the host refuses, only speed is lost.
    pub(super) fn to(processor: usize) -> Self {
        let mut one = CpuSet::new();
        if processor < CpuSet::MAX_CPU {
            one.set(processor);
        }
        // The kernel refuses an empty set.
        let before = sched_getaffinity(None)
            .ok()
            .filter(|_| sched_setaffinity(None, &one).is_ok());
        Self { before }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // Ignore: this set was allowed before.
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
