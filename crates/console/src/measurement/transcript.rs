// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The log of a running measurement, and a capture of the first bytes of its packets.

use super::RunFolder;
use crate::output;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write as _};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use weirgate_probe::Capture;

/// One step in this many is printed if standard error is not a terminal.
const QUIET_STEPS: usize = 12;

/// The notes of a run, with the time since it began.
pub struct Log {
    text: String,
    begin: Instant,
    /// Whether the terminal's last line is a step, which the next one replaces.
    step: bool,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            text: String::new(),
            begin: Instant::now(),
            step: false,
        }
    }
}

impl Log {
    /// Prints a note and adds it to the log.
    pub fn note(&mut self, text: &str) {
        self.end_step();
        output::note(&format!("weirgate: {text}"));
        self.remember(text);
    }

    /// Adds a step of a stage to the log, and shows it on a line that the next step replaces.
    /// Without a terminal, one step in twelve is shown.
    pub fn step(&mut self, text: &str, number: usize) {
        self.remember(text);
        let mut err = io::stderr().lock();
        if err.is_terminal() {
            self.step = true;
            // Ignore errors: a step that cannot be shown must not stop a measurement.
            let _ = write!(err, "\r\x1b[K\x1b[?7lweirgate: {text}\x1b[?7h");
            let _ = err.flush();
        } else if number.is_multiple_of(QUIET_STEPS) {
            drop(err);
            output::note(&format!("weirgate: {text}"));
        }
    }

    /// Returns all notes, one a line.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn remember(&mut self, text: &str) {
        let _ = writeln!(
            self.text,
            "{:.3} {text}",
            self.begin.elapsed().as_secs_f64()
        );
    }

    fn end_step(&mut self) {
        if std::mem::take(&mut self.step) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.end_step();
    }
}

/// Does the work. Captures the packets to and from a host during that time, if there is a folder
/// and the capture is permitted.
pub fn captured<T>(
    folder: Option<&RunFolder>,
    host: IpAddr,
    log: &mut Log,
    work: impl FnOnce(&mut Log) -> T,
) -> T {
    let Some(folder) = folder else {
        return work(log);
    };
    let capture = match Capture::open(host) {
        Ok(capture) => capture,
        Err(error) => {
            log.note(&format!(
                "no packets are captured: {error} (this needs CAP_NET_RAW)"
            ));
            return work(log);
        }
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = &over;
        let captured = scope.spawn(move || -> io::Result<u64> {
            let mut file = BufWriter::new(File::create(folder.path().join("capture.pcap"))?);
            capture.write(&mut file, || over.load(Ordering::Relaxed))
        });
        let done = work(log);
        over.store(true, Ordering::Relaxed);
        match captured.join() {
            Ok(Ok(packets)) => log.note(&format!("{packets} packets were captured")),
            Ok(Err(error)) => log.note(&format!("the capture failed: {error}")),
            Err(_) => {}
        }
        done
    })
}
