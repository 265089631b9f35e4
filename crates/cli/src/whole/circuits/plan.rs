// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate circuits plan`.

use super::files;
use super::live::{here, refused};
use std::path::Path;
use weirgate_circuits::kept::Kept;
use weirgate_console::exit::{Outcome, Status};
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;
use weirgate_keep::Circuits;
use weirgate_state::DeviceName;

/// Says what differs on each device.
pub(super) fn plan(state: &Path, lists: &[(DeviceName, Kept)]) -> Outcome {
    in_runtime(async {
        let (folders, kernel) = here(state)?;
        let circuits = Circuits::open(&folders, &kernel).map_err(refused)?;
        let mut status = Status::Done;
        for (name, kept) in lists {
            let told = circuits.plan(name, kept).await.map_err(refused)?;
            if told.is_empty() {
                let list = files::summary(&kept.list);
                output::data(&format!("{name}: nothing to change: {list}"))?;
                continue;
            }
            status = Status::Differs;
            for what in told {
                output::data(&format!("{name}: {what}"))?;
            }
        }
        Ok(status)
    })
}
