// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate circuits plan`.

use super::files::{self, Lists};
use super::live::{here, refused};
use serde_json::json;
use std::path::Path;
use weirgate_console::exit::{Outcome, Status};
use weirgate_console::json::Document;
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;
use weirgate_keep::Circuits;
use weirgate_state::DeviceName;

/// Prints what would change on each device.
pub(super) fn plan(state: &Path, lists: &Lists, document: &Document) -> Outcome {
    let step = |name: &DeviceName, what: String| {
        if document.is_wanted() {
            document.add("steps", json!({ "device": name.as_str(), "text": what }));
            return Ok(());
        }
        output::data(&format!("{name}: {what}"))
    };
    document.put("steps", json!([]));
    in_runtime(async {
        let (folders, kernel) = here(state)?;
        // This answer needs no privilege.
        if lists.0.is_empty() && !Circuits::are_there(&folders) {
            return Ok(Status::Done);
        }
        let _later = output::later();
        let circuits = Circuits::open(&folders, &kernel).map_err(refused)?;
        let mut status = Status::Done;
        for (name, kept) in &lists.0 {
            let told = circuits.plan(name, kept).await.map_err(refused)?;
            if told.is_empty() {
                if !document.is_wanted() {
                    let list = files::summary(&kept.list);
                    output::data(&format!("{name}: nothing to change: {list}"))?;
                }
                continue;
            }
            status = Status::Differs;
            for what in told {
                step(name, what)?;
            }
        }
        for name in files::gone(&circuits, lists).await? {
            status = Status::Differs;
            let what = match circuits.kept(&name).map_err(refused)? {
                Some(kept) => format!("its list is taken away: {}", files::summary(&kept.list)),
                None => "its circuits are removed; no list of them is stored".to_owned(),
            };
            step(&name, what)?;
        }
        Ok(status)
    })
}
