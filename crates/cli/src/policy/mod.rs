// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands on a policy: check, export, apply and all that follows.

pub mod apply;
pub mod change;
pub mod check;
pub mod import;
pub mod plan;
pub mod rules;
pub mod schema;
pub mod show;

use std::path::Path;
use weirgate_bpf::most_capabilities;
use weirgate_compile::{CheckReport, check_report_for, check_waits_for};
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::output;
use weirgate_console::policy::read;
use weirgate_console::source;
use weirgate_keep::KeepError;
use weirgate_policy::Policy;

/// Returns what a policy promises on a kernel that has all capabilities of this program.
pub fn promises(policy: &Policy) -> CheckReport {
    check_report_for(policy, &most_capabilities())
}

/// Returns the same without the derivations of waits.
pub fn waits(policy: &Policy) -> CheckReport {
    check_waits_for(policy, &most_capabilities())
}

/// `weirgate export --uci`: checks a policy and writes it as OpenWrt's configuration.
pub fn export_uci(path: &Path) -> Outcome {
    read(path)?;
    let file = weirgate_uci::of_policy(&source::read(path)?, true)
        .map_err(|error| Failure::Input(format!("weirgate: {}: {error}", path.display())))?;
    output::data(&file)?;
    Ok(Status::Done)
}

/// `weirgate export`: writes the script for a kernel with all capabilities.
pub fn export(path: &Path) -> Outcome {
    let state = read(path)?.compile(&most_capabilities())?;
    let named =
        |set: &&weirgate_state::Set| matches!(set.content, weirgate_state::Content::Refreshed(_));
    for set in state
        .tables
        .iter()
        .flat_map(|table| &table.sets)
        .filter(named)
    {
        let why = match set.key.followed() {
            Some(what) => format!("follows no {what}"),
            None => "does not look up DNS names".to_owned(),
        };
        output::note(&format!(
            "weirgate: warning: this differs from the policy: the set {} is empty: a script {why}",
            set.name
        ));
    }
    let export = weirgate_plan::export(&state)
        .map_err(|problems| apply::refused(KeepError::NoPlan(problems)))?;
    for one in &export.inexact {
        output::note(&format!(
            "weirgate: warning: this differs from the policy: {one}"
        ));
    }
    output::data(&export.script)?;
    Ok(Status::Done)
}
