// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The folder of a run: its command line, captures and results.

use crate::exit::Failure;
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The folder of a run.
pub struct RunFolder(PathBuf);

impl RunFolder {
    /// Creates the folder, and writes `setup.json`: versions, machine, time and command line. Fails
    /// if the folder exists.
    pub fn make(path: &Path) -> Result<Self, Failure> {
        let wrong = |error| Failure::Input(format!("weirgate: {}: {error}", path.display()));
        std::fs::create_dir(path).map_err(wrong)?;
        let kept = Self(path.to_owned());
        let time = SystemTime::now().duration_since(UNIX_EPOCH);
        let machine = rustix::system::uname();
        let setup = json!({
            "weirgate": env!("CARGO_PKG_VERSION"),
            "kernel": machine.release().to_string_lossy(),
            "machine": machine.nodename().to_string_lossy(),
            "began_unix_s": time.map_or(0, |time| time.as_secs()),
            "arguments": std::env::args_os()
                .skip(1)
                .map(|one| one.to_string_lossy().into_owned())
                .collect::<Vec<_>>(),
        });
        kept.file("setup.json", &format!("{setup:#}\n"))
            .map_err(wrong)?;
        Ok(kept)
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file in the folder.
    pub fn file(&self, name: &str, text: &str) -> io::Result<()> {
        std::fs::write(self.0.join(name), text)
    }

    /// Writes a result as text and as JSON.
    pub fn result(&self, text: &str, json: &Value) -> io::Result<()> {
        self.file("result.txt", text)?;
        self.file("result.json", &format!("{json:#}\n"))
    }
}
