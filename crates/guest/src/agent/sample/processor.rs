// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long the machine's processors have nothing to do.

use anyhow::{Context, Result};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use weirgate_experiment::IdleSample;

/// What is read: its first line has times of all processors, in ticks (proc_stat(5)).
const FILE: &str = "/proc/stat";
/// More than the first line has.
const LINE: usize = 256;
/// The idle time is its fourth number.
const IDLE: usize = 4;

/// A tick: `USER_HZ` is 100 (include/asm-generic/param.h).
const TICK_NS: u64 = 10_000_000;

/// The machine's processors.
#[derive(Debug)]
pub struct Processors {
    file: File,
    /// The nanoseconds of a tick, over the number of processors.
    tick_ns: u64,
}

impl Processors {
    /// # Errors
    ///
    /// Where the kernel has no such file.
    pub fn open() -> Result<Self> {
        let count = std::thread::available_parallelism().context("count the processors")?;
        Ok(Self {
            file: File::open(FILE).context(FILE)?,
            tick_ns: TICK_NS / count.get() as u64,
        })
    }

    /// Their idle time until now.
    ///
    /// # Errors
    ///
    /// Where it cannot be read.
    pub fn idle(&self, at_ns: u64) -> Result<IdleSample> {
        let mut line = [0; LINE];
        let length = self.file.read_at(&mut line, 0).context(FILE)?;
        let text = String::from_utf8_lossy(&line[..length]);
        let idle = text.split_whitespace().nth(IDLE);
        let idle: u64 = idle.and_then(|ticks| ticks.parse().ok()).context(FILE)?;
        Ok(IdleSample {
            at_ns,
            idle_ns: idle * self.tick_ns,
        })
    }
}
