// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records the payload of a stream without one record for each read.

use crate::agent::recorder::Recorder;
use std::cell::Cell;
use weirgate_experiment::Delivered;

/// Reads within this many nanoseconds share a record.
const GRAIN_NS: u64 = 10_000_000;

/// Counts what one flow's receivers read.
#[derive(Debug)]
pub struct Meter {
    recorder: Recorder,
    flow: u16,
    /// The number and time of the current record.
    open: Cell<Option<(usize, u64)>>,
}

impl Meter {
    /// Returns a meter for one flow.
    #[must_use]
    pub const fn new(recorder: Recorder, flow: u16) -> Self {
        Self {
            recorder,
            flow,
            open: Cell::new(None),
        }
    }

    /// Adds bytes read at `now_ns`. A record has the time of its first read, so that records
    /// stay in order.
    pub fn add(&self, now_ns: u64, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if let Some((number, since_ns)) = self.open.get()
            && now_ns.saturating_sub(since_ns) < GRAIN_NS
        {
            self.recorder.delivered_mut(number, |record| {
                record.bytes = record.bytes.saturating_add(bytes);
            });
            return;
        }
        let number = self.recorder.delivered(Delivered {
            flow: self.flow,
            at_ns: now_ns,
            bytes,
            datagram: None,
            transit_ns: None,
        });
        self.open.set(Some((number, now_ns)));
    }
}

#[cfg(test)]
mod tests {
    use super::Meter;
    use crate::agent::recorder::Recorder;

    #[test]
    fn one_record_per_grain_and_no_byte_lost() {
        let recorder = Recorder::new();
        let flow = recorder.flow("up", 0, None);
        let meter = Meter::new(recorder.clone(), flow);
        for at_ms in [0, 1, 9, 10, 19, 35] {
            meter.add(at_ms * 1_000_000, 100);
        }
        let records: Vec<(u64, u32)> = recorder
            .take()
            .delivered
            .iter()
            .map(|record| (record.at_ns / 1_000_000, record.bytes))
            .collect();
        assert_eq!(records, [(0, 300), (10, 200), (35, 100)]);
    }
}
