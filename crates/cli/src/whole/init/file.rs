// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The policy's file. A signal undoes the file together with the applied policy.

use crate::policy::change;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use tempfile::NamedTempFile;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use weirgate_console::exit::{Failure, wrong};
use weirgate_console::json::Document;
use weirgate_console::output;

/// The exit status of a program that SIGINT ended, as in shells.
const INTERRUPTED: i32 = 130;

/// The changes to undo.
#[derive(Debug, Default)]
struct Done {
    /// Whether the file was written.
    written: bool,
    /// The former contents of the file, if it existed.
    before: Option<Vec<u8>>,
    /// The folder, if it was created for the file.
    made: Option<PathBuf>,
    /// Whether the policy is applied and waits for confirmation.
    applied: bool,
    /// Whether all changes stay.
    kept: bool,
}

/// Undoes all changes if SIGINT, SIGTERM or SIGHUP arrives before [`Undo::keep`].
pub struct Undo {
    file: PathBuf,
    done: Arc<Mutex<Done>>,
}

/// The signals that end a program.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// Waits for any of them.
    async fn any(mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => (),
            _ = self.terminate.recv() => (),
            _ = self.hangup.recv() => (),
        }
    }
}

/// Restores the former file and state. If a change is being applied at the moment, its guard undoes
/// it after this process ends.
fn take_back(state: &Path, file: &Path, done: &Done) {
    if done.applied
        && let Err(failure) = change::take_back(state, &Document::none())
    {
        output::note(&failure.text());
    }
    let restored = match &done.before {
        _ if !done.written => Ok(()),
        None => fs::remove_file(file),
        Some(before) => fs::write(file, before),
    };
    let folder = done.made.as_ref().map_or(Ok(()), fs::remove_dir);
    match restored.and(folder) {
        Ok(()) => output::note("weirgate: interrupted; everything is as before"),
        Err(error) => output::note(&format!("weirgate: {}: {error}", file.display())),
    }
}

fn lock(done: &Mutex<Done>) -> MutexGuard<'_, Done> {
    done.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Undo {
    /// Starts to watch for signals.
    pub fn watch(state: &Path, file: &Path) -> Result<Self, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let signals = {
            let _inside = runtime.enter();
            Signals {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
                hangup: signal(SignalKind::hangup())?,
            }
        };
        let undo = Self {
            file: file.to_owned(),
            done: Arc::default(),
        };
        let (state, file) = (state.to_owned(), file.to_owned());
        let done = Arc::clone(&undo.done);
        thread::spawn(move || {
            runtime.block_on(signals.any());
            // The lock is kept, so the main thread changes nothing after this.
            let done = lock(&done);
            if !done.kept {
                take_back(&state, &file, &done);
            }
            process::exit(INTERRUPTED);
        });
        Ok(undo)
    }

    /// Writes the file, completely or not at all.
    pub fn write(&self, text: &str, replace: bool) -> Result<(), Failure> {
        let refused = |error: io::Error| wrong(format!("{}: {error}", self.file.display()));
        let mut done = lock(&self.done);
        let folder = match self.file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        if !folder.exists() {
            fs::create_dir(folder).map_err(refused)?;
            done.made = Some(folder.to_owned());
        }
        let mut new = NamedTempFile::new_in(folder).map_err(refused)?;
        new.write_all(text.as_bytes()).map_err(refused)?;
        let readable = fs::Permissions::from_mode(0o644);
        new.as_file().set_permissions(readable).map_err(refused)?;
        new.as_file().sync_all().map_err(refused)?;
        done.before = fs::read(&self.file).ok();
        let written = if replace {
            new.persist(&self.file)
        } else {
            new.persist_noclobber(&self.file)
        };
        written.map_err(|error| refused(error.error))?;
        done.written = true;
        Ok(())
    }

    /// Records that the policy is applied.
    pub fn applied(&self) {
        lock(&self.done).applied = true;
    }

    /// Undoes all changes, unless they stay.
    pub fn undo(&self, state: &Path) {
        let mut done = lock(&self.done);
        if !done.kept {
            take_back(state, &self.file, &done);
            done.kept = true;
        }
    }

    /// Records that all changes stay.
    pub fn keep(&self) {
        lock(&self.done).kept = true;
    }
}
