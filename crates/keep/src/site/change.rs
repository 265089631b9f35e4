// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes a planned change: guarded, recorded, and undone if it fails.

use super::{Planned, Site};
use crate::clock;
use crate::error::KeepError;
use crate::guard::{self, Charge, Charged, Guard, Left, Starting};
use crate::links::reroute;
use crate::site::links::PlannedLinks;
use crate::store::folder::Lock;
use crate::store::head::Outcome;
use crate::store::history::{Entry, Source};
use crate::store::memory::Memory;
use std::sync::Arc;
use std::time::Duration;
use weirgate_kernel::{Applied, ApplyError, Scope};
use weirgate_state::{Routing, State};

/// What the caller of an apply adds to the plan.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The policy's texts.
    pub sources: Vec<Source>,
    /// The entry to which this change goes back.
    pub from: Option<u64>,
    /// How long the change stays without confirmation; `None` if it needs none.
    pub confirm: Option<Duration>,
    /// Other links, or their removal; without it, links stay unchanged.
    pub links: Option<PlannedLinks>,
}

/// The result of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// How many steps it took.
    pub steps: usize,
    /// The number of its entry.
    pub number: u64,
    /// Whether it waits for confirmation.
    pub unconfirmed: bool,
    /// Whether its guard may end with the session of the command, because it could not be moved
    /// into a unit of its own.
    pub in_session: bool,
}

impl Site {
    /// Makes a planned change and reads it back. The caller has held `lock` since before planning.
    pub async fn apply(
        &self,
        lock: &Lock,
        planned: Planned,
        request: Request,
    ) -> Result<Made, KeepError> {
        let head = self.history.head()?;
        let known = planned.applied();
        let stays = request.confirm.is_none() && request.links.is_none();
        let confirmed = head.confirmed.filter(|_| stays);
        if let (true, Some(number)) = (planned.plan.steps.is_empty(), confirmed)
            && known == Some(&planned.remembered())
            && self.same(number, &request.sources, &planned)
        {
            self.nothing_waits()?;
            let scope = Scope::of([&planned.plan.desired]);
            self.vouch(&scope, &planned.since).await?;
            return Ok(Made {
                steps: 0,
                number,
                unconfirmed: false,
                in_session: false,
            });
        }
        let after = planned.text(&self.folders)?;
        let confirm = request.confirm;
        let rerouted = request.links.as_ref().map_or(0, |links| links.steps.len());
        let made = self.change(lock, &planned, request, Some(&after)).await;
        let (number, in_session) = made?;
        Ok(Made {
            steps: planned.plan.steps.len() + rerouted,
            number,
            unconfirmed: confirm.is_some(),
            in_session,
        })
    }

    /// Removes everything that weirgate made, by the plan of [`Site::plan`] for an empty state. The
    /// removal becomes a history entry without a state, so that it is listed and can be rolled
    /// back. After that nothing is in force, and nothing is restored at boot. Links stay unless
    /// they are changed too.
    pub async fn remove(
        &self,
        lock: &Lock,
        planned: &Planned,
        links: Option<PlannedLinks>,
    ) -> Result<(), KeepError> {
        // Keep the memory unchanged until everything is removed.
        let memory = planned
            .memory
            .as_ref()
            .map(|stored| Arc::clone(&stored.text));
        let request = Request {
            links,
            ..Request::default()
        };
        let made = self.change(lock, planned, request, memory.as_deref());
        let made = made.await;
        made.map(|_| ())
    }

