// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks after each round whether the kernel has the expected state, and measures weirgate's use
//! of the machine.

use crate::process::direct;
use crate::tdc::dump;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// The state that must be in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    Nothing,
    /// One of the two policies.
    Policy(usize),
}

/// Quantities that would grow with a leak.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// The open files of `keep`, of `watch`, and of its process for browsers.
    pub files: Vec<u64>,
    /// The memory of each, in KiB (`VmRSS`).
    pub resident: Vec<u64>,
    /// The used memory of the machine, in KiB: all except `MemAvailable`.
    pub used: u64,
    /// BPF programs that the kernel has compiled.
    pub programs: u64,
    /// Pins of programs and maps.
    pub pins: u64,
    /// The lines of all nftables rules; and of all qdiscs, classes and filters.
    pub rules: u64,
    pub tree: u64,
    /// The number of processes.
    pub processes: u64,
}

/// Returns what tc, ip and nft show of the router, and the state as weirgate reads it.
pub fn shown() -> Result<String> {
    let whole = dump()?;
    // The device of the users has a different index each time that it is made.
    let own = |line: &&str| !line.contains(": lan@");
    let lines: Vec<&str> = whole.lines().filter(own).collect();
    Ok(lines.join("\n"))
}

/// Returns the deviations from the expected state.
pub fn wrong(expected: Expected, bare: &str) -> Result<Vec<String>> {
    Ok(match expected {
        Expected::Nothing => crate::tdc::differing(bare, &shown()?),
        Expected::Policy(_) => {
            let shown = direct(&["weirgate", "show"])?;
            match shown.status {
                Some(0) => Vec::new(),
                status => vec![format!("show ends with {status:?}: {}", shown.error)],
            }
        }
    })
}

/// Measures the machine and these processes.
pub fn look(processes: &[u32]) -> Result<Look> {
    let lines =
        |words: &[&str]| -> Result<u64> { Ok(direct(words)?.output.lines().count() as u64) };
    let symbols = fs::read_to_string("/proc/kallsyms")?;
    let mut tree = 0;
    for what in ["qdisc", "class", "filter"] {
        for device in ["wan", "lan"] {
            tree += lines(&["tc", what, "show", "dev", device])?;
        }
    }
    let mut found = Look {
        used: kib("/proc/meminfo", "MemTotal:")? - kib("/proc/meminfo", "MemAvailable:")?,
        programs: symbols.matches(" bpf_prog_").count() as u64,
        pins: below(Path::new("/sys/fs/bpf")),
        rules: lines(&["nft", "list", "ruleset"])?,
        tree,
        processes: fs::read_dir("/proc")?
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok())
            // Kernel threads have no executable.
            .filter(|entry| fs::read_link(entry.path().join("exe")).is_ok())
            .count() as u64,
        ..Look::default()
    };
    for process in processes {
        let open = format!("/proc/{process}/fd");
        let count = fs::read_dir(&open).context(open)?.count() as u64;
        found.files.push(count);
        let status = format!("/proc/{process}/status");
        found.resident.push(kib(&status, "VmRSS:")?);
    }
    Ok(found)
}

fn kib(file: &str, field: &str) -> Result<u64> {
    let text = fs::read_to_string(file).with_context(|| file.to_owned())?;
    let line = text.lines().find(|line| line.starts_with(field));
    let value = line.and_then(|line| line.split_whitespace().nth(1));
    let value = value.with_context(|| format!("{file} has no {field}"))?;
    Ok(value.parse()?)
}

/// Returns the number of files below a folder.
fn below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let count = |path: &Path| if path.is_dir() { below(path) } else { 1 };
    entries.map(|entry| count(&entry.path())).sum()
}
