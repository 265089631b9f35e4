// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands that `weirgate-lab` runs: this process executes that program.

use clap::Args;
use std::env;
use std::ffi::OsString;
use weirgate_console::exit::Outcome;
use weirgate_console::handover;

/// Arguments that `weirgate-lab` reads.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct Handed {
    /// Arguments of the same command of `weirgate-lab`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    #[arg(value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// Executes `weirgate-lab` with this program's arguments, or says how to get it.
pub fn over() -> Outcome {
    match handover::become_lab(own_words(env::args_os().skip(1)))? {}
}

/// Returns the arguments from the command's name on. Earlier ones are only for this program.
fn own_words(mut all: impl Iterator<Item = OsString>) -> Vec<OsString> {
    while let Some(word) = all.next() {
        if word == "--state-dir" {
            all.next();
        } else if !word.to_string_lossy().starts_with('-') {
            return std::iter::once(word).chain(all).collect();
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_and_what_follows_go_over() {
        let words = |text: &str| {
            let own = own_words(text.split(' ').map(OsString::from));
            let own: Vec<_> = own.iter().map(|word| word.to_string_lossy()).collect();
            own.join(" ")
        };
        assert_eq!(words("lab run --json a.toml"), "lab run --json a.toml");
        assert_eq!(words("--state-dir /s try --report x"), "try --report x");
        assert_eq!(words("--state-dir=/s lab list"), "lab list");
    }
}
