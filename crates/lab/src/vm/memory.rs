// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the memory of a host process.

use rustix::process::Pid;
use std::fs;

/// Returns the largest memory that a process has used so far, in bytes; `None` if it has ended.
pub(super) fn peak(process: Pid) -> Option<u64> {
    let path = format!("/proc/{}/status", process.as_raw_nonzero());
    high_water_mark(&fs::read_to_string(path).ok()?)
}

/// Parses `VmHWM` of `/proc/PID/status` (proc(5)), which is in units of 1024 bytes.
fn high_water_mark(status: &str) -> Option<u64> {
    let words = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let number: u64 = words.trim().strip_suffix(" kB")?.parse().ok()?;
    number.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_lives_has_used_some() {
        let own = peak(rustix::process::getpid()).unwrap();
        assert!((1 << 20..1 << 40).contains(&own), "{own}");
    }

    #[test]
    fn one_that_has_ended_has_none() {
        let status = "Name:\tqemu\nVmPeak:\t  9 kB\nVmHWM:\t    388 kB\n";
        assert_eq!(high_water_mark(status), Some(388 * 1024));
        assert_eq!(high_water_mark("Name:\tqemu\nState:\tZ (zombie)\n"), None);
        assert_eq!(high_water_mark("VmHWM:\t99999999999999999999 kB\n"), None);
    }
}
