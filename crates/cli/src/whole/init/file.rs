// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The policy's file, which a signal takes back together with what was applied.

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
use weirgate_console::output;

/// The exit status of a program that SIGINT ended, as shells have it.
const INTERRUPTED: i32 = 130;

/// What there is to take back.
#[derive(Debug, Default)]
struct Done {
    /// The file was written.
    written: bool,
    /// What it had before, where it was there.
    before: Option<Vec<u8>>,
    /// The folder was made for it.
    made: Option<PathBuf>,
    /// What it says is in force, and waits to be confirmed.
    applied: bool,
    /// All of it is to stay.
    kept: bool,
}

/// Takes everything back where SIGINT, SIGTERM or SIGHUP comes before
/// [`Undo::keep`].
pub struct Undo {
    file: PathBuf,
    done: Arc<Mutex<Done>>,
}

/// Signals that end a program.
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

/// Puts back what was there. What is being applied right now, its guard takes
/// back when this process is gone.
fn take_back(state: &Path, file: &Path, done: &Done) {
    if done.applied
        && let Err(failure) = change::take_back(state)
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
    /// Begins to watch for signals.
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
            // Nothing more is done from here on, because the lock is kept.
            let done = lock(&done);
            if !done.kept {
                take_back(&state, &file, &done);
            }
            process::exit(INTERRUPTED);
        });
        Ok(undo)
    }

    /// Writes the file, whole or not at all.
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

    /// What the file says is in force from now on.
    pub fn applied(&self) {
        lock(&self.done).applied = true;
    }

    /// From now on nothing is taken back.
    pub fn keep(&self) {
        lock(&self.done).kept = true;
    }
}
