// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate metrics`: prints the kernel's counters once, as text for monitoring systems.

pub mod legend;

use legend::{legend, tracked};
use std::path::Path;
use weirgate_console::exit::{Outcome, Status};
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;
use weirgate_keep::Folders;
use weirgate_watch::{Differ, Looker, Sorter, openmetrics};

/// Reads the counters once, without the classes of connections.
pub fn run(state: &Path, policy: Option<&Path>) -> Outcome {
    in_runtime(async {
        let legend = legend(state, policy, |_, _| Sorter::default())?;
        let mut looker = Looker::open(legend)?;
        if let Ok(folders) = Folders::here(state) {
            looker.set_lines(tracked(&folders));
        }
        let (mut objects, _) = looker.look().await?;
        #[cfg(feature = "whole")]
        if let Ok(folders) = Folders::here(state) {
            let links = crate::whole::links::held(&folders);
            objects.extend(links.iter().map(weirgate_watch::SiteLink::object));
        }
        let changes = Differ::default().step(objects);
        output::data(&openmetrics(&changes, &[]))?;
        Ok(Status::Done)
    })
}
