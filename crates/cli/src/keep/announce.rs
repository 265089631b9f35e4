// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate announce`: announces a session of high priority while a program runs.

use crate::policy::apply::refused;
use anyhow::Context as _;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;
use weirgate_keep::Folders;

/// Announces the session, runs the program or waits, and ends the session.
pub fn run(state: &Path, program: &[OsString]) -> Outcome {
    in_runtime(async {
        let folders = Folders::here(state).map_err(refused)?;
        let mut session = announce(&folders).await?;
        let Some((name, arguments)) = program.split_first() else {
            return wait(&mut session).await;
        };
        let status = Command::new(name).args(arguments).status();
        let status = status.with_context(|| format!("{}", name.display()))?;
        drop(session);
        Ok(if status.success() {
            Status::Done
        } else {
            Status::Differs
        })
    })
}

/// Connects to the service. The session lasts until the stream is dropped.
async fn announce(folders: &Folders) -> Result<BufReader<UnixStream>, Failure> {
    let path = folders.announcements();
    let stream = UnixStream::connect(&path)
        .await
        .with_context(|| format!("{}: no `weirgate keep` listens there", path.display()))?;
    let mut stream = BufReader::new(stream);
    let mut answer = String::new();
    stream.read_line(&mut answer).await?;
    match answer.trim_end() {
        "ok" => Ok(stream),
        "" => Err(Failure::Refused("`weirgate keep` has ended".to_owned())),
        no => Err(Failure::Refused(format!("not announced: {no}"))),
    }
}

/// Waits for SIGTERM, SIGINT or the end of the service.
async fn wait(session: &mut BufReader<UnixStream>) -> Outcome {
    output::note("weirgate: announced, until this ends");
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    let mut more = String::new();
    tokio::select! {
        _ = term.recv() => Ok(Status::Done),
        _ = int.recv() => Ok(Status::Done),
        _ = session.read_line(&mut more) => {
            Err(Failure::Refused("`weirgate keep` has ended".to_owned()))
        }
    }
}
