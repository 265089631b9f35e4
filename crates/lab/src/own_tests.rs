// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Test programs that run some of their own tests in the guest.

use crate::{ArmOutput, KernelChoice, Lab, LabError, Limits, Options};
use std::env;
use std::sync::OnceLock;
use weirgate_experiment::KernelName;

/// Runs ignored tests of this test program in the guest, with a kernel that no one else uses.
#[derive(Debug, Clone)]
pub struct OwnTests<'a> {
    /// Programs and files that the guest has, besides the test program itself.
    pub programs: &'a [&'a str],
    /// The kernel; the default is that of the laboratory.
    pub kernel: Option<KernelName>,
    /// Environment variables, as `NAME=VALUE`. If there are any, `env` must be one of the
    /// programs.
    pub variables: &'a [&'a str],
    /// The seed of the guest's random numbers.
    pub seed: u64,
    /// The limits on time and memory.
    pub limits: Limits,
}

impl OwnTests<'_> {
    /// Runs the test with this path, and returns its output.
    ///
    /// # Panics
    ///
    /// Panics if there is no laboratory, or if the test fails: this is for tests.
    #[must_use]
    pub fn run(&self, path: &str) -> String {
        let output = self.execute(&[path, "--nocapture"]);
        let output = output.unwrap_or_else(|error| panic!("{error}"));
        let text = String::from_utf8_lossy(&output.result).into_owned();
        let passed = text.starts_with("status: 0\n") && text.contains("1 passed");
        assert!(passed, "{text}");
        text
    }

    /// Runs the program in the guest, with these arguments.
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

/// Tests that run in one guest, one after another, because booting takes longer than most of
/// them.
///
/// The first test that is requested runs all of them. Each has its own outcome. If the guest
/// does not finish, the cause is unknown, and each test is then run in its own guest when it is
/// requested.
#[derive(Debug)]
pub struct Together {
    own: fn() -> OwnTests<'static>,
    paths: &'static [&'static str],
    /// The output of the tests, or an error of the machine.
    listed: OnceLock<Result<String, String>>,
}

impl Together {
    /// Collects tests with these paths, which run as `own` says. The time limit is that of a
    /// single test times their number. Nothing runs before the first one is requested.
    #[must_use]
    pub const fn new(own: fn() -> OwnTests<'static>, paths: &'static [&'static str]) -> Self {
        let listed = OnceLock::new();
        Self { own, paths, listed }
    }

    /// Returns the output of the test with this path.
    ///
    /// # Panics
    ///
    /// Panics if there is no laboratory, if the test fails, or if it is not one of these: this
    /// is for tests.
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

/// Returns whether the test with this path passed, by libtest's line for it.
fn passed(text: &str, path: &str) -> bool {
    let line = format!("test {path} ... ok");
    text.lines().any(|one| one == line)
}

/// Returns the output of the test with this path, which libtest shows after a heading.
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
