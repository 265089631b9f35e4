// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engine of rows in a plan: loaded for its device when a step needs it, configured through its
//! maps, and unloaded when the device no longer has it.

use crate::Kernel;
use crate::error::KernelError;
use crate::namespace::within;
use crate::netlink::channel::Request;
use crate::programs::pins;
use crate::tc::decode::Entry;
use crate::tc::encode;
use std::path::Path;
use weirgate_bpf::{AttachPoint, BpfError, RowTree, Store};
use weirgate_plan::{Action, Step};
use weirgate_state::{DeviceName, QdiscKind, Rows};

/// Returns the tree of a step, and its device.
pub(crate) fn of_step(action: &Action) -> Option<(&DeviceName, &Rows)> {
    let (Action::AddQdisc { device, qdisc, .. }
    | Action::ReplaceQdisc { device, qdisc, .. }
    | Action::ChangeQdisc { device, qdisc, .. }) = action
    else {
        return None;
    };
    match &qdisc.kind {
        QdiscKind::Rows(rows) => Some((device, rows)),
        _ => None,
    }
}

fn failed(object: impl Into<String>) -> impl FnOnce(BpfError) -> KernelError {
    let object = object.into();
    move |source| KernelError::Kit { object, source }
}

impl Kernel {
    /// Loads the engine for a device if necessary, and configures its tree. Returns the request
    /// that puts it on the device, if it is not there yet.
    pub(crate) async fn set_rows(
        &self,
        step: &Step,
        device: u32,
        rows: &Rows,
    ) -> Result<Vec<Request>, KernelError> {
        let point = self.point(device).await?;
        // The program that distinguishes hosts looks connections up in conntrack.
        if rows.hosts.is_some() {
            self.load_tracking().await;
        }
        let store = pins::store().await;
        let store = store.map_err(failed(step.action.to_string()))?;
        let configured = within(self.netns.as_ref(), || store.set_rows(point, rows));
        let configured = configured.map_err(BpfError::Namespace).flatten();
        configured.map_err(failed(step.action.to_string()))?;
        let kind = RowTree::kind(point);
        let message = match &step.action {
            Action::AddQdisc { parent, qdisc, .. } => {
                encode::add_of_kind(device, *parent, qdisc, &kind)
            }
            Action::ReplaceQdisc { parent, qdisc, .. } => {
                encode::replace_of_kind(device, *parent, qdisc, &kind)
            }
            _ => return Ok(Vec::new()),
        };
        Ok(vec![Request {
            message,
            object: step.action.to_string(),
            origin: step.origin.clone(),
            frame: false,
        }])
    }

    /// Returns the engine at a device's root, with its configuration; `None` if there is none, or
    /// this process may not read it. If its pins are gone or its configuration is impossible, only
    /// its kind is returned: it is still weirgate's, but has to be replaced.
    pub(crate) async fn read_rows(
        &self,
        device: u32,
        kind: &QdiscKind,
    ) -> Result<Option<QdiscKind>, KernelError> {
        if !kind.name().starts_with(RowTree::KIND) {
            return Ok(None);
        }
        let point = self.point(device).await.ok();
        let Some(point) = point.filter(|point| kind.name() == RowTree::kind(*point)) else {
            return Ok(None);
        };
        let configured = match Path::new(Store::ROWS_FOLDER).try_exists() {
            Ok(true) => {
                let store = pins::readable(Rows::KIND).await?;
                store.and_then(|store| store.configured_rows(point).ok())
            }
            found => found.ok().map(|_| None),
        };
        let other = || QdiscKind::Other(Rows::KIND.to_owned());
        Ok(configured.map(|rows| rows.map_or_else(other, QdiscKind::Rows)))
    }

    /// Unloads the engines whose devices, in this namespace, no longer have them.
    pub(crate) async fn tidy_rows(&self) -> Result<(), KernelError> {
        if !Path::new(Store::ROWS_FOLDER).exists() {
            return Ok(());
        }
        let own = self.point(0).await?.netns;
        let qdiscs = self.qdiscs().await?;
        let there = |point: &AttachPoint| {
            let kind = RowTree::kind(*point);
            let mut entries = qdiscs.iter().filter_map(|payload| Entry::of(payload));
            entries.any(|entry| entry.ifindex == point.ifindex && entry.kind == kind)
        };
        let tidied = pins::store().await.and_then(|store| {
            let points = store.rows_of(own).into_iter();
            points
                .filter(|point| !there(point))
                .try_for_each(|point| store.remove_rows(point))
        });
        tidied.map_err(failed(format!("unload {}", Rows::KIND)))
    }
}
