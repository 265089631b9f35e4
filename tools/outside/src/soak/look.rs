// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures weirgate's use of the machine: what would grow with a leak.

use crate::process::direct;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// What stays behind if something is not removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// BPF programs and maps in the kernel, by their identifiers.
    pub programs: u64,
    pub maps: u64,
    /// Pins of programs and maps.
    pub pins: u64,
    /// The lines of all nftables rules; and of all qdiscs, classes and filters.
    pub rules: u64,
    pub tree: u64,
    /// The number of processes.
    pub processes: u64,
}

impl Counts {
    /// The names of the counts, in the order of `listed`.
    pub const NAMES: [&'static str; 6] = ["programs", "maps", "pins", "rules", "tree", "processes"];

    pub fn listed(&self) -> [u64; 6] {
        [
            self.programs,
            self.maps,
            self.pins,
            self.rules,
            self.tree,
            self.processes,
        ]
    }

    /// Counts.
    pub fn now() -> Result<Self> {
        let lines =
            |words: &[&str]| -> Result<u64> { Ok(direct(words)?.output.lines().count() as u64) };
        let objects = weirgate_bpf::objects().context("BPF objects")?;
        let mut tree = 0;
        for what in ["qdisc", "class", "filter"] {
            for device in ["wan", "lan", "access", "spare"] {
                tree += lines(&["tc", what, "show", "dev", device])?;
            }
        }
        Ok(Self {
            programs: objects.programs,
            maps: objects.maps,
            pins: below(Path::new("/sys/fs/bpf")),
            rules: lines(&["nft", "list", "ruleset"])?,
            tree,
            processes: fs::read_dir("/proc")?
                .flatten()
                .filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok())
                // Kernel threads have no executable.
                .filter(|entry| fs::read_link(entry.path().join("exe")).is_ok())
                .count() as u64,
        })
    }

    /// Says what there is more of than before.
    pub fn left_over(&self, before: &Self) -> Vec<String> {
        let pairs = self.listed().into_iter().zip(before.listed());
        let more = Self::NAMES
            .iter()
            .zip(pairs)
            .filter(|(_, (now, then))| now > then);
        more.map(|(name, (now, then))| format!("{name}: {now}, {then} before"))
            .collect()
    }
}

/// The use of memory by one process, in KiB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub name: String,
    /// Its number: another one is another process, which begins anew.
    pub number: u32,
    /// Its open files.
    pub files: u64,
    /// `Rss` of `/proc/PID/smaps_rollup`.
    pub resident: u64,
    /// `Pss`: its part of pages that it shares.
    pub proportional: u64,
    /// `Anonymous`: heap and stacks, without pages of files.
    pub anonymous: u64,
}

impl Process {
    /// Measures a process.
    pub fn of(name: &str, number: u32) -> Result<Self> {
        let open = format!("/proc/{number}/fd");
        let memory = format!("/proc/{number}/smaps_rollup");
        let files = fs::read_dir(&open).with_context(|| format!("{name}: {open}"))?;
        Ok(Self {
            name: name.to_owned(),
            number,
            files: files.count() as u64,
            resident: kib(&memory, "Rss:")?,
            proportional: kib(&memory, "Pss:")?,
            anonymous: kib(&memory, "Anonymous:")?,
        })
    }
}

/// The use of memory by the machine, in KiB, and its parts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// All except `MemAvailable`.
    pub used: u64,
    /// `Shmem`: files in memory, which are weirgate's states and history, and this test's.
    pub files: u64,
    /// `AnonPages`: heap and stacks of all processes.
    pub anonymous: u64,
    /// `SUnreclaim`, `Percpu`, `KernelStack` and `PageTables`: the kernel's own.
    pub kernel: u64,
}

impl Memory {
    /// The names of the quantities, in the order of `listed`.
    pub const NAMES: [&'static str; 4] = [
        "in use",
        "files in memory",
        "heap and stacks of all processes",
        "the kernel's own",
    ];

    pub fn listed(&self) -> [u64; 4] {
        [self.used, self.files, self.anonymous, self.kernel]
    }

    /// Measures.
    pub fn now() -> Result<Self> {
        let of = |field: &str| kib("/proc/meminfo", field);
        Ok(Self {
            used: of("MemTotal:")? - of("MemAvailable:")?,
            files: of("Shmem:")?,
            anonymous: of("AnonPages:")?,
            kernel: of("SUnreclaim:")? + of("Percpu:")? + of("KernelStack:")? + of("PageTables:")?,
        })
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_there_is_more_of_is_left_over() {
        let before = Counts {
            programs: 3,
            maps: 4,
            ..Counts::default()
        };
        let now = Counts {
            programs: 2,
            maps: 6,
            ..Counts::default()
        };
        assert_eq!(now.left_over(&before), ["maps: 6, 4 before"]);
    }

    #[test]
    fn this_process_is_measured() {
        let own = Process::of("test", std::process::id()).unwrap();
        assert!(own.files > 2);
        assert!(own.resident >= own.anonymous && own.anonymous > 0);
    }
}
