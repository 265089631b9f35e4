// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists of circuits that are undone unless they are confirmed.

use super::files::{self, Lists};
use super::live::{here, refused, say_done, summary};
use crate::policy::apply::in_session;
use std::path::Path;
use std::time::Duration;
use weirgate_console::exit::{Outcome, Status};
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;
use weirgate_keep::{Circuits, Guarded};
use weirgate_state::DeviceName;

/// `weirgate circuits apply --confirm`, and `remove DEVICE --all --confirm`.
pub(super) fn apply(
    state: &Path,
    lists: Lists,
    taken: Option<DeviceName>,
    adopt: bool,
    after: Duration,
) -> Outcome {
    in_runtime(async {
        let (folders, kernel) = here(state)?;
        let circuits = Circuits::open(&folders, &kernel).map_err(refused)?;
        let mut gone = files::gone(&circuits, &lists).await?;
        gone.extend(taken);
        let (lists, _) = lists;
        if lists.is_empty() && gone.is_empty() {
            output::note("no device has circuits: nothing to change");
            return Ok(Status::Done);
        }
        let guarded = Guarded {
            // The guard must run the same program as this process, even if its file was replaced.
            program: Path::new("/proc/self/exe"),
            state,
            after,
        };
        let told: Vec<String> = lists
            .iter()
            .map(|(_, kept)| files::summary(&kept.list))
            .collect();
        let applied = circuits.apply_until((lists, &gone), adopt, guarded).await;
        let (all, stays) = applied.map_err(refused)?;
        for ((name, done), list) in all.iter().zip(told) {
            say_done(&kernel, name, done).await?;
            output::note(&format!("{name}: {list}; {}", summary(&done.change)));
        }
        for name in &gone {
            output::note(&format!("{name}: its list is taken away"));
        }
        output::note(&format!(
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

/// `weirgate circuits confirm`.
pub(super) fn confirm(state: &Path) -> Outcome {
    in_runtime(async {
        let (folders, kernel) = here(state)?;
        let circuits = Circuits::open(&folders, &kernel).map_err(refused)?;
        let devices = circuits.confirm().await.map_err(refused)?;
        output::note(&format!("{}: the list is confirmed", names(&devices)));
        Ok(Status::Done)
    })
}

/// `weirgate circuits rollback`.
pub(super) fn rollback(state: &Path, waiting: bool) -> Outcome {
    in_runtime(async {
        let (folders, kernel) = here(state)?;
        let circuits = Circuits::open(&folders, &kernel).map_err(refused)?;
        let devices = circuits.take_back(!waiting).await.map_err(refused)?;
        if devices.is_empty() {
            output::note(if waiting {
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
        output::note(&format!("{}: the list is taken back", names(&devices)));
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
