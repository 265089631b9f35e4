// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The text of a domain file, and the domain built from it.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

/// Runs a command line that must succeed; returns its output.
#[track_caller]
pub fn run(line: &str) -> String {
    let (status, out, err) = ended(line);
    assert_eq!(status, 0, "{line}: {out}{err}");
    out
}

/// Runs a command line; returns its status, output and error output.
#[track_caller]
pub fn ended(line: &str) -> (i32, String, String) {
    let mut words = line.split(' ');
    let output = Command::new(words.next().unwrap())
        .args(words)
        .output()
        .unwrap_or_else(|error| panic!("{line}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code().unwrap_or(-1),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// A domain file under construction.
#[derive(Debug)]
pub struct Plan {
    text: String,
    /// The number of its customers.
    customers: u32,
}

impl Plan {
    pub fn new(classes: &str) -> Self {
        Self {
            text: format!("version = 1\n{classes}"),
            customers: 0,
        }
    }

    pub fn router(&mut self, name: &str, role: &str) {
        let _ = write!(self.text, "\n[router.{name}]\nrole = \"{role}\"\n");
    }

    /// Adds a link; each router's device is named like the other router.
    pub fn link(&mut self, one: &str, other: &str, rate: &str) {
        let _ = write!(
            self.text,
            "\n[[link]]\nbetween = [\"{one}\", \"{other}\"]\ndevices = [\"{other}\", \"{one}\"]\n\
             rate = \"{rate}\"\n"
        );
    }

    /// Adds a customer, whose device at the router has the customer's name.
    pub fn customer(&mut self, name: &str, router: &str, rate: &str) {
        let number = self.customers;
        let _ = write!(
            self.text,
            "\n[customer.{name}]\nrouter = \"{router}\"\ndevice = \"{name}\"\nrate = \"{rate}\"\n\
             host = \"{name}\"\naddress = \"10.1.{number}.2\"\n"
        );
        self.customers += 1;
    }

    pub fn service(&mut self, text: &str) {
        let _ = write!(self.text, "\n[[service]]\n{text}\n");
    }

    /// Writes the file and builds the domain.
    pub fn build(&self, file: &str) {
        fs::write(file, &self.text).unwrap();
        run(&format!("weirgate-lab domain inside {file} --only-build"));
    }
}
