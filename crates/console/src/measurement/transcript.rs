// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The log of a measurement while it lasts, and a capture of its packets'
//! beginnings.

use super::RunFolder;
use crate::output;
use std::fmt::Write as _;
use std::fs::File;
use std::io::BufWriter;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use weirgate_probe::Capture;

/// What is said while it runs, with the time since it began.
pub struct Log(String, Instant);

impl Default for Log {
    fn default() -> Self {
        Self(String::new(), Instant::now())
    }
}

impl Log {
    /// Says something, and remembers it.
    pub fn note(&mut self, text: &str) {
        output::note(&format!("weirgate: {text}"));
        let _ = writeln!(self.0, "{:.3} {text}", self.1.elapsed().as_secs_f64());
    }

    /// All that was said, a line each.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Does the work, and meanwhile captures what goes to a host and comes from there,
/// where there is a folder for it and that is allowed.
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
                "no packets are captured: {error} (that takes CAP_NET_RAW)"
            ));
            return work(log);
        }
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = &over;
        let captured = scope.spawn(move || -> std::io::Result<u64> {
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
