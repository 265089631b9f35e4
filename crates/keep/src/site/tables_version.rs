// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether the kernel's tables are known without reading them: the generation of nf_tables at which
//! they were last found equal to the stored state.

use super::Site;
use crate::error::KeepError;
use crate::store::memory;
use weirgate_kernel::{Applied, Handles, Scope, Since, TablesVersion};
use weirgate_plan::Plan;

impl Site {
    /// Returns the version of these tables if it still is the one at which the kernel's tables
    /// equalled the stored state.
    pub(super) async fn vouched(
        &self,
        scope: &Scope,
    ) -> Result<Option<(TablesVersion, Handles)>, KeepError> {
        let Some(seen) = memory::seen(&self.folders) else {
            return Ok(None);
        };
        let now = self.kernel.tables_version(scope).await?;
        Ok(Some(seen).filter(|(seen, _)| now == *seen))
    }

    /// Records that at this generation of nf_tables the kernel holds the stored state, unless the
    /// generation has changed since, or a record exists.
    pub(super) async fn vouch(&self, scope: &Scope, since: &Since) -> Result<(), KeepError> {
        let unknown = || memory::seen(&self.folders).is_none();
        let Some(generation) = since.generation.filter(|_| unknown()) else {
            return Ok(());
        };
        let version = self.kernel.tables_version(scope).await?;
        if version.generation == generation {
            memory::see(&self.folders, version, since.handles.clone())?;
        }
        Ok(())
    }

    /// Records the version after a change that was read back and equals the stored state.
    pub(super) async fn settled(&self, plan: &Plan, applied: &Applied) {
        let scope = Scope::of([&plan.desired]);
        // Ignore errors: the change stands, and the tables are merely read again next time.
        let since = Since {
            generation: applied.generation,
            handles: applied.handles.clone(),
        };
        let _ = self.vouch(&scope, &since).await;
    }
}
