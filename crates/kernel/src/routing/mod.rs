// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Policy routing over several links: observes it, changes it and reads it back.
//!
//! Rules and routes are weirgate's if they have [`PROTOCOL`] and are in weirgate's range of
//! priorities and tables. Nothing else is read, changed or removed.

mod marks;
mod message;
pub(crate) mod path;

use crate::Kernel;
use crate::error::{KernelError, Refusal};
use crate::link;
use crate::netlink::channel::Request;
use crate::nft;
use crate::nft::encode::transaction;
use libc::{AF_INET, AF_INET6, EAFNOSUPPORT, EEXIST, ENOENT, ESRCH, RTM_GETROUTE, RTM_GETRULE};
use message::Names;
use std::collections::BTreeMap;
use weirgate_plan::{RoutingStep, plan_routing};
use weirgate_state::{DeviceName, MARKS_TABLE, Origin, Routing};
use weirgate_units::Inserted as _;

impl Kernel {
    /// Returns all of weirgate's routing. Reading rules and routes needs no privilege.
    pub async fn routing(&self) -> Result<Routing, KernelError> {
        let names = self.names().await?;
        let mut routing = Routing {
            marks: self.marking().await?,
            ..Routing::default()
        };
        for family in [AF_INET, AF_INET6] {
            let ask = message::asking(RTM_GETRULE, family);
            let rules = match self.route.get(&ask, "listing routing rules", false).await {
                // A kernel without rules for IPv6 (`fib_nl_dumprule`, net/core/fib_rules.c).
                Err(KernelError::Refused(refusal)) if refusal.errno == EAFNOSUPPORT => Vec::new(),
                rules => rules?,
            };
            let own = rules.iter().filter_map(|payload| message::rule(payload));
            routing.rules.extend(own);
            let ask = message::asking(RTM_GETROUTE, family);
            let routes = self.route.get(&ask, "listing routes", false).await?;
            let own = routes
                .iter()
                .filter_map(|payload| message::route(payload, &names));
            routing.routes.extend(own);
        }
        Ok(routing)
    }

    /// Sets up the wanted routing, reads it back, and returns the number of steps. If a step is
    /// refused or the result differs, it restores the former routing as far as possible, and
    /// returns the error.
    ///
    /// # Errors
    /// [`KernelError::Refused`] for a step, [`KernelError::Unsteady`] if the result differs.
    pub async fn set_routing(&self, wanted: &Routing) -> Result<usize, KernelError> {
        let before = self.routing().await?;
        let steps = plan_routing(&before, wanted);
        let done = self.attempt_routing(&steps, wanted).await;
        // Ignore errors here: the first error is the one to report.
        if done.is_err()
            && let Ok(now) = self.routing().await
        {
            let back = plan_routing(&now, &before);
            let _ = self.attempt_routing(&back, &before).await;
        }
        done.map(|()| steps.len())
    }

    async fn attempt_routing(
        &self,
        steps: &[RoutingStep],
        wanted: &Routing,
    ) -> Result<(), KernelError> {
        if steps.is_empty() {
            return Ok(());
        }
        self.execute_routing(steps).await?;
        if self.routing().await? == *wanted {
            return Ok(());
        }
        Err(KernelError::Unsteady {
            what: "routing over several links".to_owned(),
        })
    }

    /// Carries out steps; consecutive rules and routes are sent in one call.
    async fn execute_routing(&self, steps: &[RoutingStep]) -> Result<(), KernelError> {
        let names = self.names().await?;
        let index: BTreeMap<&DeviceName, u32> =
            names.iter().map(|(index, name)| (name, *index)).inserted();
        let mut batch: Vec<Request> = Vec::new();
        for step in steps {
            let message = match step {
                RoutingStep::SetRoute(route) | RoutingStep::RemoveRoute(route) => {
                    let Some(index) = index.get(&route.device) else {
                        // The kernel has removed the routes of a device that is gone.
                        if matches!(step, RoutingStep::RemoveRoute(_)) {
                            continue;
                        }
                        return Err(KernelError::NoDevice(route.device.to_string()));
                    };
                    message::change_route(route, *index, matches!(step, RoutingStep::SetRoute(_)))
                }
                RoutingStep::AddRule(rule) => message::change_rule(rule, true),
                RoutingStep::RemoveRule(rule) => message::change_rule(rule, false),
                RoutingStep::SetMarks(marking) => {
                    self.send_routing(std::mem::take(&mut batch)).await?;
                    self.nft.batch(transaction(marks::set(marking))).await?;
                    continue;
                }
                RoutingStep::RemoveMarks => {
                    self.send_routing(std::mem::take(&mut batch)).await?;
                    let request = nft::encode::delete(false, MARKS_TABLE);
                    self.nft.batch(transaction(vec![request])).await?;
                    continue;
                }
            };
            batch.push(Request {
                message,
                object: step.to_string(),
                origin: Origin::default(),
                frame: false,
            });
        }
        self.send_routing(batch).await
    }

    /// Sends requests. It ignores that something exists already or is gone already, because devices
    /// take their routes with them at any time; the caller reads the result back.
    async fn send_routing(&self, batch: Vec<Request>) -> Result<(), KernelError> {
        let harmless = |refusal: &Refusal| [EEXIST, ENOENT, ESRCH].contains(&refusal.errno);
        let refused = self.route.each(batch).await?;
        match refused.into_iter().find(|refusal| !harmless(refusal)) {
            Some(refusal) => Err(KernelError::Refused(refusal)),
            None => Ok(()),
        }
    }

    async fn names(&self) -> Result<Names, KernelError> {
        let what = "listing network devices";
        let links = self.route.get(&link::list(), what, false).await?;
        let read = links.iter().filter_map(|payload| link::read(payload));
        Ok(read.map(|link| (link.index, link.name)).inserted())
    }
}
