// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate circuits metrics`: prints OpenMetrics counters of all sites, and of the circuits that
//! sent most.

use super::live;
use std::path::Path;
use weirgate_console::discipline::failed;
use weirgate_console::exit::{Outcome, Status};
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;
use weirgate_keep::{Circuits, CircuitsRefused};
use weirgate_watch::{CircuitsLook, Differ, openmetrics};

/// The most circuits to print. Each takes eight series.
const MOST: usize = 1_000;

/// `weirgate circuits metrics`.
pub(super) fn metrics(state: &Path, devices: &[String], top: usize) -> Outcome {
    in_runtime(async {
        let (folders, kernel) = live::here(state)?;
        let _later = output::later();
        let circuits = Circuits::open(&folders, &kernel).map_err(live::refused)?;
        let mut objects = Vec::new();
        for name in devices {
            let name = live::device(name)?;
            // Fails with a message if the device has no circuits.
            circuits.tree(&name).await.map_err(live::refused)?;
            let index = kernel.device(&name).await?.number();
            let look = CircuitsLook::open(name.as_str(), index).map_err(failed)?;
            let mut look = look.ok_or_else(|| live::refused(CircuitsRefused::None(name)))?;
            look.look();
            objects.extend(look.objects(usize::MAX, top.min(MOST)));
        }
        // One reading gives no rates, and none are needed.
        let changes = Differ::default().step(objects);
        output::lines(&openmetrics(&changes, &[]))?;
        Ok(Status::Done)
    })
}
