// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shows the progress of a run's arms on one terminal line, or as occasional lines if standard
//! error is not a terminal.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;

/// The virtual seconds between two lines of an arm without a terminal.
const QUIET_STEP_S: f64 = 60.0;

/// Shows progress of several arms, from several threads.
pub struct Progress {
    terminal: bool,
    arms: Mutex<BTreeMap<String, f64>>,
}

impl Default for Progress {
    /// Makes a display on standard error.
    fn default() -> Self {
        Self {
            terminal: io::stderr().is_terminal(),
            arms: Mutex::new(BTreeMap::new()),
        }
    }
}

impl Progress {
    /// Shows that an arm is at `at_s` of `of_s` virtual seconds and does `what`.
    pub fn update(&self, arm: &str, at_s: f64, of_s: f64, what: &str) {
        let Ok(mut arms) = self.arms.lock() else {
            return;
        };
        let before = arms.insert(arm.to_owned(), at_s);
        let mut err = io::stderr().lock();
        let step = |seconds: f64| (seconds / QUIET_STEP_S).floor();
        // Ignore errors: a progress line that cannot be shown must not stop a run.
        let _ = if self.terminal {
            let all: Vec<String> = arms
                .iter()
                .map(|(arm, at)| format!("{arm} {at:.0}/{of_s:.0} s"))
                .collect();
            // Disable the terminal's line wrapping: a wrapped line could not be replaced by the
            // next one.
            write!(err, "\r\x1b[K\x1b[?7l{}  {what}\x1b[?7h", all.join("   "))
        } else if before.is_none_or(|before| step(before) < step(at_s)) {
            writeln!(err, "{arm}: {at_s:.0} of {of_s:.0} virtual seconds  {what}")
        } else {
            Ok(())
        };
        let _ = err.flush();
    }

    /// Removes an arm that has ended.
    pub fn finished(&self, arm: &str, wall_s: f64) {
        let Ok(mut arms) = self.arms.lock() else {
            return;
        };
        arms.remove(arm);
        let mut err = io::stderr().lock();
        let clear = if self.terminal { "\r\x1b[K" } else { "" };
        let _ = writeln!(err, "{clear}{arm}: done in {wall_s:.1} s");
    }
}
