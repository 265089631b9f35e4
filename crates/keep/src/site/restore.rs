// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Applies the confirmed state, as far as its devices exist.

use super::Site;
use crate::circuits::{Circuits, CircuitsRefused, Held, Meters};
use crate::clock;
use crate::error::KeepError;
use crate::guard;
use crate::routing::reroute;
use crate::store::folder::Lock;
use crate::store::head::{Head, Outcome, Pending};
use crate::store::history::Entry;
use crate::store::memory::{self, Memory};
use weirgate_kernel::Scope;
use weirgate_plan::{present, verify};
use weirgate_state::{QdiscKind, State};
use weirgate_units::Inserted as _;

impl Site {
    /// Applies the confirmed state, as far as its devices exist, and returns how many steps it
    /// took. The history only gets the end of a change that nobody confirmed.
    ///
    /// It runs at boot and after a crash of the machine.
    pub async fn restore(&self, lock: &Lock) -> Result<usize, KeepError> {
        self.restore_and(lock, Pending::lapsed).await
    }

    /// The same; what is pending ends like this.
    pub(super) async fn restore_and(
        &self,
        lock: &Lock,
        outcome: impl FnOnce(&Pending) -> Outcome,
    ) -> Result<usize, KeepError> {
        let mut head = self.history.head()?;
        if head.recall(&self.folders.boot, clock::now()) {
            self.history.set_head(lock, &head)?;
        }
        let interrupted = head.pending.clone();
        let policy = self.policy_back(lock, &mut head, interrupted.as_ref());
        let policy = policy.await;
        // What keeps the policy from coming back keeps nothing from the links.
        let links = match &interrupted {
            Some(pending) => self.links_back(pending).await,
            None => Ok(0),
        };
        let steps = policy? + links?;
        if let Some(pending) = interrupted {
            head.settle(pending.number, outcome(&pending));
            self.history.set_head(lock, &head)?;
            guard::relieve(&self.folders, pending.number);
        }
        Ok(steps)
    }

    /// Brings the policy of the confirmed entry back, or of what serves in its place.
    async fn policy_back(
        &self,
        lock: &Lock,
        head: &mut Head,
        interrupted: Option<&Pending>,
    ) -> Result<usize, KeepError> {
        let (confirmed, is_damaged) = self.confirmed_by(head)?;
        // Written first: the memory is never of another entry than the head says.
        let is_whole = match confirmed.as_ref().filter(|_| is_damaged) {
            Some(entry) => self.history.go_on_with(lock, head, entry)?,
            None => true,
        };
        match (confirmed, interrupted) {
            // Links alone: without a policy there is nothing to remember.
            (Some(entry), _) if self.has_policy(&entry)? => {
                self.follow(lock, &self.at_rates(&entry), is_whole).await
            }
            (_, Some(pending)) => self.give_up(lock, pending).await,
            (_, None) => Ok(0),
        }
    }

    /// Brings what routed over several links before an interrupted change back. A kernel that
    /// started again has nothing of it.
    async fn links_back(&self, pending: &Pending) -> Result<usize, KeepError> {
        if pending.boot != self.folders.boot {
            return Ok(0);
        }
        match pending.former_routing()? {
            Some(routing) => reroute(&self.kernel, &routing).await,
            None => Ok(0),
        }
    }

    /// Brings the circuits that are kept into force where they are not, on the devices
    /// that are there; what was done, and what stood in the way.
    pub async fn hold_circuits(&self, meters: &mut Meters) -> Result<Vec<Held>, KeepError> {
        if !Circuits::are_kept(&self.folders) {
            return Ok(Vec::new());
        }
        let held = async {
            let circuits = Circuits::open(&self.folders, &self.kernel)?;
            circuits.hold(meters).await
        };
        held.await.map_err(|error| match error {
            CircuitsRefused::Keep(error) => *error,
            other => KeepError::Circuits(format!("circuits: {other}")),
        })
    }

    /// Whether shapers of the kit and engines of rows are as they are to be on the devices
    /// that are there, with their configuration and the programs beside them.
    pub(crate) async fn programs_stand(&self) -> Result<bool, KeepError> {
        let Some(entry) = self.confirmed()? else {
            return Ok(true);
        };
        let devices = self.kernel.devices().await?.into_keys().inserted();
        let mut desired = present(&self.at_rates(&entry), &devices);
        desired.devices.retain(|_, device| {
            let kind = device.root.as_ref().map(|root| &root.kind);
            matches!(kind, Some(QdiscKind::Kit(_) | QdiscKind::Rows(_)))
        });
        if desired.devices.is_empty() {
            return Ok(true);
        }
        let mut now = self.kernel.observe(&Scope::of([&desired])).await?;
        let wanted = &desired.devices;
        now.devices.retain(|name, _| wanted.contains_key(name));
        let only = |state: &State| State {
            devices: state.devices.clone(),
            ..State::default()
        };
        Ok(verify(&only(&now), &only(&desired)).is_empty())
    }

    /// Whether policies are in an entry, or were before it.
    fn has_policy(&self, entry: &Entry) -> Result<bool, KeepError> {
        Ok(entry.desired != State::default() || Memory::read(&self.folders)?.is_some())
    }

    /// Takes away what an unconfirmed first change of this run of the kernel
    /// left, where nothing was confirmed before.
    async fn give_up(&self, lock: &Lock, pending: &Pending) -> Result<usize, KeepError> {
        if pending.boot != self.folders.boot || Memory::read(&self.folders)?.is_none() {
            return Ok(0);
        }
        let planned = self.plan(&State::default(), false).await?;
        let steps = self.kernel.apply(&planned.plan).await?.steps;
        Memory::write(&self.folders, lock, None)?;
        Ok(steps)
    }

    /// Brings a state into force as far as its devices are there; how many
    /// steps it took. For what comes and goes by itself: no entry is written. A state
    /// that is not whole is the memory's: that goes on to say what absent devices had.
    async fn follow(
        &self,
        lock: &Lock,
        desired: &State,
        is_whole: bool,
    ) -> Result<usize, KeepError> {
        let devices = self.kernel.devices().await?.into_keys().inserted();
        let planned = self.plan(&present(desired, &devices), false).await?;
        let remembered = planned.memory.as_ref().is_some_and(|stored| {
            stored.memory.former == planned.former && stored.memory.applied == planned.plan.desired
        });
        if is_whole && !remembered {
            Memory::write(&self.folders, lock, Some(&planned.text(&self.folders)?))?;
        }
        let (plan, since) = (&planned.plan, &planned.since);
        if plan.steps.is_empty() {
            self.vouch(&Scope::of([&plan.desired]), since).await?;
            return Ok(0);
        }
        memory::forget(&self.folders)?;
        let applied = self.kernel.apply_since(plan, since).await?;
        self.settled(plan, &applied).await;
        Ok(applied.steps)
    }
}