    /// Makes a change under guard. Returns its number, and whether the guard may end with the
    /// session. `after` is the memory's text from before the first step on.
    pub(super) async fn change(
        &self,
        lock: &Lock,
        planned: &Planned,
        request: Request,
        after: Option<&[u8]>,
    ) -> Result<(u64, bool), KeepError> {
        self.nothing_waits()?;
        let plan = &planned.plan;
        let links = request.links;
        let routed = links.as_ref().map(PlannedLinks::former).transpose()?;
        let steps = plan.steps.len() + links.as_ref().map_or(0, |links| links.steps.len());
        let alone = steps == 0 && request.confirm.is_none();
        let lasts = request.confirm.is_some();
        let starting = (!alone).then(|| Guard::start(&self.program, lasts));
        let starting = starting.transpose()?;
        let in_session = starting.as_ref().is_some_and(|one| one.in_session);
        let before = self.history.head()?;
        let entry = Entry {
            number: 0,
            time: clock::unix(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            from: request.from,
            sources: request.sources,
            desired: planned.wanted.clone(),
            former: planned.former.clone(),
            links: match &links {
                Some(other) => other.file.clone(),
                // If the confirmed entry is damaged, its links are lost with it.
                None => self.applied_links(&before).ok().flatten(),
            },
        };
        let ends = entry.is_removal();
        let removal = entry.desired == State::default();
        let entry = self.history.add(lock, entry, &before, &planned.tables)?;
        let number = entry.number;
        let mut head = before;
        head.begin(number, &self.folders.boot);
        if let Some(pending) = &mut head.pending {
            pending.routing = routed;
        }
        self.history.set_head(lock, &head)?;
        let charge = planned.charge(&self.folders, head.clone());
        let routing = links.map(|links| links.wanted);
        let guard = self.make(lock, starting, &charge, planned, routing, after);
        let guard = guard.await?;
        let deadline = request.confirm.map(guard::deadline);
        if let Some(pending) = head.pending.as_mut().filter(|_| lasts) {
            pending.deadline = deadline;
        } else {
            head.settle(number, Outcome::Confirmed);
        }
        if ends {
            head.confirmed = None;
        }
        if removal {
            Memory::write(&self.folders, lock, None)?;
        } else {
            self.remember_answers();
        }
        self.history.set_head(lock, &head)?;
        if let Some(guard) = guard {
            let left = guard.applied(deadline)?;
            self.leave(left).await;
        }
        Ok((number, in_session))
    }

    /// Leaves the slow close of the nf_tables socket to the guard. If that fails, this process
    /// closes it.
    async fn leave(&self, left: Left) {
        if let Ok(socket) = self.kernel.hold().await
            && left.take(&socket).is_ok()
            && let Ok(mut held) = self.left.lock()
        {
            *held = Some(left);
        }
    }

    /// Carries out a plan under guard. If it fails, all files are as before, and the guard is
    /// dismissed.
    async fn make(
        &self,
        lock: &Lock,
        starting: Option<Starting>,
        charge: &Charge,
        planned: &Planned,
        routing: Option<Routing>,
        after: Option<&[u8]>,
    ) -> Result<Option<Guard>, KeepError> {
        let plan = &planned.plan;
        let failed = |error: &KeepError| self.failed(lock, charge, &error.to_string());
        let charged = starting.map(|starting| starting.charge(charge)).transpose();
        let charged = charged.inspect_err(failed)?;
        let guard = charged.map(Charged::ready).transpose();
        let guard = guard.inspect_err(failed)?;
        // Starting the guard may have taken long, so check that this change is still the pending
        // one. If it is not, the memory is already that of another change.
        let found = self.history.head()?;
        if !found.awaits(charge.number()) {
            return Err(KeepError::Fenced(found.generation));
        }
        // Write the memory before anything changes, so that the former state is known whatever
        // happens.
        let written = Memory::write(&self.folders, lock, after);
        written.inspect_err(failed)?;
        let applied = self.execute(planned, routing.as_ref()).await;
        let error = match applied {
            Ok(applied) => {
                // After a complete removal there is no memory, so no version of the tables is
                // recorded.
                if plan.desired != State::default() && planned.wanted != State::default() {
                    self.settled(plan, &applied).await;
                }
                return Ok(guard);
            }
            Err(error) => error,
        };
        let restored = match charge.routing() {
            // The routing was refused, or the policy that came with it: restore the former routing.
            Ok(Some(before)) => reroute(&self.kernel, &before).await.is_ok(),
            Ok(None) => true,
            Err(_) => false,
        };
        let lost = |error: &ApplyError| matches!(error, ApplyError::Lost { .. });
        let lost = matches!(&error, KeepError::Apply(error) if lost(error));
        if lost && error.is_held() {
            // Without a message the guard takes the change back, as soon as it can lock the pins.
            drop(guard);
            return Err(error);
        }
        if restored && !lost {
            self.failed(lock, charge, &error.to_string());
        } else {
            let mut head = charge.head.clone();
            head.settle(charge.number(), Outcome::Lost(error.to_string()));
            // Ignore errors here: the first error is the one to report.
            let _ = self.history.set_head(lock, &head);
        }
        if let Some(guard) = guard {
            guard.dismiss();
        }
        Err(error)
    }

    /// Sets up the routing first, then carries out the plan, because a plan that fails undoes
    /// itself.
    async fn execute(
        &self,
        planned: &Planned,
        routing: Option<&Routing>,
    ) -> Result<Applied, KeepError> {
        if let Some(routing) = routing {
            reroute(&self.kernel, routing).await?;
        }
        Ok(self
            .kernel
            .apply_since(&planned.plan, &planned.since)
            .await?)
    }

    /// Restores head and memory to what they were before a change that failed. If a newer change
    /// was begun, the memory is that of the newer one.
    fn failed(&self, lock: &Lock, charge: &Charge, why: &str) {
        let mut head = charge.head.clone();
        head.settle(charge.number(), Outcome::Failed(why.to_owned()));
        // Ignore errors here: the failure of the change is the one to report.
        match self.history.set_head(lock, &head) {
            Err(KeepError::Fenced(_)) => {}
            _ => {
                let _ = Memory::write(&self.folders, lock, charge.memory.as_deref());
            }
        }
    }

    /// Returns whether an entry has these texts and leads to the planned state.
    fn same(&self, number: u64, sources: &[Source], planned: &Planned) -> bool {
        let wanted = &planned.wanted;
        self.history.is(number, sources, wanted, &planned.tables)
            || self
                .history
                .entry(number)
                .is_ok_and(|entry| entry.sources == sources && entry.desired == *wanted)
    }
}
