// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A test program that runs tests of itself in the guest.

use crate::{Lab, Limits, Options};
use std::env;

/// How a test program runs its own ignored tests in the guest, as the first
/// process there but for the guest's own: with a kernel that is nobody's.
#[derive(Debug, Clone)]
pub struct OwnTests<'a> {
    /// Programs and files that the guest has beside the test program itself.
    pub programs: &'a [&'a str],
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
        let own = env::current_exe().expect("this program has a path");
        let name = own.file_name().expect("it has a name").to_string_lossy();
        let programs = self.programs.iter().map(|&one| one.to_owned());
        let options = Options {
            programs: programs
                .chain([own.to_string_lossy().into_owned()])
                .collect(),
            ..Options::default()
        };
        let lab = Lab::open(&options, &mut |_| ()).unwrap_or_else(|error| panic!("{error}"));
        let mut words = Vec::new();
        if !self.variables.is_empty() {
            words.push("env");
            words.extend(self.variables);
        }
        words.extend([&*name, "--exact", path, "--ignored", "--nocapture"]);
        let output = lab
            .execute(&words, &[], (self.seed, self.limits), &mut |_| ())
            .unwrap_or_else(|error| panic!("{error}"));
        let text = String::from_utf8_lossy(&output.result).into_owned();
        let passed = text.starts_with("status: 0\n") && text.contains("1 passed");
        assert!(passed, "{text}");
        text
    }
}
