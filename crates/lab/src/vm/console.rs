// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses a guest's console: kernel messages, and the guest's own lines, which begin with `@`.
//! It uses the clock only to date its steps.

use crate::error::Failure;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How many lines an error shows: enough for a kernel panic from its reason to its end.
const SHOWN_LINES: usize = 60;

/// How many bytes of a line are kept, so that an endless line does not fill the memory.
const LINE_BYTES: usize = 2000;

/// The progress of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Virtual seconds since the start of traffic.
    pub at_s: f64,
    /// The duration of the run in virtual seconds.
    pub of_s: f64,
    /// The current activity.
    pub what: String,
}

/// Collects the output of the console.
#[derive(Debug)]
pub(super) struct Console {
    from: Instant,
    started: Option<Duration>,
    under_way: Option<Duration>,
    last: VecDeque<String>,
    line: Vec<u8>,
    taken: usize,
    error: Option<String>,
    panic: Option<String>,
}

impl Console {
    pub(super) fn new(from: Instant) -> Self {
        Self {
            from,
            started: None,
            under_way: None,
            last: VecDeque::new(),
            line: Vec::new(),
            taken: 0,
            error: None,
            panic: None,
        }
    }

    /// Processes bytes as they arrive.
    pub(super) fn take(&mut self, bytes: &[u8], progress: &mut dyn FnMut(Progress)) {
        self.taken += bytes.len();
        for &byte in bytes {
            if byte == b'\n' {
                let line = printable(&std::mem::take(&mut self.line));
                self.take_line(line, progress);
            } else if self.line.len() < LINE_BYTES {
                self.line.push(byte);
            }
        }
    }

    fn take_line(&mut self, line: String, progress: &mut dyn FnMut(Progress)) {
        match line
            .strip_prefix('@')
            .map(|own| own.split_once(' ').unwrap_or((own, "")))
        {
            Some(("start", _)) => self.started = Some(self.from.elapsed()),
            Some(("progress", words)) => {
                if let Some(step) = parse_progress(words) {
                    if step.at_s == 0.0 {
                        self.under_way = Some(self.from.elapsed());
                    }
                    progress(step);
                    return;
                }
            }
            Some(("done", _)) => return,
            Some(("error", what)) => self.error = Some(what.to_owned()),
            _ => {}
        }
        if let Some((_, why)) = line.split_once("Kernel panic - not syncing: ") {
            self.panic = Some(why.to_owned());
        }
        if line.is_empty() {
            return;
        }
        if self.last.len() == SHOWN_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    /// Returns the number of bytes so far.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    /// Returns the wall time from the start of the emulator to the start of the guest's agent.
    pub(super) fn started(&self) -> Option<Duration> {
        self.started
    }

    /// Returns the wall time from the start of the emulator to the start of traffic, which is
    /// the last step of a run at 0 s.
    pub(super) fn under_way(&self) -> Option<Duration> {
        self.under_way
    }

    /// Returns the failure that the guest reported. Its own error precedes the kernel's, because
    /// a panic may be a consequence.
    pub(super) fn failure(&self) -> Option<Failure> {
        let error = self.error.clone().map(Failure::Guest);
        error.or_else(|| self.panic.clone().map(Failure::Panic))
    }

    /// Returns the last lines, including an unfinished one.
    pub(super) fn last_lines(&self) -> Vec<String> {
        let unfinished = printable(&self.line);
        let lines = self.last.iter().cloned();
        lines
            .chain(Some(unfinished).filter(|line| !line.is_empty()))
            .collect()
    }
}

/// Parses `V T TEXT`.
fn parse_progress(words: &str) -> Option<Progress> {
    let mut words = words.splitn(3, ' ');
    Some(Progress {
        at_s: words.next()?.parse().ok()?,
        of_s: words.next()?.parse().ok()?,
        what: words.next().unwrap_or_default().to_owned(),
    })
}

/// Returns a line without characters that would disturb the user's terminal: firmware clears the
/// screen, and a guest may send anything.
fn printable(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let mut plain = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            // A control sequence ends with a letter.
            let _ = characters.by_ref().find(char::is_ascii_alphabetic);
        } else if !character.is_control() {
            plain.push(character);
        } else if character == '\t' {
            plain.push(' ');
        }
    }
    plain.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn console(text: &str) -> (Console, Vec<Progress>) {
        let mut console = Console::new(Instant::now());
        let mut steps = Vec::new();
        // The pieces split lines.
        for piece in text.as_bytes().chunks(7) {
            console.take(piece, &mut |step| steps.push(step));
        }
        (console, steps)
    }

    #[test]
    fn own_lines_and_the_kernels() {
        let (console, steps) = console(
            "\u{1b}[2Jfirmware\r\n@start\n@progress 1.5 60 upload1\n@progress nonsense\n@done\n\
             [ 1.2] Kernel panic - not syncing: no\tinit\r\nunfinished",
        );
        let step = Progress {
            at_s: 1.5,
            of_s: 60.0,
            what: "upload1".into(),
        };
        assert_eq!(steps, [step]);
        assert!(console.started().is_some());
        assert_eq!(console.under_way(), None);
        assert!(matches!(console.failure(), Some(Failure::Panic(why)) if why == "no init"));
        assert_eq!(
            console.last_lines(),
            [
                "firmware",
                "@start",
                "@progress nonsense",
                "[ 1.2] Kernel panic - not syncing: no init",
                "unfinished"
            ]
        );
    }

    #[test]
    fn traffic_begins_with_the_last_step_at_0() {
        let mut console = Console::new(Instant::now());
        console.take(b"@progress 0 60 building\n", &mut |_| ());
        let building = console.under_way();
        console.take(b"@progress 0 60 traffic\n", &mut |_| ());
        let traffic = console.under_way();
        console.take(b"@progress 1 60 traffic\n", &mut |_| ());
        assert!(building.is_some() && building < traffic);
        assert_eq!(console.under_way(), traffic);
    }

    #[test]
    fn a_guest_that_never_ends_its_line_fills_nothing() {
        let (console, _) = console(&"x".repeat(100_000));
        assert_eq!(console.taken(), 100_000);
        assert_eq!(console.last_lines(), ["x".repeat(LINE_BYTES)]);
    }

    #[test]
    fn the_guests_own_words_come_first() {
        let (console, _) = console("@error no policy\nKernel panic - not syncing: init\n");
        assert!(matches!(console.failure(), Some(Failure::Guest(why)) if why == "no policy"));
    }
}
