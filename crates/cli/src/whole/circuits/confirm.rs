// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists of circuits that are undone unless they are confirmed.

use super::files::{self, Lists};
use super::live::{self, here, refused, say_done, summary};
use crate::policy::apply::in_session;
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use weirgate_console::exit::{Outcome, Status};
use weirgate_console::json::Document;
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;
use weirgate_keep::{Circuits, Guarded};
use weirgate_state::DeviceName;

/// `weirgate circuits apply --confirm`, and `remove DEVICE --all --confirm`.
pub(super) fn apply(
    state: &Path,
    (lists, taken): (Lists, Option<DeviceName>),
    adopt: bool,
    after: Duration,
    document: &Document,
) -> Outcome {
    in_runtime(async {
        let (folders, kernel) = here(state)?;
        let _later = output::later();
        let circuits = Circuits::open(&folders, &kernel).map_err(refused)?;
        let mut gone = files::gone(&circuits, &lists).await?;
        gone.extend(taken);
        let (lists, _) = lists;
        if lists.is_empty() && gone.is_empty() {
            document.put("changes", json!([]));
            document.note("no device has circuits: nothing to change");
            return Ok(Status::Done);
        }
        let guarded = Guarded {
            // The guard must run the same program as this process, even if its file was replaced.
            program: Path::new("/proc/self/exe"),
            state,
            after,
        };
        let told = lists.iter().map(|(_, kept)| &kept.list);
        let told: Vec<_> = told
            .map(|list| {
                let counts = document.is_wanted().then(|| files::counts(list));
                (files::summary(list), counts)
            })
            .collect();
        let applied = circuits.apply_until((lists, &gone), adopt, guarded).await;
        let (all, stays) = applied.map_err(refused)?;
        for ((name, done), (list, counts)) in all.iter().zip(told) {
            say_done(&kernel, name, done).await?;
            live::put_list(document, name, counts, &done.change);
            document.note(&format!("{name}: {list}; {}", summary(&done.change)));
        }
        for name in &gone {
            live::gone(name, document);
            document.note(&format!("{name}: its list is taken away"));
        }
        document.put("returns_s", after.as_secs_f64().into());
        document.note(&format!(
            "the former lists return in {} s unless you run `weirgate circuits confirm`",
            after.as_secs_f64()
        ));
        if stays {
            in_session();
        }
        Ok(Status::Done)
    })
}

fn names(devices: &[DeviceName]) -> String {
    let names: Vec<&str> = devices.iter().map(DeviceName::as_str).collect();
    names.join(", ")
}

fn put_names(devices: &[DeviceName], document: &Document) {
    let names = devices.iter().map(DeviceName::as_str);
    document.put("devices", names.collect());
}

/// `weirgate circuits confirm`.
pub(super) fn confirm(state: &Path, document: &Document) -> Outcome {
    in_runtime(async {
        let (folders, kernel) = here(state)?;
        let _later = output::later();
        let circuits = Circuits::open(&folders, &kernel).map_err(refused)?;
        let devices = circuits.confirm().await.map_err(refused)?;
        put_names(&devices, document);
        document.note(&format!("{}: the list is confirmed", names(&devices)));
        Ok(Status::Done)
    })
}

/// `weirgate circuits rollback`.
pub(super) fn rollback(state: &Path, waiting: bool, document: &Document) -> Outcome {
    in_runtime(async {
        let (folders, kernel) = here(state)?;
        let _later = output::later();
        let circuits = Circuits::open(&folders, &kernel).map_err(refused)?;
        let devices = circuits.take_back(!waiting).await.map_err(refused)?;
        put_names(&devices, document);
        if devices.is_empty() {
            document.note(if waiting {
                "nothing waits for confirmation"
            } else {
                "there is no former list to go back to"
            });
            return Ok(if waiting {
                Status::Done
            } else {
                Status::Differs
            });
        }
        document.note(&format!("{}: the list is taken back", names(&devices)));
        Ok(Status::Done)
    })
}

/// `weirgate circuits guard`.
pub(super) fn guard(state: &Path, deadline: u64) -> Outcome {
    in_runtime(async {
        let (folders, kernel) = here(state)?;
        let kept = Circuits::guard(&folders, &kernel, deadline).await;
        kept.map_err(refused)?;
        Ok(Status::Done)
    })
}
