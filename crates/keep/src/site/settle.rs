// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The end of a change that waits for confirmation: confirmed, or taken back.

use super::Site;
use crate::error::KeepError;
use crate::guard;
use crate::store::head::Outcome;

impl Site {
    /// Confirms the change that waits for confirmation. Returns its number.
    pub async fn confirm(&self) -> Result<u64, KeepError> {
        let lock = self.lock().await?;
        let mut head = self.history.head()?;
        let Some(pending) = head.pending.clone() else {
            let text = "nothing waits for confirmation";
            return Err(KeepError::Nothing(text.to_owned()));
        };
        head.settle(pending.number, Outcome::Confirmed);
        self.history.set_head(&lock, &head)?;
        guard::relieve(&self.folders, pending.number);
        Ok(pending.number)
    }

    /// Takes back the change that waits for confirmation. Returns its number, or `None` if nothing
    /// waits.
    pub async fn take_back(&self) -> Result<Option<u64>, KeepError> {
        let Some(pending) = self.history.head()?.pending else {
            return Ok(None);
        };
        // The guard knows exactly what was there before. If it does not act in time, this process
        // does, and a late guard finds the change settled.
        let asked = guard::give_back(&self.folders, pending.number);
        let lock = self.lock().await?;
        if self.history.head()?.awaits(pending.number) {
            self.restore_and(&lock, |_| Outcome::TakenBack).await?;
        }
        // A set that both policies have still holds the addresses that it had during the change.
        self.refill(&lock).await?;
        match self.history.head()?.outcomes.get(&pending.number) {
            Some(Outcome::Lost(_)) => asked.map(|()| Some(pending.number)),
            Some(Outcome::Confirmed) => Ok(None),
            _ => Ok(Some(pending.number)),
        }
    }
}
