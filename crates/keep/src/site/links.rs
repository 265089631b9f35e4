// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several links as part of the applied state. A change of links is guarded, recorded, confirmed
//! and rolled back like a policy's; its history entry repeats the policy of the entry before.
//!
//! The routing itself is in no entry, because it changes with the health of links. A pending change
//! stores the routing that it replaced.

use super::{Made, Planned, Request, Site};
use crate::error::KeepError;
use crate::links::{self, usable};
use crate::store::folder::Lock;
use crate::store::head::Head;
use crate::store::history::{Entry, Source};
use crate::store::memory::Memory;
use crate::store::table_text;
use std::sync::Arc;
use std::time::Duration;
use weirgate_kernel::Since;
use weirgate_links::{Links, routing};
use weirgate_plan::{Plan, RoutingStep, plan_routing};
use weirgate_state::{Routing, State};

/// A change of links that is planned but not made.
#[derive(Debug, Clone)]
pub struct PlannedLinks {
    /// The steps.
    pub steps: Vec<RoutingStep>,
    /// The new file of links; `None` if links are removed.
    pub(super) file: Option<Source>,
    /// The present routing.
    pub(super) before: Routing,
    /// The wanted routing.
    pub(super) wanted: Routing,
}

impl PlannedLinks {
    /// Returns the present routing in the form in which it is stored. Fails if it could not be
    /// restored from that.
    pub(super) fn former(&self) -> Result<Vec<String>, KeepError> {
        let lines = self.before.lines();
        let read = Routing::of_lines(&lines);
        if read.as_ref() == Some(&self.before) {
            Ok(lines)
        } else {
            Err(KeepError::NotRestorable)
        }
    }
}

impl Site {
    /// Plans the routing over all links that have a device and a route, and that no service found
    /// dead. Without links, all of it is removed.
    pub async fn plan_links(
        &self,
        links: Option<(&Links, Source)>,
    ) -> Result<PlannedLinks, KeepError> {
        let before = self.kernel.routing().await?;
        let (file, wanted) = match links {
            Some((links, file)) => {
                let (up, paths) = usable(links, &self.folders, &self.kernel).await?;
                (Some(file), routing(links, &up, &paths))
            }
            None => (None, Routing::default()),
        };
        Ok(PlannedLinks {
            steps: plan_routing(&before, &wanted),
            file,
            before,
            wanted,
        })
    }

    /// Returns the change that leads to the links of an entry; `None` if they are the present ones.
    pub async fn plan_links_of(&self, entry: &Entry) -> Result<Option<PlannedLinks>, KeepError> {
        if self.has_links(&self.history.head()?, entry.links.as_ref())? {
            return Ok(None);
        }
        let read = entry.links.as_ref().map(links::read).transpose()?;
        let planned = self.plan_links(read.as_ref().zip(entry.links.clone()));
        Ok(Some(planned.await?))
    }

    /// Makes a planned change of links and reads it back, while the policy stays. The caller has
    /// held `lock` since before planning.
    pub async fn apply_links(
        &self,
        lock: &Lock,
        planned: PlannedLinks,
        confirm: Option<Duration>,
    ) -> Result<Made, KeepError> {
        let head = self.history.head()?;
        let steps = planned.steps.len();
        let same = steps == 0 && self.has_links(&head, planned.file.as_ref())?;
        if same && confirm.is_none() {
            self.nothing_waits()?;
            return Ok(Made {
                steps,
                number: head.confirmed.unwrap_or(0),
                unconfirmed: false,
                in_session: false,
            });
        }
        let (still, sources) = self.still()?;
        let request = Request {
            sources,
            from: None,
            confirm,
            links: Some(planned),
        };
        let memory = still.memory.as_ref().map(|stored| Arc::clone(&stored.text));
        let made = self.change(lock, &still, request, memory.as_deref()).await;
        let (number, in_session) = made?;
        Ok(Made {
            steps,
            number,
            unconfirmed: confirm.is_some(),
            in_session,
        })
    }

    /// Prevents services from running links as long as the lock is held.
    ///
    /// # Errors
    /// [`KeepError::Held`] if a service runs them already.
    pub async fn links_unheld(&self) -> Result<Lock, KeepError> {
        self.folders.lock_held_soon("links").await
    }

    /// Returns whether this is the links file of the confirmed entry; false if that entry is
    /// damaged.
    fn has_links(&self, head: &Head, file: Option<&Source>) -> Result<bool, KeepError> {
        match self.applied_links(head) {
            Err(error) if error.is_loss() => Ok(false),
            applied => Ok(applied?.as_ref() == file),
        }
    }

    /// Returns the links file of the confirmed entry.
    pub(super) fn applied_links(&self, head: &Head) -> Result<Option<Source>, KeepError> {
        let confirmed = head.confirmed.map(|number| self.history.links(number));
        Ok(confirmed.transpose()?.flatten())
    }

    /// Returns a plan that leaves the confirmed policy unchanged, and the texts of that policy.
    fn still(&self) -> Result<(Planned, Vec<Source>), KeepError> {
        let (wanted, former, sources) = match self.confirmed()? {
            Some(entry) => (entry.desired, entry.former, entry.sources),
            None => (State::default(), State::default(), Vec::new()),
        };
        let tables = table_text::of(&wanted.tables).map_err(|error| KeepError::File {
            path: self.folders.run.clone(),
            source: error.into(),
        })?;
        let planned = Planned {
            plan: Plan {
                steps: Vec::new(),
                before: State::default(),
                desired: State::default(),
            },
            memory: Memory::read_knowing(&self.folders, &wanted.tables, &tables)?,
            wanted,
            former,
            since: Since::default(),
            left: Vec::new(),
            tables,
        };
        Ok((planned, sources))
    }
}
