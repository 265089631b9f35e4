// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate pods`: gives each pod of a node a rate.

use crate::keep::{pulse, ready};
use crate::policy::apply::refused;
use serde_json::json;
use std::path::{Path, PathBuf};
use tokio::signal::unix::{SignalKind, signal};
use weirgate_console::exit::{Outcome, Status};
use weirgate_console::json::{Document, documented};
use weirgate_console::policy::LocatedProblem;
use weirgate_console::runtime::in_runtime;
use weirgate_keep::{Folders, PodReport, hold_pods};

/// What is wrong with a file whose name is none of a device.
const NO_NAME: &str = "no device can have this name";

#[derive(clap::Args)]
pub struct Arguments {
    /// The folder.
    #[arg(default_value = "/run/weirgate/pods")]
    folder: PathBuf,
    /// Set up all devices once as the folder says, and exit.
    ///
    /// Exit status 1 if something is wrong with a file or a device.
    #[arg(long)]
    once: bool,
    /// Print one JSON document.
    #[arg(long, requires = "once")]
    json: bool,
}

/// Sets up the devices of the folder and follows its changes.
pub fn run(state: &Path, arguments: &Arguments) -> Outcome {
    documented(arguments.json, |document| held(state, arguments, document))
}

fn held(state: &Path, arguments: &Arguments, document: &Document) -> Outcome {
    let folders = Folders::here(state).map_err(refused)?;
    in_runtime(async {
        let mut term = signal(SignalKind::terminate())?;
        let mut int = signal(SignalKind::interrupt())?;
        let stop = async move {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
        };
        let mut status = Status::Done;
        let (folder, once) = (&arguments.folder, arguments.once);
        let ended = hold_pods(&folders, folder, once, stop, ready, pulse(), |report| {
            if !matches!(report, PodReport::Set(..) | PodReport::Removed(_)) {
                status = Status::Differs;
            }
            add(&report, document);
            document.note(&line(&report));
        });
        ended.await.map_err(refused)?;
        Ok(if once { status } else { Status::Done })
    })
}

/// Adds a report to the document.
fn add(report: &PodReport, document: &Document) {
    match report {
        PodReport::Set(name, pod) => {
            let rate = pod.rate.as_bits_per_second();
            let rtt = pod.rtt.as_nanos() / 1_000;
            document.add(
                "set",
                json!({"device": name, "rate_bit_s": rate, "rtt_us": rtt}),
            );
        }
        PodReport::Removed(name) => document.add("removed", json!({"device": name})),
        PodReport::Wrong {
            path,
            text,
            problems,
        } => {
            let file = path.display().to_string();
            for problem in problems {
                let located = LocatedProblem::new(&file, problem.line_column(text), problem);
                document.add("problems", json!(located));
            }
        }
        PodReport::Unread(path, why) => {
            document.add("failed", json!({"file": path, "why": why.to_string()}));
        }
        PodReport::NoName(path) => {
            document.add("failed", json!({"file": path, "why": NO_NAME}));
        }
        PodReport::Refused(name, why) => {
            document.add("failed", json!({"device": name, "why": why}));
        }
    }
}

fn line(report: &PodReport) -> String {
    match report {
        PodReport::Set(name, pod) => format!("weirgate: {name}: {}", pod.rate),
        PodReport::Removed(name) => format!("weirgate: {name}: its rate is removed"),
        PodReport::Wrong {
            path,
            text,
            problems,
        } => {
            let file = path.display().to_string();
            let shown = problems.iter().map(|problem| problem.render(&file, text));
            shown.collect::<Vec<_>>().join("\n")
        }
        PodReport::Unread(path, error) => format!("weirgate: {}: {error}", path.display()),
        PodReport::NoName(path) => {
            format!("weirgate: {}: {NO_NAME}", path.display())
        }
        PodReport::Refused(name, why) => format!("weirgate: {name}: {why}"),
    }
}
