// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Applies the confirmed state, as far as its devices exist.

use super::Site;
use crate::circuits::{Circuits, CircuitsRefused, DeviceCircuits, Meters};
use crate::clock;
use crate::error::KeepError;
use crate::guard;
use crate::links::reroute;
use crate::store::folder::Lock;
use crate::store::head::{Head, Outcome, Pending};
use crate::store::history::Entry;
use crate::store::memory::{self, Memory};
use std::time::Duration;
use weirgate_kernel::Scope;
use weirgate_plan::{present, verify};
use weirgate_state::{QdiscKind, State};
use weirgate_units::Inserted as _;

impl Site {
    /// Applies the confirmed state, as far as its devices exist, and returns the number of steps.
    /// It runs at boot and after a crash of the machine.
    ///
    /// It writes no history entry; it only records the outcome of a change that nobody confirmed.
    pub async fn restore(&self, lock: &Lock) -> Result<usize, KeepError> {
        self.restore_and(lock, Pending::lapsed).await
    }

    /// Does so, and records `outcome` for the pending change.
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
        // Restore the links even if the policy cannot be restored.
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

    /// Restores the policy of the confirmed entry, or the state that replaces a damaged entry.
    async fn policy_back(
        &self,
        lock: &Lock,
        head: &mut Head,
        interrupted: Option<&Pending>,
    ) -> Result<usize, KeepError> {
        let (confirmed, is_damaged) = self.confirmed_by(head)?;
        // Write the head first, so that the memory never belongs to another entry than the head
        // says.
        let is_whole = match confirmed.as_ref().filter(|_| is_damaged) {
            Some(entry) => self.history.go_on_with(lock, head, entry)?,
            None => true,
        };
        match (confirmed, interrupted) {
            // An entry with links alone has no policy, so there is nothing to remember.
            (Some(entry), _) if self.has_policy(&entry)? => {
                self.follow(lock, &self.at_rates(&entry), is_whole).await
            }
            (_, Some(pending)) => self.give_up(lock, pending).await,
            (_, None) => Ok(0),
        }
    }

    /// Restores the routing over several links that an interrupted change replaced. After a reboot
    /// the kernel has none of that change.
    async fn links_back(&self, pending: &Pending) -> Result<usize, KeepError> {
        if pending.boot != self.folders.boot {
            return Ok(0);
        }
        match pending.former_routing()? {
            Some(routing) => reroute(&self.kernel, &routing).await,
            None => Ok(0),
        }
    }

    /// Brings the stored circuits into force on the present devices where they are not. Returns
    /// what was done, or why it failed, for each device. With `patience`, nothing is done if
    /// another process changes circuits for longer than that: it may have been stopped, and never
    /// let go.
    pub async fn hold_circuits(
        &self,
        meters: &mut Meters,
        patience: Option<Duration>,
    ) -> Result<Vec<DeviceCircuits>, KeepError> {
        if !Circuits::are_kept(&self.folders) {
            return Ok(Vec::new());
        }
        let held = async {
            let circuits = match patience {
                Some(patience) => {
                    Circuits::open_soon(&self.folders, &self.kernel, patience).await?
                }
                None => Some(Circuits::open(&self.folders, &self.kernel)?),
            };
            match circuits {
                Some(circuits) => circuits.hold(meters).await,
                None => Ok(Vec::new()),
            }
        };
        held.await.map_err(|error| match error {
            CircuitsRefused::Keep(error) => *error,
            other => KeepError::Circuits(format!("circuits: {other}")),
        })
    }

    /// Returns whether the kit's shapers and engines of rows are complete on the present devices:
    /// the qdiscs, their configuration, and the programs that belong to them.
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

    /// Returns whether the entry has policies, or an earlier one did.
    fn has_policy(&self, entry: &Entry) -> Result<bool, KeepError> {
        Ok(entry.desired != State::default() || Memory::read(&self.folders)?.is_some())
    }

    /// Removes what an unconfirmed first change of this boot left, if nothing was confirmed before.
    async fn give_up(&self, lock: &Lock, pending: &Pending) -> Result<usize, KeepError> {
        if pending.boot != self.folders.boot || Memory::read(&self.folders)?.is_none() {
            return Ok(0);
        }
        let planned = self.plan(&State::default(), false).await?;
        let steps = self.kernel.apply(&planned.plan).await?.steps;
        Memory::write(&self.folders, lock, None)?;
        Ok(steps)
    }

    /// Brings a state into force as far as its devices exist, and returns the number of steps.
    /// Writes no history entry, because devices come and go by themselves. If `is_whole` is false,
    /// `desired` comes from the memory itself, which stays as it is: it also has the state of
    /// absent devices.
    async fn follow(
        &self,
        lock: &Lock,
        desired: &State,
        is_whole: bool,
    ) -> Result<usize, KeepError> {
        let devices = self.kernel.devices().await?.into_keys().inserted();
        let planned = self.plan(&present(desired, &devices), false).await?;
        let remembered = planned.memory.as_ref().is_some_and(|stored| {
            stored.memory.former == planned.former && stored.memory.applied == planned.remembered()
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
