// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fills sets of DNS names and of followed objects with their present addresses and numbers.

use super::Site;
use crate::error::KeepError;
use crate::service::names::{self, Names};
use crate::store::folder::Lock;
use crate::store::memory::{self, Memory};
use std::collections::BTreeSet;
use std::time::Duration;
use weirgate_kernel::{Scope, Since};
use weirgate_state::{Content, State};

impl Site {
    /// Looks up the DNS names of a state, for [`Site::learn`].
    pub async fn look_up(&self, state: &State, patience: Duration) -> names::Answers {
        names::look_up(names::wanted(state).0, patience).await
    }

    /// Stores the answers of look-ups. Returns the names that failed, with reasons; these keep
    /// their former addresses. Names of the confirmed state and of a waiting change are not
    /// forgotten: the looked-up policy may be refused, or not be confirmed.
    pub fn learn(&self, lock: &Lock, answers: &names::Answers) -> Result<Vec<String>, KeepError> {
        if answers.is_empty() {
            return Ok(Vec::new());
        }
        let mut names = Names::read(&self.folders);
        let needed = self.named().ok();
        names.learn(&self.folders, lock, answers, |name| {
            // If a state is damaged, its names are not known, and none is forgotten.
            needed.as_ref().is_none_or(|needed| needed.contains(name))
        })?;
        let failed = answers
            .iter()
            .filter_map(|(name, answer)| Some(format!("{name}: {}", answer.as_ref().err()?)));
        Ok(failed.collect())
    }

    /// Returns the DNS names of the confirmed state and of a waiting change.
    fn named(&self) -> Result<BTreeSet<String>, KeepError> {
        let head = self.history.head()?;
        let mut named = BTreeSet::new();
        if let Some(entry) = self.confirmed()? {
            named = names::wanted(&entry.desired).0;
        }
        if let Some(pending) = head.pending {
            let entry = self.history.entry(pending.number)?;
            named.extend(names::wanted(&entry.desired).0);
        }
        Ok(named)
    }

    /// Puts the known addresses of DNS names, and the numbers of followed objects, into the sets of
    /// the applied tables. Returns how many sets changed. Nothing else is touched.
    pub async fn refill(&self, _lock: &Lock) -> Result<usize, KeepError> {
        let Some(memory) = Memory::read(&self.folders)? else {
            return Ok(0);
        };
        let known = Names::read(&self.folders);
        if memory.applied.refreshed_sets().next().is_none() {
            return Ok(0);
        }
        let applied = Scope::of([&memory.applied]);
        let vouched = self.vouched(&applied).await?;
        let scope = Scope {
            tables: applied.tables.clone(),
            ..Scope::default()
        };
        let observed = match vouched {
            Some(_) => self.refreshed(&memory.applied).await?,
            None => self.kernel.observe(&scope).await?,
        };
        let mut changed: u32 = 0;
        for (table, set) in memory.applied.refreshed_sets() {
            let has = observed
                .tables
                .iter()
                .filter(|other| (other.netdev, &other.name) == (table.netdev, &table.name))
                .flat_map(|other| &other.sets)
                .find(|other| other.name == set.name);
            let wanted = known.of(set);
            if let Some(Content::Refreshed(has)) = has.map(|has| &has.content)
                && !has.found.iter().eq(wanted.iter())
            {
                let wanted: Vec<u128> = wanted.into_iter().collect();
                memory::forget(&self.folders)?;
                self.kernel.refill(table, set, &wanted).await?;
                changed += 1;
            }
        }
        // Each refill is one transaction. If the generation has advanced further, another program
        // changed the tables.
        if let Some((before, handles)) = vouched.filter(|_| changed > 0) {
            let generation = before.generation.checked_add(changed);
            let since = Since {
                generation,
                handles,
            };
            self.vouch(&applied, &since).await?;
        }
        Ok(changed as usize)
    }

    /// Reads the refreshed sets of tables that are known to be present.
    async fn refreshed(&self, applied: &State) -> Result<State, KeepError> {
        let mut found = State::default();
        for table in &applied.tables {
            let mut has = table.emptied();
            for (_, set) in applied.refreshed_sets().filter(|(own, _)| *own == table) {
                has.sets.push(self.kernel.refreshed(table, set).await?);
            }
            found.tables.push(has);
        }
        Ok(found)
    }
}
