// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A test program that runs tests of itself in the guest.

use crate::{ArmOutput, KernelChoice, Lab, LabError, Limits, Options};
use std::env;
use std::sync::OnceLock;
use weirgate_experiment::KernelName;

/// How a test program runs its own ignored tests in the guest, as the first
/// process there but for the guest's own: with a kernel that is nobody's.
#[derive(Debug, Clone)]
pub struct OwnTests<'a> {
    /// Programs and files that the guest has beside the test program itself.
    pub programs: &'a [&'a str],
    /// The kernel; the lab's own unless one is named.
    pub kernel: Option<KernelName>,
    /// Variables of the environment, as `NAME=VALUE`. With any, `env` must be one
    /// of the programs.
    pub variables: &'a [&'a str],
    /// Decides the guest's random numbers.
    pub seed: u64,
    /// How long it may take, and what it may use.
    pub limits: Limits,
}

impl OwnTests<'_> {
    /// Runs the test of this path, and answers what it wrote.
    ///
    /// # Panics
    /// If there is no laboratory, or the test does not pass there: this is for
    /// tests.
    #[must_use]
    pub fn run(&self, path: &str) -> String {
        let output = self.execute(&[path, "--nocapture"]);
        let output = output.unwrap_or_else(|error| panic!("{error}"));
        let text = String::from_utf8_lossy(&output.result).into_owned();
        let passed = text.starts_with("status: 0\n") && text.contains("1 passed");
        assert!(passed, "{text}");
        text
    }

    /// Runs the program there, with its own path before these words.
    fn execute(&self, more: &[&str]) -> Result<ArmOutput, LabError> {
        let own = env::current_exe().map_err(LabError::host("own program's path"))?;
        let name = own.file_name().unwrap_or_default().to_string_lossy();
        let programs = self.programs.iter().map(|&one| one.to_owned());
        let options = Options {
            programs: programs
                .chain([own.to_string_lossy().into_owned()])
                .collect(),
            kernel: self.kernel.map(KernelChoice::Named),
            ..Options::default()
        };
        let lab = Lab::open(&options, &mut |_| ())?;
        let mut words = Vec::new();
        if !self.variables.is_empty() {
            words.push("env");
            words.extend(self.variables);
        }
        words.extend([&*name, "--exact", "--ignored"]);
        words.extend(more);
        lab.execute(&words, &[], (self.seed, self.limits), &mut |_| ())
    }
}

/// Tests that run in one guest, one after another: booting it takes longer than most
/// of them.
///
/// The first that is asked for runs all. Each has an outcome of its own. Where the
/// guest does not come to its end, nobody knows whose fault it is, and each test runs
/// in a guest of its own when it is asked for.
#[derive(Debug)]
pub struct Together {
    own: fn() -> OwnTests<'static>,
    paths: &'static [&'static str],
    /// What the tests wrote; an error of the machine.
    listed: OnceLock<Result<String, String>>,
}

impl Together {
    /// Tests of these paths, and how they run; for as long as one alone may take, times
    /// as many as there are. Nothing runs before the first is asked for.
    #[must_use]
    pub const fn new(own: fn() -> OwnTests<'static>, paths: &'static [&'static str]) -> Self {
        let listed = OnceLock::new();
        Self { own, paths, listed }
    }

    /// What the test of this path wrote.
    ///
    /// # Panics
    /// If there is no laboratory, or the test does not pass there, or is not one of
    /// these: this is for tests.
    #[must_use]
    pub fn run(&self, path: &str) -> String {
        let listed = self.listed.get_or_init(|| {
            let words = [self.paths, &["--show-output"]].concat();
            let mut own = (self.own)();
            own.limits.wall *= self.paths.len() as u32;
            let output = own.execute(&words).map_err(|error| error.to_string())?;
            Ok(String::from_utf8_lossy(&output.result).into_owned())
        });
        match listed {
            Ok(text) => {
                let written = written(text, path);
                assert!(passed(text, path), "{}", written.unwrap_or(text));
                written.unwrap_or_default().to_owned()
            }
            Err(error) => {
                let text = (self.own)().run(path);
                format!("not together with others: {error}\n{text}")
            }
        }
    }
}

/// Whether the test of this path passed, by the line that libtest has of each.
fn passed(text: &str, path: &str) -> bool {
    let line = format!("test {path} ... ok");
    text.lines().any(|one| one == line)
}

/// What the test of this path wrote, which libtest shows behind a line of its own.
fn written<'a>(text: &'a str, path: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("---- {path} stdout ----\n"))?;
    let ends = ["\n---- ", "\nsuccesses:\n", "\nfailures:\n"];
    let end = ends.iter().filter_map(|end| rest.find(end)).min();
    Some(&rest[..end.unwrap_or(rest.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "status: 101

running 3 tests
test a::quiet ... ok
test a::said ... ok
test b::failed ... FAILED

successes:

---- a::said stdout ----
one
two

successes:
    a::quiet
    a::said

failures:

---- b::failed stdout ----
thread panicked

failures:
    b::failed

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 7 filtered out
";

    #[test]
    fn each_test_has_its_own_outcome() {
        let outcomes =
            ["a::quiet", "a::said", "b::failed", "a", "said", "c"].map(|path| passed(TEXT, path));
        assert_eq!(outcomes, [true, true, false, false, false, false]);
        assert_eq!(written(TEXT, "a::said"), Some("one\ntwo\n"));
        assert_eq!(written(TEXT, "b::failed"), Some("thread panicked\n"));
        assert_eq!(written(TEXT, "a::quiet"), None);
    }
}
