// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that run in the laboratory's machine, and the namespaces that they run in.

use anyhow::{Context, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::thread;

/// What a process left.
pub struct Done {
    /// `None` where a signal ended it.
    pub status: Option<i32>,
    pub output: String,
    pub error: String,
}

impl Done {
    /// The first line that says why it ended as it did.
    pub fn message(&self) -> String {
        let lines = self.error.lines().chain(self.output.lines());
        let line = lines
            .map(str::trim)
            .find(|line| !line.is_empty() && !line.starts_with("Usage"));
        line.unwrap_or("it ends otherwise than expected").to_owned()
    }
}

/// Runs a program in the namespace of this thread; not in the root, which it may fill.
///
/// # Errors
///
/// Where it cannot be started.
pub fn direct(words: &[&str]) -> Result<Done> {
    in_folder("/tmp", words)
}

/// The same in another folder.
///
/// # Errors
///
/// Where it cannot be started.
pub fn in_folder(folder: &str, words: &[&str]) -> Result<Done> {
    let output = Command::new(words[0])
        .args(&words[1..])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .with_context(|| words.join(" "))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Done {
        status: output.status.code(),
        output: text(&output.stdout),
        error: text(&output.stderr),
    })
}

/// Does something on a thread in a named namespace, which what it starts inherits.
///
/// # Errors
///
/// Where there is no such namespace, and whatever `what` says.
pub fn within<T: Send>(namespace: &str, what: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let place = format!("/run/netns/{namespace}");
    let file = File::open(&place).context(place)?;
    thread::scope(|scope| {
        let there = scope.spawn(|| {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(file.as_fd(), kind)?;
            what()
        });
        let failed = || anyhow::anyhow!("the thread in {namespace} failed");
        there.join().map_err(|_| failed())?
    })
}
