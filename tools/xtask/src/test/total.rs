// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the runs of tests report, and their sums.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// The text with which a test begins that lacks a program of this machine, and checks nothing.
const SKIPPED: &str = "SKIPPED: ";

/// The result of a run.
pub struct Ran {
    pub name: String,
    pub executable: PathBuf,
    pub folder: PathBuf,
    pub output: String,
    pub succeeded: bool,
    /// Wall-clock time.
    pub seconds: f64,
    /// Processor time in seconds of the run and its children.
    pub busy: f64,
}

impl Ran {
    /// Returns whether all its tests passed, and none skipped itself.
    pub fn passed(&self) -> bool {
        self.succeeded && skipped(&self.output).next().is_none()
    }

    /// Returns how many tests passed, failed, and were ignored or skipped themselves. The test
    /// binary counts the last as passed.
    fn counts(&self) -> [u32; 3] {
        let [passed, failed, ignored] = counts(&self.output);
        let own = passed.min(u32::try_from(skipped(&self.output).count()).unwrap_or(u32::MAX));
        [passed - own, failed, ignored + own]
    }
}

/// The sums of all runs.
#[derive(Default)]
pub struct Total {
    /// Tests that passed, failed, and were ignored or skipped themselves.
    counts: [u32; 3],
    pub failed: Vec<String>,
    /// The wall-clock time of each run, for the next time.
    pub seconds: BTreeMap<String, f64>,
    /// The processor time of each run.
    busy: Vec<(String, f64)>,
}

impl Total {
    pub fn add(&mut self, ran: Ran) {
        for (count, one) in self.counts.iter_mut().zip(ran.counts()) {
            *count += one;
        }
        self.seconds.insert(ran.name.clone(), ran.seconds);
        self.busy.push((ran.name.clone(), ran.busy));
        if !ran.succeeded {
            self.failed.push(ran.name);
        }
    }

    /// Prints the runs with the most processor time, the total, and the counts.
    #[allow(clippy::print_stdout, reason = "the tests' output is the result")]
    pub fn print(&mut self) {
        self.busy.sort_by(|a, b| b.1.total_cmp(&a.1));
        println!("processor time");
        for (name, busy) in self.busy.iter().take(20) {
            println!("{busy:7.1} s  {name}");
        }
        let all: f64 = self.busy.iter().map(|(_, busy)| busy).sum();
        println!("{all:7.1} s  all {} runs", self.busy.len());
        let [passed, failed, skipped] = self.counts;
        println!("{passed} passed, {failed} failed, {skipped} skipped");
    }
}

/// Returns the counts on the last line of a test binary: passed, failed, ignored.
pub fn counts(output: &str) -> [u32; 3] {
    let line = output
        .lines()
        .rev()
        .find(|line| line.starts_with("test result:"));
    let words: Vec<&str> = line.unwrap_or_default().split(' ').collect();
    ["passed;", "failed;", "ignored;"].map(|kind| {
        let at = words.iter().position(|word| *word == kind);
        let number = at.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok());
        number.unwrap_or(0)
    })
}

/// Returns what tests said that skipped themselves. They write past the harness, after its
/// `test NAME ... ` on the same line.
pub fn skipped(output: &str) -> impl Iterator<Item = &str> {
    output.lines().filter_map(|line| {
        let (before, _) = line.split_once(SKIPPED)?;
        let own = before.is_empty() || before.starts_with("test ") && before.ends_with(" ... ");
        own.then(|| &line[before.len()..])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(output: &str) -> Ran {
        Ran {
            name: "cli cli remote".to_owned(),
            executable: PathBuf::new(),
            folder: PathBuf::new(),
            output: output.to_owned(),
            succeeded: true,
            seconds: 1.0,
            busy: 1.0,
        }
    }

    #[test]
    fn counts_are_read_from_the_last_line() {
        let output = "running 5 tests\n...\n\ntest result: FAILED. 3 passed; 1 failed; 1 ignored; \
                      0 measured; 0 filtered out; finished in 0.01s\n\n";
        assert_eq!(counts(output), [3, 1, 1]);
        assert_eq!(counts("Segmentation fault"), [0, 0, 0]);
    }

    #[test]
    fn a_test_that_skips_itself_has_not_passed() {
        let end = "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";
        let mut total = Total::default();
        for begin in ["SKIPPED: no irtt", "test a::b ... SKIPPED: no irtt\nok"] {
            let ran = ran(&format!("running 2 tests\n{begin}\n\n{end}\n"));
            assert_eq!(
                skipped(&ran.output).collect::<Vec<_>>(),
                ["SKIPPED: no irtt"]
            );
            assert!(!ran.passed());
            total.add(ran);
        }
        assert_eq!(total.counts, [2, 0, 2]);
        let whole = ran(&format!("a test says `SKIPPED: x`\n{end}\n"));
        assert!(whole.passed());
        assert_eq!(whole.counts(), [2, 0, 0]);
    }
}
