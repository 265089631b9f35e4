// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The idle time of the machine's processors.

use anyhow::{Context, Result};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use weirgate_experiment::IdleSample;

/// Its first line has the times of all processors, in ticks (proc_stat(5)).
const FILE: &str = "/proc/stat";
/// Buffer size in bytes, larger than the first line.
const LINE: usize = 256;
/// The fields user, nice, system, irq, softirq and steal. The idle field is not usable: on Linux
/// 7.3 it was seen to rise by up to 1.33 s per second.
const BUSY: [usize; 6] = [1, 2, 3, 6, 7, 8];

/// Length of a tick: `USER_HZ` is 100 (include/asm-generic/param.h).
const TICK_NS: u64 = 10_000_000;

/// The machine's processors.
#[derive(Debug)]
pub struct Processors {
    file: File,
    /// Nanoseconds of a tick, divided by the number of processors.
    tick_ns: u64,
}

impl Processors {
    /// # Errors
    ///
    /// Returns an error if the kernel does not have the file.
    pub fn open() -> Result<Self> {
        let count = std::thread::available_parallelism().context("count the processors")?;
        Ok(Self {
            file: File::open(FILE).context(FILE)?,
            tick_ns: TICK_NS / count.get() as u64,
        })
    }

    /// Returns the processors' idle time since boot: `up_ns`, the time since boot, minus the
    /// busy time.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read.
    pub fn idle(&self, at_ns: u64, up_ns: u64) -> Result<IdleSample> {
        let mut line = [0; LINE];
        let length = self.file.read_at(&mut line, 0).context(FILE)?;
        let text = String::from_utf8_lossy(&line[..length]);
        let busy = busy_ticks(&text).context(FILE)?;
        Ok(IdleSample {
            at_ns,
            idle_ns: up_ns.saturating_sub(busy * self.tick_ns),
        })
    }
}

/// Returns the busy ticks in the first line, the sum over all processors.
fn busy_ticks(text: &str) -> Option<u64> {
    let numbers: Vec<&str> = text.lines().next()?.split_whitespace().collect();
    BUSY.iter()
        .map(|&at| numbers.get(at)?.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::busy_ticks;

    #[test]
    fn idle_time_and_waiting_for_disks_are_not_busy() {
        let line = "cpu  1 20 300 9000 9000 4000 50000 600000 7 7\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(busy_ticks(line), Some(654_321));
        assert_eq!(busy_ticks("cpu  1 20 300 9000 9000 4000 50000"), None);
    }
}
